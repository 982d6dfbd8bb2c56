# SPDX-License-Identifier: MIT
"""attune.define(): the attention of docs/write-your-own-attention.md from Python, mistakes, the cache."""
import importlib.util
import os
import shutil
import subprocess
import sys

import attention_numpy
import attune
import numpy as np
import pytest
from arrays import normal
from attune import _build
from judging import judge, reference_and_plain

BODY = 'struct S { attune::Capture slopes{"slopes", 1};\n%s };'
SCORE = BODY % "Halide::Expr score(Halide::Expr x, attune::Index at) const { return %s; }"


@pytest.fixture
def tensors(rng):
    return [normal(rng, *shape, dtype=np.float64) for shape in ((2, 4, 5, 8), (2, 2, 9, 8), (2, 2, 9, 6), (4,))]


def table_of(rate, dtype):
    """The score of score.h beside the product, of five queries that are the last of nine."""
    distance = np.abs(np.arange(5)[:, None] + 4 - np.arange(9)).astype(dtype)
    return -np.exp(rate.astype(dtype))[:, None, None] * np.log(1 + distance)


def test_forward(recency, tensors):
    assert [c["name"] for c in recency.captures] == ["rate"] and "rate" in repr(recency)
    q, k, v, rate = (t.astype(np.float32) for t in tensors)
    context = attune.Context(threads=1)
    got = recency(q, k, v, rate=rate, lse=True, context=context)
    assert context.last_variant.startswith("user_recency_f32")
    compute = lambda dtype, order: attention_numpy.sdpa(
        q, k, v, attention_numpy.Options(causal="bottom-right", bias=table_of(rate, dtype)), dtype, order)
    for name in ("out", "lse"):
        exact, plain = reference_and_plain(lambda dtype, order: getattr(compute(dtype, order), name), np.float32)
        judge(name, getattr(got, name), plain, exact, np.float32)
    assert np.array_equal(recency(q, k, v, rate=rate), got.out)
    out = np.empty_like(got.out)
    assert recency(q, k, v, rate=rate, out=out) is out and np.array_equal(out, got.out)


def test_gradients(recency, tensors, rng):
    q, k, v, rate = tensors
    forward, grad = recency(q, k, v, rate=rate, lse=True), normal(rng, 2, 4, 5, 6, dtype=np.float64)
    names = ["query", "key", "value", "rate"]
    got = recency.backward(q, k, v, forward.out, forward.lse, grad, rate=rate, gradients=names)
    assert list(recency.backward(q, k, v, forward.out, forward.lse, grad, rate=rate)) == names[:3]
    for n, name in enumerate(names):
        difference = np.zeros_like(tensors[n])
        for at in np.ndindex(difference.shape):
            sides = []
            for step in (1e-6, -1e-6):
                moved = [t.copy() for t in tensors]
                moved[n][at] += step
                sides.append(np.sum(grad * recency(*moved[:3], rate=moved[3])))
            difference[at] = (sides[0] - sides[1]) / 2e-6
        assert np.max(np.abs(got[name] - difference)) < 1e-6 * np.max(np.abs(difference)), name


def test_bad_arguments(recency, tensors):
    q, k, v, rate = tensors
    for given, message in [({}, "^rate: must be given$"), (dict(rate=rate[None]), "^rate: rank must be 1, got 2$"),
                           (dict(rate=rate.astype(np.float32)), "^rate: type must be f64, got f32$"),
                           (dict(rate=rate[:2]), "^rate: is too small"), (dict(rate=rate, score="cosine"), "^score: ")]:
        with pytest.raises(ValueError, match=message):
            recency(q, k, v, **given)
    with pytest.raises(TypeError, match="unexpected keyword argument 'rates'"):
        recency(q, k, v, rates=rate)
    with pytest.raises(ValueError, match="^gradients: "):
        recency.backward(q, k, v, v, v, v, rate=rate, gradients=["rates"])


def test_the_cache(recency, recency_source, monkeypatch):
    """The same source is found without a build, in another process too."""
    compiler = shutil.which(os.environ.get("CXX") or "c++")
    monkeypatch.setenv("PATH", "")  # neither CMake nor ninja: nothing is built
    monkeypatch.setenv("CXX", compiler)
    again = attune.define("recency", recency_source, dtypes=["f32", "f64"])
    assert again.file == recency.file and again.file.is_relative_to(os.environ["XDG_CACHE_HOME"])
    monkeypatch.undo()
    program = f"import attune; print(attune.define('recency', {str(recency_source)!r}, dtypes=['f32', 'f64']).file)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(recency.file) and not done.stderr


