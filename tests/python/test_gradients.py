# SPDX-License-Identifier: MIT
"""Gradients: of every tensor, against the NumPy computation."""
import types

import attune
import numpy as np
import pytest
from additive_backward_numpy import additive_backward
from arrays import normal
from attention_numpy import Additive, MultiHead, Options
from backward_numpy import sdpa_backward
from judging import judge, judge_gradients, reference_and_plain
from layers_backward_numpy import linear_backward, masked_softmax_backward, multi_head_backward

LENS = np.array([4, 0], np.int32)
SLOPES = np.array([0.5, 0.25, 0.125, 0.0625], np.float32)
MASK = np.random.default_rng(2).random((3, 5)) < 0.7
ALL = ("query", "key", "value")


def check(qkv, grad_out, expected=Options(), grad_lse=None, more=(), **given):
    forward = attune.scaled_dot_product_attention(*qkv, lse=True, **given)
    got = attune.scaled_dot_product_attention_backward(*qkv, forward.out, forward.lse, grad_out, grad_lse=grad_lse,
                                                       gradients=(*ALL, *more) if more else None, **given)
    assert list(got) == [*ALL, *more]
    if "alibi_slopes" in got:
        got["slopes"] = got["alibi_slopes"]
    names = [{"alibi_slopes": "slopes"}.get(name, name) for name in (*ALL, *more)]
    judge_gradients(got.get, lambda dtype, order, **how: sdpa_backward(*qkv, grad_out, grad_lse, expected, dtype, order, **how),
                    np.float32, names)
    return got


@pytest.fixture
def grad_out(rng):
    return normal(np.random.default_rng(5), 2, 4, 3, 6)


@pytest.mark.parametrize("given, expected, more", [
    ({}, {}, ()),
    (dict(causal="bottom_right", window=(2, 0)), dict(causal="bottom-right", window=(2, 0)), ()),
    (dict(valid_lens=[4, 0]), dict(valid_lens=LENS), ()),
    (dict(mask=MASK, softcap=2.0), dict(mask=MASK, softcap=2.0), ()),
    (dict(bias=normal(np.random.default_rng(3), 4, 3, 5)), None, ("bias",)),
    (dict(bias=normal(np.random.default_rng(3), 3, 1)), None, ("bias",)),
    (dict(alibi_slopes=SLOPES), dict(alibi=SLOPES), ("alibi_slopes",)),
    (dict(alibi=True), dict(alibi="auto"), ("alibi_slopes",)),
    (dict(sinks=SLOPES), None, ("sinks",)),
], ids=lambda x: ",".join(x) if isinstance(x, dict) else "")
def test_attention(qkv, grad_out, given, expected, more):
    check(qkv, grad_out, Options(**(given if expected is None else expected)), more=more, **given)


def test_grad_lse_and_dropout(qkv, grad_out, rng):
    check(qkv, grad_out, grad_lse=normal(rng, 2, 4, 3))
    kept = attune.dropout_mask((2, 4, 3, 5), 0.3, seed=5)
    check(qkv, grad_out, Options(dropout=0.3, survivors=kept), dropout_p=0.3, seed=5)


def test_general_score(rng):
    q, k, v, weight = normal(rng, 2, 3, 8), normal(rng, 2, 5, 7), normal(rng, 2, 5, 6), normal(rng, 8, 7)
    check((q, k, v), normal(rng, 2, 3, 6), Options(score="general", score_weight=weight), more=("score_weight",),
          score="general", score_weight=weight)


def test_outputs_that_are_given(qkv, grad_out):
    forward = attune.scaled_dot_product_attention(*qkv, lse=True)
    call = (*qkv, forward.out, forward.lse, grad_out)
    into = {"key": np.empty_like(qkv[1]), "value": None}
    got = attune.scaled_dot_product_attention_backward(*call, gradients=into)
    assert list(got) == ["key", "value"] and got["key"] is into["key"]
    every = attune.scaled_dot_product_attention_backward(*call)
    assert np.array_equal(got["key"], every["key"]) and np.array_equal(got["value"], every["value"])
    zeros = np.zeros_like(qkv[1])
    attune.scaled_dot_product_attention_backward(*call, gradients=types.MappingProxyType({"key": zeros}))
    assert np.array_equal(zeros, every["key"])
    for wrong in (["sinks"], ["nothing"], ["key", "key"], "key"):
        with pytest.raises(ValueError, match="^gradients: "):
            attune.scaled_dot_product_attention_backward(*call, gradients=wrong)


CU_Q, CU_K = [0, 3, 3, 4, 9], [0, 4, 6, 6, 13]  # the second sequence has no queries, the third no keys


