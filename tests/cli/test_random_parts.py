# SPDX-License-Identifier: MIT
"""masked-softmax, linear and batch-dot at random sizes, through files, against the NumPy computation."""
import os

import numpy as np
from attention_numpy import batch_dot as batch_dot_numpy, linear as linear_numpy, masked_softmax
from conftest import note
from element_types import BF16
from judging import judge, reference_and_plain
from random_options import KEYS, QUERIES, WIDTHS
from test_random_cases import DEFAULT_SEED, random_type

CASES = 80


def run_cases(name, problem, make):
    """make(rng) -> type of elements, words, arrays, compute(dtype, order)"""
    seed, worst, failures = int(os.environ.get("ATTUNE_TEST_SEED", DEFAULT_SEED)), 0.0, []
    for n in range(CASES):
        of, words, arrays, compute = make(np.random.default_rng([seed, n]))
        words += ["--dtype", "bf16"] if of is BF16 else []
        try:
            problem.save(**arrays)
            got = problem.succeeds(*words)
            exact, plain = reference_and_plain(compute, of)
            worst = max(worst, judge("out", got, plain, exact, of))
        except AssertionError as error:
            what = " ".join([f"{k}{a.shape}{a.dtype.name}" for k, a in arrays.items()] + words)
            failures.append(f"case {n} of seed {seed}: {what}\n    {str(error).splitlines()[0]}")
    note(f"random cases of {name}: ATTUNE_TEST_SEED={seed}, {CASES} cases, largest share of the allowed error: {worst:.2f}")
    assert not failures, f"{len(failures)} of {CASES} failed\n" + "\n".join(failures)


def random_outer(rng, most):
    return tuple(int(e) for e in rng.choice([0, 1, 2, 3, 5], rng.integers(0, most + 1), p=[0.03, 0.3, 0.3, 0.27, 0.1]))


def test_random_cases_of_masked_softmax(softmax):
    def make(rng):
        of, keys, queries = random_type(rng), int(rng.choice(KEYS)), int(rng.choice(QUERIES))
        batch = int(rng.integers(1, 4))
        shape = [(batch, keys), (batch, queries, keys), (batch, int(rng.integers(1, 4)), queries, keys)][rng.integers(0, 3)]
        fill = str(rng.choice(["zero", "seed"]))
        words, arrays, lens = ["--fill", fill, "--threads", str(rng.integers(1, 4))], {}, None
        scores = of.of(rng.standard_normal(shape) * rng.choice([1, 30]))
        if rng.random() < 0.7:
            rows = (batch, queries) if len(shape) > 2 and rng.random() < 0.5 else (batch,)
            lens = arrays["lens"] = rng.integers(0, keys + 1, rows)
            words += ["--valid-lens", "lens.npy"]
            if rng.random() < 0.5:  # what masked scores hold has no effect
                rows = lens.reshape(batch, *[1] * (len(shape) - 3), -1)[..., None] if len(shape) > 2 else lens[:, None]
                scores[np.broadcast_to(np.arange(keys) >= rows, shape)] = rng.choice([np.nan, np.inf])
        arrays["s"] = scores
        return of, words, arrays, lambda dtype, order: masked_softmax(scores, lens, fill, dtype, order)
    run_cases("masked-softmax", softmax, make)


def test_random_cases_of_linear(linear):
    def make(rng):
        of, k, n = random_type(rng, rng.random() < 0.5), int(rng.choice(WIDTHS)), int(rng.choice([*WIDTHS, 200, 257]))
        x = of.of(rng.standard_normal((*random_outer(rng, 3), int(rng.choice(QUERIES)), k)))
        weight, bias = of.of(rng.standard_normal((n, k))), of.of(rng.standard_normal(n))
        return of, ["--threads", str(rng.integers(1, 4))], {"x": x, "w": weight, "b": bias}, \
            lambda dtype, order: linear_numpy(x, weight, bias, dtype, order)
    run_cases("linear", linear, make)


def test_random_cases_of_batch_dot(batch_dot):
    def make(rng):
        of, outer = random_type(rng, rng.random() < 0.5), random_outer(rng, 3)
        n, m, p = (int(rng.choice(sizes)) for sizes in (QUERIES, [0, *KEYS[:14]], WIDTHS))
        a, x = of.of(rng.standard_normal((*outer, n, m))), of.of(rng.standard_normal((*outer, m, p)))
        return of, ["--threads", str(rng.integers(1, 4))], {"a": a, "x": x}, \
            lambda dtype, order: batch_dot_numpy(a, x, dtype, order)
    run_cases("batch-dot", batch_dot, make)
