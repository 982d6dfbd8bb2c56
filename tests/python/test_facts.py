# SPDX-License-Identifier: MIT
"""Facts, plans, pictures, signatures and stubs."""
import inspect
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as xml

import attune
import attune.context_parallel
import numpy as np
import pytest
from arrays import normal
from attention_numpy import standard_slopes

TREE = pathlib.Path(__file__).resolve().parents[2]


def test_variants_and_targets():
    variants, targets = attune.variants(), attune.targets()
    assert {v["target"] for v in variants} <= {t["name"] for t in targets}
    assert any(v["runs_here"] and v["op"] == "sdpa" for v in variants)
    facts = attune.doctor()
    assert facts["variants"] == len(variants) and facts["threads"]["threads"] >= 1
    assert facts["version"] == attune.__version__ == attune.version()
    assert sum(t["variants"] for t in facts["targets"]) == len(variants)
    assert np.array_equal(np.array(attune.alibi_slopes(12), np.float32), standard_slopes(12))


def test_plan(rng):
    plan = attune.plan_sdpa(query_heads=8, key_heads=8, queries=64, keys=64, head_dim=64, value_dim=64, causal="top_left")
    a = normal(rng, 1, 8, 64, 64)
    context = attune.Context()
    attune.scaled_dot_product_attention(a, a, a, causal="top_left", context=context)
    assert plan["variant"] == context.last_variant and plan["candidates"][0]["predicted_us"] > 0
    assert attune.plan_sdpa(score="cosine", keys=64, head_dim=64, value_dim=64)["variant"].startswith("cosine")
    product = attune.plan_product(rows=64, columns=64, depth=64, context=context)
    assert product["variant"].startswith("linear_f32")
    with pytest.raises(ValueError, match="^dtype: "):
        attune.plan_sdpa(dtype="i32")


@pytest.mark.parametrize("shape, panels", [((2, 3, 4, 5), 6), ((2, 4, 5), 2), ((4, 5), 1)])
def test_heatmap(rng, shape, panels):
    weights = attune.masked_softmax(normal(rng, *shape).reshape(-1, *shape[-2:]), valid_lens=None).reshape(shape)
    picture = attune.heatmap(weights, query_labels=["<a>", "b", "c", "d"])
    assert picture._repr_svg_() == picture.svg
    root = xml.fromstring(picture.svg.encode())
    of = lambda cls: [e for e in root.iter() if e.get("class") == cls]
    assert len(of("panel")) == panels and len(of("cell")) == weights.size
    assert "<a>" in [e.text for e in root.iter()]
    with pytest.raises(ValueError, match="^key_labels: has 1 labels for 5 rows"):
        attune.heatmap(weights, key_labels=["x"])
    with pytest.raises(ValueError, match="^weights: has more than"):
        attune.heatmap(np.zeros((600, 600), np.float32))


def test_heatmap_has_the_bytes_of_the_program(rng, tmp_path):
    """`attune run sdpa --heatmap` draws with the same code."""
    program = os.environ.get("ATTUNE_PROGRAM")
    if not program:
        pytest.skip("ATTUNE_PROGRAM names no program")
    arrays = dict(zip("qkv", (normal(rng, 1, 2, 4, 8), normal(rng, 1, 2, 5, 8), normal(rng, 1, 2, 5, 8))))
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    subprocess.run([program, "run", "sdpa", "--query", "q.npy", "--key", "k.npy", "--value", "v.npy", "--out", "o.npy",
                    "--heatmap", "picture.svg"], cwd=tmp_path, check=True)
    weights = attune.scaled_dot_product_attention(*arrays.values(), weights=True).weights
    assert (tmp_path / "picture.svg").read_text() == attune.heatmap(weights).svg


def test_every_function_says_what_it_takes():
    modules = {name: module for module in (attune, attune.context_parallel) for name in module.__all__}
    for name, module in modules.items():
        thing = getattr(module, name)
        if name == "Attention" or inspect.isclass(thing):
            continue
        text = thing.__doc__
        assert text and len(text) > 40, name
        first = text.split("\n")[0]
        if "Args:" in text and first.startswith(name + "("):
            for argument in first[len(name) + 1:first.rindex(") ->")].split(", "):
                word = argument.split(":")[0].strip()
                if word.isidentifier() and ":" in argument:
                    assert f"    {word}: " in text, f"{name}: {word} is not described"


def test_stubs_are_current(tmp_path):
    pytest.importorskip("nanobind")
    made = tmp_path / "_attune.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "attune._attune", "-p",
               str(TREE / "python" / "stub_patterns.txt")]
    subprocess.run([*command, "-o", str(made)], check=True)
    stored = TREE / "python" / "attune" / "_attune.pyi"
    assert made.read_text() == stored.read_text(), f"to accept: PYTHONPATH=... {' '.join(command)} -o {stored}"
    shipped = pathlib.Path(attune.__file__).parent
    assert (shipped / "_attune.pyi").exists() and (shipped / "py.typed").exists()