def packed_backward(q, k, v, grad_out, grad_lse, options, dtype, order, **how):
    """Sequence after sequence; gradients of sinks and of slopes of one row are sums over them."""
    found = {name: np.zeros(a.shape, dtype) for name, a in (("query", q), ("key", k), ("value", v))}
    one = lambda a: a.swapaxes(0, 1)[None]
    slopes, sinks = [], []
    for of_q, of_k in zip(map(slice, CU_Q[:-1], CU_Q[1:]), map(slice, CU_K[:-1], CU_K[1:])):
        part = sdpa_backward(one(q[of_q]), one(k[of_k]), one(v[of_k]), one(grad_out[of_q]), grad_lse[None, :, of_q],
                             options(len(slopes)), dtype, order, **how)
        for name, at in (("query", of_q), ("key", of_k), ("value", of_k)):
            found[name][at] = getattr(part, name)[0].swapaxes(0, 1)
        slopes.append(part.slopes)
        sinks.append(part.sinks)
    if sinks[0] is not None:
        found["sinks"] = sum(sinks)
    if slopes[0] is not None:
        rows = [np.reshape(a, -1) for a in slopes]
        found["alibi_slopes"] = np.stack(rows) if options(0).alibi is not options(1).alibi else sum(rows)
    return types.SimpleNamespace(**found)


OWN_SLOPES = np.linspace(0.1, 0.9, 16, dtype=np.float32).reshape(4, 4)  # of each sequence


@pytest.mark.parametrize("given, options, more", [
    ({}, lambda s: Options(), ()),
    (dict(causal="bottom_right", window=(2, 0), softcap=2.0),
     lambda s: Options(causal="bottom-right", window=(2, 0), softcap=2.0), ()),
    (dict(alibi=True), lambda s: Options(alibi="auto"), ("alibi_slopes",)),
    (dict(alibi_slopes=SLOPES, sinks=SLOPES), lambda s: Options(alibi=SLOPES, sinks=SLOPES), ("alibi_slopes", "sinks")),
    (dict(alibi_slopes=OWN_SLOPES), lambda s: Options(alibi=OWN_SLOPES[s:s + 1]), ("alibi_slopes",)),
], ids=lambda x: ",".join(x) if isinstance(x, dict) else "")
def test_packed(rng, given, options, more):
    q, k, v = normal(rng, 10, 4, 8), normal(rng, 14, 2, 8), normal(rng, 14, 2, 6)
    grad_out, grad_lse = normal(rng, 10, 4, 6), normal(rng, 4, 10)
    forward = attune.variable_length_attention(q, k, v, CU_Q, CU_K, lse=True, **given)
    got = attune.variable_length_attention_backward(
        q, k, v, CU_Q, CU_K, forward.out, forward.lse, grad_out, grad_lse=grad_lse, **given,
        gradients={"query": np.zeros_like(q), "key": np.zeros_like(k), "value": np.zeros_like(v), **dict.fromkeys(more)})
    assert list(got) == [*ALL, *more]
    assert not got["query"][9:].any() and not got["key"][13:].any() and not got["key"][4:6].any()
    judge_gradients(got.get, lambda dtype, order, **how: packed_backward(q, k, v, grad_out, grad_lse, options, dtype, order,
                                                                         **how), np.float32, [*ALL, *more])


def test_packed_gradients_that_there_are_not(rng):
    q, k, v, grad = normal(rng, 9, 4, 8), normal(rng, 13, 2, 8), normal(rng, 13, 2, 6), normal(rng, 9, 4, 6)
    call = (q, k, v, CU_Q, CU_K, *attune.variable_length_attention(q, k, v, CU_Q, CU_K, lse=True)[:2], grad)
    with pytest.raises(ValueError, match="^gradients: names a tensor that this call does not have"):
        attune.variable_length_attention_backward(*call, gradients=["sinks"])
    with pytest.raises(ValueError, match="^bias: "):
        attune.variable_length_attention_backward(*call, gradients=["bias"], bias=normal(rng, 3, 3))
    with pytest.raises(ValueError, match="^cu_seqlens_q: "):
        attune.variable_length_attention_backward(*call[:3], [0, 5, 3, 4, 9], *call[4:])


