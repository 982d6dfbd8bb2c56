# SPDX-License-Identifier: MIT
"""attune run additive and mha: every option does what it says, against the NumPy computation."""
import numpy as np
import pytest
from attention_numpy import Additive, MultiHead, Options, additive as additive_numpy, multi_head
from conftest import normal
from judging import judge_attention


def check(problem, compute, *options, dtype=np.float32, **given):
    problem.succeeds(*options, "--lse", "lse.npy", "--weights", "weights.npy", **given)
    judge_attention(lambda name: problem.load("o" if name == "out" else name), compute, dtype, ("out", "lse", "weights"))


def check_additive(problem, *options, layer=None, expected=Options(), dtype=np.float32, **given):
    q, k, v = (problem.load(n) for n in "qkv")
    layer = layer or Additive(problem.load("wq"), problem.load("wk"), None, None, problem.load("w"))
    check(problem, lambda dtype, order: additive_numpy(q, k, v, layer, expected, dtype, order), *options, dtype=dtype, **given)


def test_additive(additive):
    check_additive(additive)


def test_additive_with_every_bias(additive):
    rng = np.random.default_rng(1)
    layer = Additive(additive.load("wq"), additive.load("wk"), normal(rng, 7), normal(rng, 7), additive.load("w"), 0.25)
    additive.save(bq=layer.b_query, bk=layer.b_key, bs=np.array(0.25, np.float32), bs1=np.array([0.25], np.float32))
    for b_score in ("0.25", "bs.npy", "bs1.npy"):
        check_additive(additive, layer=layer, b_query="bq.npy", b_key="bk.npy", b_score=b_score)


def test_additive_of_projected_keys(additive):
    # A decoder projects the keys once.
    rng = np.random.default_rng(2)
    additive.save(k=normal(rng, 2, 5, 7))
    check_additive(additive, layer=Additive(additive.load("wq"), None, None, None, additive.load("w")), w_key=None)
    additive.save(q=normal(rng, 2, 1, 7))
    check_additive(additive, layer=Additive(w_score=additive.load("w")), w_key=None, w_query=None)
    check_additive(additive, layer=Additive(), w_key=None, w_query=None, w_score=None)


def test_additive_example_of_keras(additive):
    # Keras' documentation: no projections, score weights of 1.
    additive.save(q=np.array([[[1, 0], [0, 1]]], np.float32), k=np.array([[[0, 1], [1, 0]]], np.float32),
                  v=np.array([[[1, 2], [3, 4]]], np.float32))
    out = additive.succeeds(w_query=None, w_key=None, w_score=None)
    assert np.allclose(out, [[[1.727, 2.727], [2.272, 3.272]]], rtol=0, atol=1e-3)


def test_additive_example_of_the_textbook(additive):
    # 000: equal keys, so the mean of the first 2 and of the first 6 values.
    rng = np.random.default_rng(3)
    additive.save(q=normal(rng, 2, 1, 20), k=np.ones((2, 10, 2), np.float32),
                  v=np.tile(np.arange(40, dtype=np.float32).reshape(1, 10, 4), (2, 1, 1)), lens=np.array([2, 6], np.int32),
                  wq=normal(rng, 8, 20), wk=normal(rng, 8, 2), w=normal(rng, 8))
    out = additive.succeeds("--valid-lens", "lens.npy")
    assert np.allclose(out[:, 0], [[2, 3, 4, 5], [10, 11, 12, 13]], rtol=1e-6)


def test_additive_shares_the_options_of_sdpa(additive):
    rng = np.random.default_rng(4)
    o = Options(scale=0.5, softcap=3, bias=normal(rng, 3, 5), mask=rng.random((2, 1, 5)) < 0.8,
                causal="bottom-right", sinks=np.array([0.5], np.float32), alibi="auto")
    additive.save(b=o.bias, m=o.mask, s=o.sinks)
    check_additive(additive, "--scale", "0.5", "--softcap", "3", "--bias", "b.npy", "--mask", "m.npy", "--causal",
                   "bottom-right", "--sinks", "s.npy", "--alibi", "auto", expected=o)


