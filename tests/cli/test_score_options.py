# SPDX-License-Identifier: MIT
"""The options of `attune run sdpa` that change scores and weights, against the NumPy computation."""
import numpy as np
import pytest
from attention_numpy import Options, sdpa
from conftest import normal
from judging import judge_attention


def check(problem, *options, expected, mode=3, averaged=False, dtype=np.float32, wanted=("out", "lse", "weights")):
    q, k, v = (problem.load(n) for n in "qkv")
    problem.succeeds(*options, "--lse", "lse.npy", "--weights", "weights.npy", "--weights-mode", mode,
                     *(["--average-weights"] if averaged else []))
    judge_attention(lambda name: problem.load("o" if name == "out" else name),
                    lambda dtype, order: sdpa(q, k, v, expected, dtype, order), dtype, wanted, mode, averaged)


MASK_SHAPES = [(2, 4, 3, 5), (1, 4, 3, 5), (2, 1, 3, 5), (2, 4, 1, 5), (2, 4, 3, 1), (4, 3, 5),
               (1, 1, 5), (3, 5), (1, 5), (3, 1), (5,), (1,)]


@pytest.mark.parametrize("shape", MASK_SHAPES)
def test_mask(problem, shape):
    mask = np.random.default_rng(1).random(shape) < 0.6
    problem.save(m=mask)
    check(problem, "--mask", "m.npy", expected=Options(mask=mask))


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.int32, np.int64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_types_of_a_mask(problem, dtype, order):
    mask = np.random.default_rng(2).random((4, 3, 5)) < 0.6
    problem.save(m=np.asarray(mask.astype(dtype), order=order))
    check(problem, "--mask", "m.npy", expected=Options(mask=mask))


@pytest.mark.parametrize("shape", MASK_SHAPES)
def test_bias(problem, shape):
    rng = np.random.default_rng(3)
    bias = rng.standard_normal(shape, np.float32)
    bias[rng.random(shape) < 0.2] = -np.inf
    bias[rng.random(shape) < 0.1] = np.finfo(np.float32).min
    problem.save(b=bias)
    check(problem, "--bias", "b.npy", expected=Options(bias=bias))


def test_alibi_with_standard_slopes(problem):
    check(problem, "--alibi", "auto", expected=Options(alibi="auto"))
    check(problem, "--alibi", "auto", "--causal", "top-left", expected=Options(alibi="auto", causal="top-left"))
    check(problem, "--alibi", "auto", "--offset", "1", expected=Options(alibi="auto", offset=1))


