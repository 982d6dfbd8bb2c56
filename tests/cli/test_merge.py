# SPDX-License-Identifier: MIT
"""attune run merge of two and more parts, against the NumPy computation."""
import numpy as np
import pytest
from attention_numpy import stored, terms
from conftest import Problem, normal
from element_types import BF16, F16, F32, F64
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


@pytest.fixture
def parts(attune, tmp_path):
    """A merge of o0.npy and l0.npy, o1.npy and l1.npy, ..."""
    p = Problem(attune, tmp_path, "merge", out="o.npy", lse="l.npy")
    rng = np.random.default_rng(11)
    for n in range(6):
        p.save(**{f"o{n}": normal(rng, 2, 4, 3, 6), f"l{n}": 3 * normal(rng, 2, 4, 3)})
    return p


def words_of(count):
    return [word for n in range(count) for word in ("--part", f"o{n}.npy", f"l{n}.npy")]


@pytest.mark.parametrize("of", [F32, F64, F16, BF16], ids=lambda of: of.name)
@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_merge_of_parts(parts, of, count):
    sums = np.float64 if of is F64 else np.float32
    for n in range(count):
        parts.save(**{f"o{n}": of.of(parts.load(f"o{n}")), f"l{n}": parts.load(f"l{n}").astype(sums)})
    parts.succeeds(*words_of(count), *(["--dtype", "bf16"] if of is BF16 else []))
    outs, lses = ([parts.load(f"{name}{n}") for n in range(count)] for name in "ol")

    def compute(dtype, order):
        listed = terms(count, order)
        of_parts = [lses[n].astype(dtype) for n in listed]
        largest = np.max(of_parts, axis=0)
        lse = largest + np.log(sum(np.exp(part - largest) for part in of_parts))
        out = sum(np.exp(part - lse)[..., None] * outs[n].astype(dtype) for n, part in zip(listed, of_parts))
        return stored(out), lse

    exact, plain = reference_and_plain(compute, of)
    judge("out", parts.load("o"), [p[0] for p in plain], exact[0], of)
    judge("lse", parts.load("l"), [p[1].astype(sums) for p in plain], exact[1], sums)


def test_two_parts_have_the_bits_of_a_and_b(parts):
    parts.succeeds(*words_of(2))
    parts.succeeds(out_a="o0.npy", lse_a="l0.npy", out_b="o1.npy", lse_b="l1.npy", out="o_ab.npy", lse="l_ab.npy")
    assert np.array_equal(parts.load("o"), parts.load("o_ab")) and np.array_equal(parts.load("l"), parts.load("l_ab"))
    parts.succeeds(*words_of(3))
    parts.succeeds("--part", "o2.npy", "l2.npy", out_a="o0.npy", lse_a="l0.npy", out_b="o1.npy", lse_b="l1.npy",
                   out="o_ab.npy", lse="l_ab.npy")
    assert np.array_equal(parts.load("o"), parts.load("o_ab"))


def test_one_part_and_parts_without_keys(parts):
    assert np.array_equal(parts.succeeds(*words_of(1)), parts.load("o0"))
    for n in (0, 2, 3):
        parts.save(**{f"l{n}": np.full((2, 4, 3), -np.inf, np.float32), f"o{n}": np.full((2, 4, 3, 6), np.nan, np.float32)})
    assert np.array_equal(parts.succeeds(*words_of(4)), parts.load("o1")) and np.array_equal(parts.load("l"), parts.load("l1"))


def test_bad_parts(parts):
    parts.save(l_short=np.ones((2, 4, 2), np.float32), o_short=np.ones((2, 4, 2, 6), np.float32),
               o_flat=np.ones((4, 3, 6), np.float32), o_64=np.ones((2, 4, 3, 6)))
    three = words_of(2) + ["--part"]
    parts.fails("--out-a", says="is required, or --part")
    parts.fails("--part", *three, "o2.npy", says="OUT and LSE of each part")
    parts.fails("--part", *three, "o2.npy", "l_short.npy", says="LSE of part 3: extent 2 is 2")
    parts.fails("--part", *three, "o_short.npy", "l2.npy", says="OUT of part 3: extent 2 is 2, that of OUT of part 1 is 3")
    parts.fails("--part", *three, "o_flat.npy", "l2.npy", says="OUT of part 3: rank is 3")
    parts.fails("--part", *three, "o_64.npy", "l2.npy", says="--dtype")
    parts.fails("--part", *three, "none.npy", "l2.npy", says="no such file")
    parts.fails("--part", *three, "o2.npy", "", says="empty")
    parts.fails("--lse-b", *words_of(2), out_a="o3.npy", lse_a="l3.npy", out_b="o4.npy", says="is required")
    parts.fails("--out", *words_of(2), out="l1.npy", says="is also the file of --part")


def test_bad_merge(merge):
    merge.save(l3=np.ones((2, 4, 2), np.float32), o64=merge.load("ob").astype(np.float64))
    merge.fails("--lse-b", lse_b="l3.npy")
    merge.fails("--out-b", out_b="o64.npy", says="--dtype")
    merge.fails("--lse-a", lse_a="oa.npy")