def test_additive_in_float64(additive):
    check_additive(additive, "--dtype", "f64", dtype=np.float64)


def layer_of(mha, heads=4, key_heads=2, biases=True):
    pairs = [(mha.load(f"w{n}"), mha.load(f"b{n}") if biases else None) for n in "qkvo"]
    return MultiHead(heads, key_heads, *pairs)


def check_multi_head(mha, *options, layer=None, expected=Options(), dtype=np.float32, **given):
    q, k, v = (mha.load(n) for n in "qkv")
    layer = layer or layer_of(mha)
    check(mha, lambda dtype, order: multi_head(q, k, v, layer, expected, dtype, order), *options, dtype=dtype, **given)


def test_multi_head(mha):
    check_multi_head(mha)
    assert mha.load("o").shape == (2, 3, 9) and mha.load("lse").shape == (2, 4, 3) and mha.load("weights").shape == (2, 4, 3, 5)


def test_multi_head_without_biases(mha):
    check_multi_head(mha, layer=layer_of(mha, biases=False), **{f"b_{n}": None for n in ("query", "key", "value", "out")})


def test_multi_head_without_groups(mha):
    rng = np.random.default_rng(5)
    mha.save(wk=normal(rng, 16, 6), bk=normal(rng, 16), wv=normal(rng, 20, 7),
             bv=normal(rng, 20))
    check_multi_head(mha, layer=layer_of(mha, key_heads=4), kv_heads=None)


def test_multi_head_shares_the_options_of_sdpa(mha):
    rng = np.random.default_rng(6)
    kept = mha.dropout_mask((2, 4, 3, 5), "--dropout", "0.4", "--seed", "3")
    o = Options(scale=0.5, softcap=3, bias=normal(rng, 4, 1, 5), mask=rng.random((2, 1, 3, 5)) < 0.8,
                valid_lens=np.array([[5, 4, 0], [3, 1, 5]]), window=(2, 2), sinks=normal(rng, 4),
                alibi=rng.random((2, 4), np.float32), dropout=0.4, survivors=kept)
    mha.save(bias=o.bias, m=o.mask, lens=o.valid_lens, s=o.sinks, a=o.alibi)
    check_multi_head(mha, "--scale", "0.5", "--softcap", "3", "--bias", "bias.npy", "--mask", "m.npy", "--valid-lens",
                     "lens.npy", "--window", "2,2", "--sinks", "s.npy", "--alibi", "a.npy", "--dropout", "0.4", "--seed", "3",
                     expected=o)


def test_multi_head_of_more_than_three_extents(mha):
    rng = np.random.default_rng(7)
    mha.save(q=normal(rng, 2, 3, 3, 8), k=normal(rng, 2, 3, 5, 6),
             v=normal(rng, 2, 3, 5, 7))
    mask = rng.random((3, 1, 3, 5)) < 0.7
    mha.save(m=mask)
    expected = Options(mask=np.broadcast_to(mask, (2, 3, 4, 3, 5)))
    check_multi_head(mha, "--mask", "m.npy", expected=expected)
    assert mha.load("o").shape == (2, 3, 3, 9) and mha.load("weights").shape == (2, 3, 4, 3, 5)


@pytest.mark.parametrize("queries", [60, 62])
def test_multi_head_example_of_the_tensorflow_document(mha, queries):
    # 002: d_model 512, 8 heads; shapes (1, 60, 512) and (1, 8, 60, 60), with a query of 62 (1, 62, 512) and (1, 8, 62, 60).
    rng = np.random.default_rng(8)
    y = rng.random((1, 60, 512), np.float32)
    mha.save(q=y if queries == 60 else rng.random((1, 62, 512), np.float32), k=y, v=y)
    for n in "qkvo":
        mha.save(**{f"w{n}": normal(rng, 512, 512) / np.float32(22), f"b{n}": np.zeros(512, np.float32)})
    out = mha.succeeds("--weights", "weights.npy", heads="8", kv_heads=None)
    assert out.shape == (1, queries, 512) and mha.load("weights").shape == (1, 8, queries, 60)
    assert np.allclose(mha.load("weights").sum(axis=3), 1, atol=1e-5)