@pytest.mark.parametrize("shape", [(4,), (2, 4), (1, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_alibi_with_given_slopes(problem, shape, dtype):
    slopes = np.random.default_rng(4).standard_normal(shape, np.float32)
    problem.save(a=slopes.astype(dtype))
    if shape == (1, 4):
        problem.fails("--alibi", "--alibi", "a.npy")
    else:
        check(problem, "--alibi", "a.npy", expected=Options(alibi=slopes))


@pytest.mark.parametrize("cap", ["0", "1.5", "30"])
def test_softcap(problem, cap):
    check(problem, "--softcap", cap, expected=Options(softcap=float(cap)))


def test_sinks(problem):
    sinks = np.array([0, -3, 2, 0.5], np.float32)
    problem.save(s=sinks, lens=np.array([0, 4], np.int32))
    check(problem, "--sinks", "s.npy", "--valid-lens", "lens.npy", expected=Options(sinks=sinks, valid_lens=np.array([0, 4])))
    # Without keys a query has only its sink.
    assert np.all(problem.load("o")[0] == 0) and np.array_equal(problem.load("lse")[0], np.broadcast_to(sinks[:, None], (4, 3)))


@pytest.mark.parametrize("score", ["dot", "general", "cosine", "gaussian"])
@pytest.mark.parametrize("scale", [None, 0, 0.7])
def test_score(problem, score, scale):
    expected, options = Options(score=score, scale=scale), ["--score", score]
    if score == "general":
        expected.score_weight = np.random.default_rng(5).standard_normal((9, 8), np.float32)
        problem.save(W=expected.score_weight, q=np.random.default_rng(6).standard_normal((2, 4, 3, 9), np.float32))
        options += ["--score-weight", "W.npy"]
    check(problem, *options, *([] if scale is None else ["--scale", scale]), expected=expected)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("averaged", [False, True])
def test_weights_mode(problem, mode, averaged):
    rng = np.random.default_rng(7)
    bias, mask = normal(rng, 4, 3, 5), rng.random((2, 1, 3, 5)) < 0.7
    problem.save(b=bias, m=mask)
    expected = problem.succeeds("--bias", "b.npy", "--mask", "m.npy", "--softcap", "2")
    check(problem, "--bias", "b.npy", "--mask", "m.npy", "--softcap", "2", mode=mode, averaged=averaged,
          expected=Options(bias=bias, mask=mask, softcap=2))
    assert problem.load("weights").shape == ((2, 3, 5) if averaged else (2, 4, 3, 5))
    assert np.array_equal(problem.load("o"), expected), "asking for the weights changes the result"


@pytest.mark.parametrize("p", ["0", "0.1", "0.5", "1"])
@pytest.mark.parametrize("more", [[], ["--seed", "7"], ["--seed", str(2**64 - 1), "--dropout-offset", str(2**32 - 1)]])
def test_dropout(problem, p, more):
    mask = problem.dropout_mask((2, 4, 3, 5), "--dropout", p, *more)
    check(problem, "--dropout", p, *more, expected=Options(dropout=float(p), survivors=mask))
    if p in "01":
        assert np.all(mask == (p == "0"))


def test_dropout_masks_differ(problem):
    masks = []
    for more in ([], ["--seed", "1"], ["--dropout-offset", "1"], ["--seed", str(2**32)]):
        masks.append(problem.dropout_mask((4, 30, 50), "--dropout", "0.5", *more))
        # 6000 fair coins: five standard deviations are 194.
        assert abs(int(masks[-1].sum()) - 3000) <= 194
        assert all(0.4 < np.mean(masks[-1] == other) < 0.6 for other in masks[:-1])
    again = problem.dropout_mask((4, 1, 30, 50), "--dropout", "0.5", "--seed", "0", "--threads", "1")
    assert np.array_equal(again[:, 0], masks[0])


def test_dropout_of_a_part(problem):
    # Batch entry 1, its heads 2 and 3, queries from 1 and keys from 2 of a call with four heads.
    whole = problem.dropout_mask((2, 4, 3, 5), "--dropout", "0.5", "--seed", "7")
    numbers = ("--dropout-first-query", "1", "--dropout-first-key", "2", "--dropout-first-head", "6", "--dropout-heads", "4")
    kept = problem.dropout_mask((1, 2, 2, 3), "--dropout", "0.5", "--seed", "7", *numbers)
    assert np.array_equal(kept, whole[1:, 2:, 1:, 2:])
    # Heads 2 and 3 attend to the last of the two key heads.
    problem.save(q=problem.load("q")[1:, 2:, 1:], k=problem.load("k")[1:, 1:, 2:], v=problem.load("v")[1:, 1:, 2:])
    check(problem, "--dropout", "0.5", "--seed", "7", *numbers, expected=Options(dropout=0.5, survivors=kept))
    problem.fails("--dropout", "--dropout", "0.5", "--dropout-heads", "1", says="heads must be 0 or at least 2, got 1")


def test_everything_at_once(problem):
    rng = np.random.default_rng(8)
    kept = problem.dropout_mask((2, 4, 3, 5), "--dropout", "0.3", "--seed", "5")
    o = Options(scale=0.6, softcap=4, bias=normal(rng, 3, 5), alibi=rng.random((2, 4), np.float32),
                mask=rng.random((4, 1, 5)) < 0.8, causal="bottom-right", window=(3, -1), valid_lens=np.array([4, 5]),
                sinks=rng.standard_normal(4, np.float32), dropout=0.3, survivors=kept)
    problem.save(b=o.bias, a=o.alibi, m=o.mask, lens=o.valid_lens, s=o.sinks)
    check(problem, "--scale", "0.6", "--softcap", "4", "--bias", "b.npy", "--alibi", "a.npy", "--mask", "m.npy", "--causal",
          "bottom-right", "--window", "3,-1", "--valid-lens", "lens.npy", "--sinks", "s.npy", "--dropout", "0.3", "--seed", "5",
          expected=o)


def test_mask_of_the_tensorflow_document(problem):
    # 002: 1 masks out, and the mask is added times -1e9. As a boolean it is the other way round.
    out = np.random.default_rng(9).random((2, 1, 3, 5)) < 0.4
    out[..., 0] = False
    problem.save(m=~out, b=out.astype(np.float32) * np.float32(-1e9))
    expected = problem.succeeds("--mask", "m.npy")
    assert np.allclose(problem.succeeds("--bias", "b.npy"), expected, rtol=0, atol=1e-6)


def test_two_extents(problem):
    problem.save(**{n: problem.load(n)[0, 0] for n in "qkv"}, m=np.eye(3, 5) == 0, lens=np.array([4], np.int32))
    check(problem, "--mask", "m.npy", "--causal", "bottom-right",
          expected=Options(mask=np.eye(3, 5) == 0, causal="bottom-right"))
    assert problem.load("o").shape == (3, 6) and problem.load("lse").shape == (3,) and problem.load("weights").shape == (3, 5)


@pytest.mark.parametrize("shape", [(2, 3, 4, 3, 5), (1, 3, 1, 3, 5), (2, 1, 4, 1, 5), (3, 4, 3, 5), (1, 4, 3, 5),
                                   (1, 1, 1, 3, 5), (3, 5)])
def test_more_than_four_extents(problem, shape):
    rng = np.random.default_rng(10)
    problem.save(q=normal(rng, 2, 3, 4, 3, 8), k=normal(rng, 2, 3, 2, 5, 8),
                 v=normal(rng, 2, 3, 2, 5, 6))
    o = Options(mask=rng.random(shape) < 0.7, bias=rng.standard_normal(shape, np.float32),
                valid_lens=rng.integers(0, 6, (2, 3)), causal="offset", offset=rng.integers(0, 5, (2, 3)),
                alibi=rng.random((2, 3, 4), np.float32))
    problem.save(m=o.mask, b=o.bias, lens=o.valid_lens, off=o.offset, a=o.alibi)
    options = ["--mask", "m.npy", "--bias", "b.npy", "--causal", "offset", "--offset", "off.npy", "--alibi", "a.npy"]
    check(problem, *options, "--valid-lens", "lens.npy", expected=o)
    assert problem.load("o").shape == (2, 3, 4, 3, 6)
    o.valid_lens = rng.integers(0, 6, (2, 3, 3))
    problem.save(lens=o.valid_lens)
    check(problem, *options, "--valid-lens", "lens.npy", expected=o, averaged=True)
    assert problem.load("weights").shape == (2, 3, 3, 5)
