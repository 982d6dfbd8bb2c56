# SPDX-License-Identifier: MIT
"""attune.scaled_dot_product_attention and its relatives: every option does what it says, against the NumPy computation."""
import attention_numpy
import attune
import numpy as np
import pytest
from arrays import in_rows, normal
from attention_numpy import Additive, MultiHead, Options, sdpa
from element_types import F16
from judging import judge, judge_attention

SLOPES = np.array([0.5, 0.25, 0.125, 0.0625], np.float32)
MASK = np.random.default_rng(2).random((3, 5)) < 0.7
BIAS = normal(np.random.default_rng(3), 2, 1, 3, 5)
SINKS = normal(np.random.default_rng(4), 4)
LENS = np.array([4, 0], np.int32)


def check(got, compute, wanted=("out", "lse", "weights"), dtype=np.float32, **how):
    judge_attention(lambda name: getattr(got, name), compute, dtype, wanted, **how)


def check_sdpa(arrays, expected=Options(), dtype=np.float32, **given):
    got = attune.scaled_dot_product_attention(*arrays, lse=True, weights=True, **given)
    check(got, lambda dtype, order: sdpa(*arrays, expected, dtype, order), dtype=dtype)
    alone = attune.scaled_dot_product_attention(*arrays, **given)  # lse and weights change no bit of out
    assert isinstance(alone, np.ndarray) and alone.flags.c_contiguous
    judge("out", alone, [got.out], got.out.astype(np.float64), dtype)
    return got


@pytest.mark.parametrize("given, expected", [
    ({}, Options()),
    (dict(scale=0.3), Options(scale=0.3)),
    (dict(softcap=2.0), Options(softcap=2.0)),
    (dict(bias=BIAS), Options(bias=BIAS)),
    (dict(alibi=True), Options(alibi="auto")),
    (dict(alibi_slopes=SLOPES), Options(alibi=SLOPES)),
    (dict(mask=MASK), Options(mask=MASK)),
    (dict(causal="top_left"), Options(causal="top-left")),
    (dict(causal="bottom_right"), Options(causal="bottom-right")),
    (dict(causal="offset", offset=1), Options(causal="offset", offset=1)),
    (dict(causal="offset", offsets=[0, 2]), Options(causal="offset", offset=np.array([0, 2]))),
    (dict(window=(1, 0)), Options(window=(1, 0))),
    (dict(valid_lens=LENS), Options(valid_lens=LENS)),
    (dict(valid_lens=[4, 0]), Options(valid_lens=LENS)),
    (dict(sinks=SINKS), Options(sinks=SINKS)),
    (dict(mask=MASK, bias=BIAS, softcap=3.0, sinks=SINKS, valid_lens=LENS, causal="bottom_right", alibi=True),
     Options(mask=MASK, bias=BIAS, softcap=3.0, sinks=SINKS, valid_lens=LENS, causal="bottom-right", alibi="auto")),
    (dict(scale=None, bias=None, context=None, window=None), Options()),
], ids=lambda x: ",".join(x) if isinstance(x, dict) else "")
def test_options(qkv, given, expected):
    check_sdpa(qkv, expected, **given)


@pytest.mark.parametrize("score", ["general", "cosine", "gaussian"])
def test_scores(rng, score):
    arrays = [normal(rng, 2, n, 8) for n in (3, 5)] + [normal(rng, 2, 5, 6)]
    weight = normal(rng, 8, 8) if score == "general" else None
    check_sdpa(arrays, Options(score=score, score_weight=weight), score=score, score_weight=weight)


def test_f64(rng):
    check_sdpa([normal(rng, 2, 3, 8, dtype=np.float64) for _ in range(3)], dtype=np.float64)


def test_f16(qkv):
    arrays = [a.astype(np.float16) for a in qkv]
    wide = [a.astype(np.float32) for a in arrays]
    got = attune.scaled_dot_product_attention(*arrays, lse=True)
    assert got.out.dtype == np.float16 and got.lse.dtype == np.float32 and got.weights is None
    check(got, lambda dtype, order: sdpa(*wide, Options(), dtype, order), ("out", "lse"), F16)