def test_additive(rng):
    q, k, v, grad = normal(rng, 2, 2, 3, 8), normal(rng, 2, 1, 5, 4), normal(rng, 2, 1, 5, 6), normal(rng, 2, 2, 3, 6)
    layer = Additive(normal(rng, 7, 8), normal(rng, 7, 4), normal(rng, 7), normal(rng, 7), normal(rng, 7))
    given = {name: array for name, array in vars(layer).items() if name != "b_score"}
    forward = attune.additive_attention(q, k, v, lse=True, **given)
    names = ["query", "key", "value", *given]
    got = attune.additive_attention_backward(q, k, v, forward.out, forward.lse, grad, gradients=names, **given)
    judge_gradients(got.get, lambda dtype, order, **how: additive_backward(q, k, v, grad, layer, Options(), dtype=dtype,
                                                                           order=order, **how), np.float32, names)


def test_multi_head(rng):
    q, k, v, grad = normal(rng, 2, 3, 8), normal(rng, 2, 5, 6), normal(rng, 2, 5, 7), normal(rng, 2, 3, 9)
    pairs = [(normal(rng, 16, 8), normal(rng, 16)), (normal(rng, 8, 6), normal(rng, 8)), (normal(rng, 10, 7), normal(rng, 10)),
             (normal(rng, 9, 20), normal(rng, 9))]
    weights, biases = zip(*pairs)
    given = dict(heads=4, key_heads=2, **dict(zip(("b_query", "b_key", "b_value", "b_out"), biases)))
    names = ["query", "key", "value", "w_query", "w_key", "w_value", "w_out", "b_query", "b_key", "b_value", "b_out"]
    got = attune.multi_head_attention_backward(q, k, v, *weights, grad, gradients=names, **given)
    judge_gradients(got.get, lambda dtype, order, **how: multi_head_backward(q, k, v, grad, MultiHead(4, 2, *pairs), Options(),
                                                                             dtype, order, **how), np.float32, names)


def test_linear(rng):
    x, weight, grad = normal(rng, 2, 3, 8), normal(rng, 5, 8), normal(rng, 2, 3, 5)
    got = attune.linear_backward(x, weight, grad, gradients=["x", "weight", "bias"])
    judge_gradients(got.get, lambda dtype, order, **how: linear_backward(x, weight, grad, dtype, order, **how), np.float32,
                    ["x", "weight", "bias"])
    assert list(attune.linear_backward(x, weight, grad)) == ["x", "weight"]
    # The gradient by one input does not read it.
    assert np.array_equal(attune.linear_backward(None, weight, grad, gradients=["x"])["x"], got["x"])
    assert np.array_equal(attune.linear_backward(x, None, grad, gradients=["weight"])["weight"], got["weight"])
    assert np.array_equal(attune.linear_backward(None, None, grad, gradients=["bias"])["bias"], got["bias"])
    for given in ((None, weight), (x, None), (None, None)):
        with pytest.raises(ValueError, match="^(x|weight|gradients.x|gradients.weight): "):
            attune.linear_backward(*given, grad)


@pytest.mark.parametrize("fill", ["zero", "seed"])
def test_masked_softmax(rng, fill):
    scores, grad = normal(rng, 2, 3, 5), normal(rng, 2, 3, 5)
    out = attune.masked_softmax(scores, valid_lens=LENS, fill=fill)
    got = attune.masked_softmax_backward(out, grad, valid_lens=LENS, fill=fill)
    compute = lambda dtype, order, **how: masked_softmax_backward(scores, grad, LENS, fill, dtype, order, **how)
    exact, plain = reference_and_plain(compute, np.float32)
    size = float(np.max(np.abs(compute(np.float64, None, parts=np.abs))))
    judge("scores", got, plain, exact, np.float32, 4 * float(np.finfo(np.float32).eps) * size)


def test_rows(rng):
    """Central differences in f64."""
    x, weight, grad = (normal(rng, *shape, dtype=np.float64) for shape in ((3, 2, 8), (8,), (3, 2, 8)))
    steps = dict(norm_weight=weight, rope_base=100.0, hadamard=True)
    positions = [4, 0, 9]
    got = attune.transform_rows_backward(x, positions, grad, gradients=["x", "norm_weight"], **steps)
    loss = lambda x, weight: np.sum(grad * attune.transform_rows(x, positions, **{**steps, "norm_weight": weight}))
    for name, array in (("x", x), ("norm_weight", weight)):
        difference = np.zeros_like(array)
        for at in np.ndindex(array.shape):
            more, less = array.copy(), array.copy()
            more[at] += 1e-6
            less[at] -= 1e-6
            of = lambda a: loss(a, weight) if name == "x" else loss(x, a)
            difference[at] = (of(more) - of(less)) / 2e-6
        assert np.max(np.abs(got[name] - difference)) < 1e-6 * np.max(np.abs(difference)), name
    judge("x", got["x"], [got["x"]], got["x"].astype(np.longdouble), np.float64)