@pytest.mark.parametrize("source, message", [
    (SCORE % "x + slopes(at.h, at.i)", "^capture slopes has rank 1 and is read with 2 indices$"),
    (SCORE % "x + slope(at.h)", r"^broken:2:\d+: error: .*slope"),
    (BODY % "int score(int x) const { return x; }",
     r"^score must be: Halide::Expr score\(Halide::Expr x, attune::Index at\) const$"),
])
def test_mistakes(recency, source, message):
    with pytest.raises(attune.BuildError, match=message) as caught:
        attune.define("broken", source)
    assert "\n" not in str(caught.value) and len(caught.value.output) > 100


def test_arguments_of_cmake(recency):
    source = SCORE % "x + slopes(at.h)"
    for name, more, message in [("sdpa", {}, r"^attune_add_attention\(sdpa\): the name is taken by an op of the library; "),
                                ("broken", dict(dtypes="f31"), r"DTYPES f31: must be of f32, f64, bf16, f16$")]:
        with pytest.raises(ValueError, match=message):
            attune.define(name, source, **more)


def test_refused_before_anything_is_built(tmp_path, monkeypatch):
    source = SCORE % "x + slopes(at.h)"
    for call, message in [
            (lambda: attune.define("2x", source), "^name: "), (lambda: attune.define("x", "no_file.h"), "^source: there is no"),
            (lambda: attune.define("x", source, dtypes=["f32;x"]), "^dtypes: "),
            (lambda: attune.define("x", "struct A {};\nstruct B {};"), "^type: .*the source has A, B$"),
            (lambda: attune.define("x", "// struct A {};\n"), "^type: .*the source has no struct$")]:
        with pytest.raises(ValueError, match=message):
            call()
    monkeypatch.delenv("ATTUNE_ROOT", raising=False)
    with pytest.raises(attune.UnsupportedError, match="ATTUNE_ROOT"):
        attune.define("x", source)
    monkeypatch.setenv("ATTUNE_ROOT", str(tmp_path))
    with pytest.raises(attune.UnsupportedError, match="no library is installed in ATTUNE_ROOT"):
        attune.define("x", source)


def test_captures_with_names_of_arguments(recency):
    """So named, a capture could not be given."""
    source = SCORE.replace("slopes", "scale") % "x + scale(at.h)"
    with pytest.raises(ValueError, match="^scale: is a capture and has the name of an argument of attention"):
        attune.define("of_scale", source, schedules=["prefill"], backward=False)


def test_steps_are_shown_after_a_second(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(_build.time, "monotonic", lambda: now[0])
    steps = _build._Steps("x")
    steps.say("[1/3] a")
    now[0] = 0.9
    steps.say("[2/3] b")
    assert capsys.readouterr() == ("", "")
    now[0] = 1.1
    steps.say("[3/3] c")
    assert capsys.readouterr() == ("", "attune: x: [1/3] a\nattune: x: [2/3] b\nattune: x: [3/3] c\n")


def test_files_that_a_source_includes(tmp_path):
    (tmp_path / "a.h").write_text('#include "b.h"\n#include <vector>\n')
    (tmp_path / "b.h").write_text('  # include "a.h"\n#include "none.h"\n')
    seen = {}
    _build._included(tmp_path / "a.h", seen)
    assert [path.name for path in seen] == ["a.h", "b.h"]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_autograd(recency, tensors):
    import torch
    q, k, v, rate = (torch.tensor(t, requires_grad=True) for t in tensors)
    small = q[:1, :, :2], k[:1, :, :3], v[:1, :, :3, :2]
    leaves = [t.detach().clone().requires_grad_() for t in (*small, rate)]
    assert torch.autograd.gradcheck(lambda q, k, v, rate: recency(q, k, v, rate=rate), leaves)
    assert torch.autograd.gradcheck(lambda q, k, v, rate: recency(q, k, v, rate=rate, lse=True)[:2], leaves)
    assert torch.autograd.gradcheck(lambda rate: recency(*(t.detach() for t in small), rate=rate), leaves[3])
    out = recency(q, k, v, rate=rate)
    assert np.array_equal(out.detach().numpy(), recency(*tensors[:3], rate=tensors[3]))
    plain = recency(*(t.detach() for t in (q, k, v)), rate=rate.detach())
    assert isinstance(plain, torch.Tensor) and not plain.requires_grad and torch.equal(plain, out)
    with torch.no_grad():
        assert torch.equal(recency(q, k, v, rate=rate), out)
    with pytest.raises(NotImplementedError, match="out is not recorded by autograd"):
        recency(q, k, v, rate=rate, out=torch.empty_like(out))
    assert torch.equal(torch.compile(lambda q: recency(q, k, v, rate=rate) * 2, backend="eager")(q), out * 2)
