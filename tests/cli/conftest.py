# SPDX-License-Identifier: MIT
"""The program under test, as a function, and for each command a folder with a small problem in it."""
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

NOTES = []


def note(text):
    """A line for the end of the report, also where every test passes."""
    NOTES.append(text)


def pytest_terminal_summary(terminalreporter):
    for text in NOTES:
        terminalreporter.write_line(text)


class Program:
    def __init__(self, path):
        self.path = path

    def __call__(self, *arguments, cwd=None, env=None, limit=None, stdout=subprocess.PIPE):
        """limit: a function that runs in the new process before the program does."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ATTUNE_")}
        return subprocess.run([self.path, *map(str, arguments)], cwd=cwd, env={**clean, **(env or {})}, stdout=stdout,
                              stderr=subprocess.PIPE, timeout=300, encoding="utf-8", preexec_fn=limit)


@pytest.fixture(scope="session")
def attune():
    path = os.environ.get("ATTUNE_PROGRAM")
    assert path, "ATTUNE_PROGRAM must name the program to test"
    return Program(path)


@pytest.fixture(scope="session")
def variants(attune):
    return json.loads(attune("variants", "--json").stdout)


class Problem:
    """Arrays in files of a folder; run() runs `attune run COMMAND` on them. An option that names a file is a keyword:
    w_query="wq.npy" is --w-query wq.npy, and None leaves it out."""

    def __init__(self, program, folder, command, **given):
        self.program, self.folder, self.command, self.given = program, folder, command, given

    def save(self, **arrays):
        for name, array in arrays.items():
            np.save(self.folder / f"{name}.npy", array)

    def load(self, name):
        return np.load(self.folder / f"{name}.npy", allow_pickle=False)

    def files(self):
        """Every file with its contents."""
        return {p.relative_to(self.folder): p.read_bytes() for p in sorted(self.folder.rglob("*")) if p.is_file()}

    def run(self, *more, env=None, limit=None, **given):
        options = [word for name, file in {**self.given, **given}.items() if file is not None
                   for word in ("--" + name.replace("_", "-"), file)]
        return self.program("run", self.command, *options, *more, cwd=self.folder, env=env, limit=limit)

    def succeeds(self, *more, **given):
        done = self.run(*more, **given)
        assert (done.returncode, done.stderr, done.stdout) == (0, "", ""), done.stderr
        return np.load(self.folder / {**self.given, **given}["out"], allow_pickle=False)

    def dropout_mask(self, shape, *words):
        """Which weights `attune run dropout-mask` keeps with these options."""
        done = self.program("run", "dropout-mask", "--shape", ",".join(map(str, shape)), *words, "--out", "kept.npy",
                            cwd=self.folder)
        assert (done.returncode, done.stderr, done.stdout) == (0, "", ""), done.stderr
        mask = self.load("kept")
        assert mask.shape == tuple(shape) and mask.dtype == bool
        return mask

    def fails(self, argument, *more, says="", **given):
        """One line on stderr that names the argument, exit code 2, nothing written."""
        before = self.files()
        done = self.run(*more, **given)
        assert done.returncode == 2, (done.returncode, done.stderr)
        assert done.stdout == ""
        assert done.stderr.startswith(f"attune: {argument}: ") and says in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1 and done.stderr.endswith("\n"), done.stderr
        assert self.files() == before, "something was written"
        return done.stderr


def normal(rng, *shape):
    return rng.standard_normal(shape, np.float32)


@pytest.fixture
def problem(attune, tmp_path):
    """A problem of sdpa: q.npy, k.npy and v.npy."""
    p = Problem(attune, tmp_path, "sdpa", query="q.npy", key="k.npy", value="v.npy", out="o.npy")
    rng = np.random.default_rng(1)
    p.save(q=normal(rng, 2, 4, 3, 8), k=normal(rng, 2, 2, 5, 8), v=normal(rng, 2, 2, 5, 6))
    return p


class BackwardProblem(Problem):
    """A problem of sdpa-backward: gradients are asked for by name, and come back by name."""

    OPTIONS = {"query": "--grad-query", "key": "--grad-key", "value": "--grad-value", "bias": "--grad-bias",
               "slopes": "--grad-slopes", "sinks": "--grad-sinks", "score_weight": "--grad-score-weight"}

    def gradients(self, *more, wanted=("query", "key", "value"), **given):
        words = [word for name in wanted for word in (self.OPTIONS[name], f"d_{name}.npy")]
        done = self.run(*words, *more, **given)
        assert (done.returncode, done.stderr, done.stdout) == (0, "", ""), done.stderr
        return {name: self.load(f"d_{name}") for name in wanted}


@pytest.fixture
def backward(attune, tmp_path):
    """The problem of sdpa, and do.npy."""
    p = BackwardProblem(attune, tmp_path, "sdpa-backward", query="q.npy", key="k.npy", value="v.npy", grad_out="do.npy")
    rng = np.random.default_rng(1)
    p.save(q=normal(rng, 2, 4, 3, 8), k=normal(rng, 2, 2, 5, 8), v=normal(rng, 2, 2, 5, 6), do=normal(rng, 2, 4, 3, 6))
    return p


@pytest.fixture
def additive(attune, tmp_path):
    """The textbook's layer: one head, widths that differ, no biases."""
    p = Problem(attune, tmp_path, "additive", query="q.npy", key="k.npy", value="v.npy", out="o.npy", w_query="wq.npy",
                w_key="wk.npy", w_score="w.npy")
    rng = np.random.default_rng(2)
    p.save(q=normal(rng, 2, 3, 8), k=normal(rng, 2, 5, 4), v=normal(rng, 2, 5, 6), wq=normal(rng, 7, 8), wk=normal(rng, 7, 4),
           w=normal(rng, 7))
    return p


