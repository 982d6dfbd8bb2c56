# SPDX-License-Identifier: MIT
"""attune run merge against the NumPy computation."""
import numpy as np
import pytest
from conftest import Problem, normal
from judging import judge, reference_and_plain


@pytest.fixture
def merge(attune, tmp_path):
    p = Problem(attune, tmp_path, "merge", out_a="oa.npy", lse_a="la.npy", out_b="ob.npy", lse_b="lb.npy", out="o.npy")
    rng = np.random.default_rng(10)
    p.save(oa=normal(rng, 2, 4, 3, 6), ob=normal(rng, 2, 4, 3, 6), la=normal(rng, 2, 4, 3), lb=normal(rng, 2, 4, 3))
    return p


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rank", [2, 3, 4])
def test_merge(merge, dtype, rank):
    for name in ("oa", "ob", "la", "lb"):
        array = merge.load(name).astype(dtype)
        merge.save(**{name: array[(0,) * (4 - rank)]})
    merge.succeeds("--lse", "l.npy")
    oa, ob, la, lb = (merge.load(n) for n in ("oa", "ob", "la", "lb"))

    def compute(dtype, order):
        a, b = la.astype(dtype), lb.astype(dtype)
        lse = np.logaddexp(a, b)
        return np.exp(a - lse)[..., None] * oa.astype(dtype) + np.exp(b - lse)[..., None] * ob.astype(dtype), lse

    exact, plain = reference_and_plain(compute, dtype)
    judge("out", merge.load("o"), [p[0] for p in plain], exact[0], dtype)
    judge("lse", merge.load("l"), [p[1] for p in plain], exact[1], dtype)


def test_merge_of_empty_parts(merge):
    la, oa = merge.load("la"), merge.load("oa")
    la[0], oa[0] = -np.inf, np.nan
    merge.save(la=la, oa=oa)
    out = merge.succeeds("--lse", "l.npy")
    assert np.array_equal(out[0], merge.load("ob")[0]) and np.array_equal(merge.load("l")[0], merge.load("lb")[0])


def test_bad_merge(merge):
    merge.save(l3=np.ones((2, 4, 2), np.float32), o64=merge.load("ob").astype(np.float64))
    merge.fails("--lse-b", lse_b="l3.npy")
    merge.fails("--out-b", out_b="o64.npy", says="--dtype")
    merge.fails("--lse-a", lse_a="oa.npy")