def test_bf16(qkv):
    """Arrays of ml_dtypes, which have no buffer."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    from element_types import BF16
    arrays = [a.astype(ml_dtypes.bfloat16) for a in qkv]
    wide = [a.astype(np.float32) for a in arrays]
    got = attune.scaled_dot_product_attention(*arrays)
    assert got.dtype == ml_dtypes.bfloat16
    judged = attune._results.Attention(got.astype(np.float32), None, None)
    check(judged, lambda dtype, order: sdpa(*wide, Options(), dtype, order), ("out",), BF16)
    same = attune.scaled_dot_product_attention(*map(in_rows, arrays))  # strides are read
    assert np.array_equal(same.view(np.uint16), got.view(np.uint16))
    out = np.zeros_like(got)
    attune.scaled_dot_product_attention(*arrays, out=out[::-1][::-1])
    assert np.array_equal(out.view(np.uint16), got.view(np.uint16))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_jax(qkv, dtype):
    """Arrays of JAX, which are read where they lie and are never written."""
    jax_numpy = pytest.importorskip("jax.numpy")
    arrays = [jax_numpy.asarray(a, dtype=dtype) for a in qkv]
    got = attune.scaled_dot_product_attention(*arrays)
    expected = attune.scaled_dot_product_attention(*map(np.asarray, arrays))
    assert got.dtype == expected.dtype and np.array_equal(got, expected)
    with pytest.raises(ValueError, match="out"):
        attune.scaled_dot_product_attention(*arrays, out=arrays[0])


def test_rank_2_and_3(qkv):
    for arrays in ([a[:, 0] for a in qkv], [a[0, 0] for a in qkv]):
        check_sdpa(arrays)


@pytest.mark.parametrize("mode, name", list(enumerate(["scaled", "capped", "masked", "probabilities"])))
@pytest.mark.parametrize("averaged", [False, True])
def test_weights(qkv, mode, name, averaged):
    got = attune.scaled_dot_product_attention(*qkv, weights=True, weights_mode=name, average_weights=averaged, softcap=2.0)
    assert got.lse is None
    check(got, lambda dtype, order: sdpa(*qkv, Options(softcap=2.0), dtype, order), ("out", "weights"), mode=mode,
          averaged=averaged)


def test_dropout(qkv):
    kept = attune.dropout_mask((2, 4, 3, 5), 0.4, seed=7, dropout_offset=3)
    assert kept.dtype == bool and 0.2 < kept.mean() < 0.9
    got = attune.scaled_dot_product_attention(*qkv, lse=True, weights=True, dropout_p=0.4, seed=7, dropout_offset=3)
    check(got, lambda dtype, order: sdpa(*qkv, Options(dropout=0.4, survivors=kept), dtype, order))
    assert not np.array_equal(kept, attune.dropout_mask((2, 4, 3, 5), 0.4, seed=2**64 - 1))
    again = attune.scaled_dot_product_attention(*qkv, dropout_p=0.4, seed=np.array([7]), dropout_offset=3, weights=True)
    assert np.array_equal(got.out, again.out)


def test_outputs_that_are_given(qkv):
    made = attune.scaled_dot_product_attention(*qkv, lse=True, weights=True)
    out, lse, weights = np.empty_like(made.out), np.empty_like(made.lse), np.empty_like(made.weights)
    got = attune.scaled_dot_product_attention(*qkv, out=out, lse=lse, weights=weights)
    assert got.out is out and got.lse is lse and got.weights is weights
    for mine, theirs in zip(got, made):
        assert np.array_equal(mine, theirs)
    rows = np.empty((2, 3, 4, 6), np.float32)  # (B, S, H, D)
    assert attune.scaled_dot_product_attention(*qkv, out=rows.swapaxes(1, 2)) is not None
    assert np.array_equal(rows.swapaxes(1, 2), attune.scaled_dot_product_attention(*qkv))
    turned = attune.scaled_dot_product_attention(*qkv, layout="heads_in_rows")
    assert turned.swapaxes(1, 2).flags.c_contiguous and np.array_equal(turned, made.out)


def test_no_queries_and_no_keys(rng):
    none = attune.scaled_dot_product_attention(normal(rng, 2, 0, 8), normal(rng, 2, 5, 8), normal(rng, 2, 5, 6), lse=True)
    assert none.out.shape == (2, 0, 6) and none.lse.shape == (2, 0)
    zero = attune.scaled_dot_product_attention(normal(rng, 2, 3, 8), normal(rng, 2, 0, 8), normal(rng, 2, 0, 6), lse=True)
    assert not zero.out.any() and np.all(np.isneginf(zero.lse))


def test_additive(rng):
    q, k, v = normal(rng, 2, 3, 8), normal(rng, 2, 5, 4), normal(rng, 2, 5, 6)
    layer = Additive(normal(rng, 7, 8), normal(rng, 7, 4), normal(rng, 7), normal(rng, 7), normal(rng, 7), 0.5)
    got = attune.additive_attention(q, k, v, lse=True, weights=True, valid_lens=LENS, **vars(layer))
    check(got, lambda dtype, order: attention_numpy.additive(q, k, v, layer, Options(valid_lens=LENS), dtype, order))


def test_multi_head(rng):
    q, k, v = normal(rng, 2, 3, 8), normal(rng, 2, 5, 6), normal(rng, 2, 5, 7)
    pairs = [(normal(rng, 16, 8), normal(rng, 16)), (normal(rng, 8, 6), normal(rng, 8)), (normal(rng, 10, 7), normal(rng, 10)),
             (normal(rng, 9, 20), normal(rng, 9))]
    weights, biases = zip(*pairs)
    got = attune.multi_head_attention(q, k, v, *weights, heads=4, key_heads=2, lse=True, weights=True, valid_lens=LENS,
                                      **dict(zip(("b_query", "b_key", "b_value", "b_out"), biases)))
    layer = MultiHead(4, 2, *pairs)
    check(got, lambda dtype, order: attention_numpy.multi_head(q, k, v, layer, Options(valid_lens=LENS), dtype, order))
    averaged = attune.multi_head_attention(q, k, v, *weights, heads=4, key_heads=2, weights=True, average_weights=True)
    assert averaged.weights.shape == (2, 3, 5)


def test_packed(rng):
    """Each sequence is a call of its own, bit for bit."""
    q, k, v = normal(rng, 7, 4, 8), normal(rng, 11, 2, 8), normal(rng, 11, 2, 6)
    of_q, of_k = [0, 3, 3, 7], np.array([0, 5, 6, 11], np.int32)
    got = attune.variable_length_attention(q, k, v, of_q, of_k, causal="bottom_right", lse=True)
    assert got.lse.shape == (4, 7)
    for s in range(3):
        rows, keys = slice(of_q[s], of_q[s + 1]), slice(of_k[s], of_k[s + 1])
        heads_first = lambda a: a.swapaxes(0, 1)[None]
        alone = attune.scaled_dot_product_attention(*map(heads_first, (q[rows], k[keys], v[keys])), causal="bottom_right",
                                                    lse=True)
        assert np.array_equal(heads_first(got.out[rows]), alone.out) and np.array_equal(got.lse[None, :, rows], alone.lse)