class AdditiveBackwardProblem(BackwardProblem):
    OPTIONS = {**BackwardProblem.OPTIONS, **{name: "--grad-" + name.replace("_", "-")
                                             for name in ("w_query", "w_key", "b_query", "b_key", "w_score")}}


@pytest.fixture
def additive_backward(attune, tmp_path):
    """Four heads on two, widths that differ, and do.npy."""
    p = AdditiveBackwardProblem(attune, tmp_path, "additive-backward", query="q.npy", key="k.npy", value="v.npy",
                                grad_out="do.npy", w_query="wq.npy", w_key="wk.npy", w_score="w.npy")
    rng = np.random.default_rng(3)
    p.save(q=normal(rng, 2, 4, 3, 8), k=normal(rng, 2, 2, 5, 4), v=normal(rng, 2, 2, 5, 6), do=normal(rng, 2, 4, 3, 6),
           wq=normal(rng, 7, 8), wk=normal(rng, 7, 4), w=normal(rng, 7), bq=normal(rng, 7), bk=normal(rng, 7))
    return p


@pytest.fixture
def mha(attune, tmp_path):
    """Cross-attention with four heads over two of the key, widths that differ, all biases."""
    p = Problem(attune, tmp_path, "mha", query="q.npy", key="k.npy", value="v.npy", out="o.npy", heads="4", kv_heads="2",
                w_query="wq.npy", w_key="wk.npy", w_value="wv.npy", w_out="wo.npy", b_query="bq.npy", b_key="bk.npy",
                b_value="bv.npy", b_out="bo.npy")
    rng = np.random.default_rng(3)
    p.save(q=normal(rng, 2, 3, 8), k=normal(rng, 2, 5, 6), v=normal(rng, 2, 5, 7))
    p.save(wq=normal(rng, 16, 8), wk=normal(rng, 8, 6), wv=normal(rng, 10, 7), wo=normal(rng, 9, 20))
    p.save(bq=normal(rng, 16), bk=normal(rng, 8), bv=normal(rng, 10), bo=normal(rng, 9))
    return p


@pytest.fixture
def softmax(attune, tmp_path):
    p = Problem(attune, tmp_path, "masked-softmax", scores="s.npy", out="o.npy")
    p.save(s=normal(np.random.default_rng(4), 2, 3, 5))
    return p


@pytest.fixture
def linear(attune, tmp_path):
    p = Problem(attune, tmp_path, "linear", x="x.npy", weight="w.npy", bias="b.npy", out="o.npy")
    rng = np.random.default_rng(5)
    p.save(x=normal(rng, 2, 3, 8), w=normal(rng, 5, 8), b=normal(rng, 5))
    return p


@pytest.fixture
def batch_dot(attune, tmp_path):
    p = Problem(attune, tmp_path, "batch-dot", a="a.npy", x="x.npy", out="o.npy")
    rng = np.random.default_rng(6)
    p.save(a=normal(rng, 2, 3, 4), x=normal(rng, 2, 4, 5))
    return p
