# SPDX-License-Identifier: MIT
"""An attention of attune.define() over ranks that are threads: its formula, with the bits of one rank, gradients of captures
and autograd included; what ranks disagree about."""
import importlib.util

import attention_numpy
import attune
import attune.context_parallel as cp
import backward_numpy
import numpy as np
import pytest
from arrays import normal
from judging import judge_attention, judge_gradients
from thread_ranks import on_ranks

S, CHUNK, HEADS, KEY_HEADS = 50, 16, 4, 2
ALONE = cp.Communicator(0, 1)
NAMES = ("query", "key", "value", "rate")


@pytest.fixture
def tensors(rng):
    """query, key, value, grad_out of all positions, and the rates of score.h."""
    return [*(normal(rng, 1, heads, S, 64) for heads in (HEADS, KEY_HEADS, KEY_HEADS, HEADS)), normal(rng, HEADS)]


def plan_of(ranks, layout="striped", chunk=CHUNK):
    return cp.plan_positions(S, ranks, layout, chunk)


def rows_of(tensors, plan, rank):
    return [np.ascontiguousarray(x[:, :, cp.rows_of(plan, rank)]) for x in tensors]


def results(recency, name, size, tensors, layout="striped", **options):
    """out, lse and the gradients of all positions; that of the rates by rank."""
    *rowed, rate = tensors
    made = [np.empty_like(x) for x in (rowed[0], rowed[0][..., 0], *rowed[:3])]

    def run(ranks):
        plan, report = plan_of(ranks.size, layout), {}
        *own, grad = rows_of(rowed, plan, ranks.rank)
        forward = getattr(recency, name)(ranks, plan, *own, rate=rate, lse=True, report=report, **options)
        assert report["seconds"] > 0 and (report["bytes_sent"] > 0) == (size > 1)
        back = recency.ring_attention_backward(ranks, plan, *own, forward.out, forward.lse, grad, rate=rate, gradients=NAMES,
                                               **options)
        for whole, part in zip(made, (forward.out, forward.lse, *(back[n] for n in NAMES[:3])), strict=True):
            whole[:, :, cp.rows_of(plan, ranks.rank)] = part
        return back["rate"]

    of_ranks = on_ranks(size, run)
    for result in of_ranks:
        if isinstance(result, Exception):
            raise result
    return [*made, of_ranks[0]], of_ranks


@pytest.mark.parametrize("options", [{}, {"valid_lens": [41]}])
def test_ranks_have_the_bits_of_one(recency, tensors, options):
    one, _ = results(recency, "ring_attention", 1, tensors, **options)
    for name, size, layout in [("ring_attention", 2, "striped"), ("ring_attention", 3, "contiguous"),
                               ("gathered_attention", 3, "head_tail"), ("head_parallel_attention", 2, "striped")]:
        several, rates = results(recency, name, size, tensors, layout, **options)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(one, several, strict=True)), name
        assert all(rate.tobytes() == rates[0].tobytes() for rate in rates), name


def test_one_rank_agrees_with_the_formula(recency, tensors):
    *rowed, grad, rate = tensors
    got, _ = results(recency, "ring_attention", 1, tensors)
    distance = np.abs(np.arange(S)[:, None] - np.arange(S))

    def options(dtype):
        table = -np.exp(rate.astype(dtype))[:, None, None] * np.log(1 + distance.astype(dtype))
        return attention_numpy.Options(causal="top-left", bias=table)

    judge_attention(dict(zip(("out", "lse"), got)).get,
                    lambda dtype, order: attention_numpy.sdpa(*rowed, options(dtype), dtype, order), np.float32, ("out", "lse"))
    judge_gradients(dict(zip(NAMES, got[2:])).get,
                    lambda dtype, order, **how: backward_numpy.sdpa_backward(*rowed, grad, None, options(dtype), dtype, order,
                                                                             **how), np.float32, NAMES[:3])


def test_one_chunk_has_the_bits_of_the_plain_call(recency, tensors):
    *rowed, grad, rate = tensors
    plan = plan_of(1, "contiguous", S)
    over_ranks, plain = recency.ring_attention(ALONE, plan, *rowed, rate=rate, lse=True), recency(*rowed, rate=rate, lse=True)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(over_ranks[:2], plain[:2]))
    of_ranks = recency.ring_attention_backward(ALONE, plan, *rowed, *plain[:2], grad, rate=rate, gradients=NAMES)
    of_plain = recency.backward(*rowed, *plain[:2], grad, rate=rate, gradients=NAMES)
    assert all(of_ranks[name].tobytes() == of_plain[name].tobytes() for name in NAMES)


def test_decoding_has_the_bits_of_one(recency, tensors, rng):
    _, key, value, _, rate = tensors
    query = normal(rng, 1, HEADS, 2, 64)
    decode = lambda ranks: recency.sharded_decode(ranks, plan := plan_of(ranks.size), query,
                                                  *rows_of((key, value), plan, ranks.rank), rate=rate, valid_lens=[40])
    [expected] = on_ranks(1, decode)
    for out in on_ranks(3, decode):
        assert out.tobytes() == expected.tobytes()
    assert np.allclose(expected, recency(query, key[:, :, :40], value[:, :, :40], rate=rate), rtol=1e-5, atol=1e-6)


def test_errors_are_on_every_rank(recency, tensors):
    *rowed, _, rate = tensors

    def errors(change, size=2):
        call = lambda ranks: recency.ring_attention(ranks, plan := plan_of(ranks.size), *rows_of(rowed, plan, ranks.rank),
                                                    **change(ranks))
        return [str(error) for error in on_ranks(size, call) if isinstance(error, ValueError)]

    assert errors(lambda ranks: {}) == ["rate: must be given"] * 2
    own, other = errors(lambda ranks: {"rate": rate} if ranks.rank else {"rate": rate[:2]})
    assert own.startswith("rate: is too small") and "rank 0 refused its arguments" in other
    disagree = errors(lambda ranks: {"rate": rate, "scale": 1.0 + ranks.rank}, 3)
    assert len(disagree) == 3 and all(message.startswith("scale: ranks disagree") for message in disagree), disagree
    assert errors(lambda ranks: {"rate": rate, "causal": "offset", "offset": 1})[0].startswith("offset")
    with pytest.raises(TypeError, match=r"recency.ring_attention.. got an unexpected keyword argument 'rates'"):
        recency.ring_attention(ALONE, plan_of(1), *rowed, rates=rate)
    with pytest.raises(ValueError, match="^plan.of_rank"):
        recency.gathered_attention(ALONE, plan_of(2), *rowed, rate=rate)


def test_a_failure_has_its_cause(recency, tensors):
    def cut(*_):
        raise OSError("the cable is cut")

    call = lambda ranks: recency.ring_attention(ranks, plan := plan_of(2), *rows_of(tensors[:3], plan, ranks.rank),
                                                rate=tensors[4])
    failed = on_ranks(2, call, time_limit=0.5, functions=lambda rank: {"wait": cut} if rank == 1 else {})
    assert all(isinstance(error, ConnectionError) for error in failed)
    assert isinstance(failed[1].__cause__, OSError) and failed[0].__cause__ is None


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_autograd(recency, tensors):
    """Gradients that autograd takes are those of ring_attention_backward(), on each rank."""
    import torch
    expected, _ = results(recency, "ring_attention", 1, tensors)
    *rowed, rate = tensors

    def run(ranks):
        plan, report = plan_of(ranks.size), {}
        own = [torch.from_numpy(x) for x in rows_of(rowed, plan, ranks.rank)]
        leaves = [t.requires_grad_() for t in (*own[:3], torch.from_numpy(rate.copy()))]
        out, lse, _ = recency.ring_attention(ranks, plan, *leaves[:3], rate=leaves[3], lse=True, report=report)
        assert report["bytes_sent"] > 0
        found = torch.autograd.grad(out, leaves, own[3])
        with torch.no_grad():
            assert torch.equal(recency.gathered_attention(ranks, plan, *leaves[:3], rate=leaves[3]), out)
        return cp.rows_of(plan, ranks.rank), out.detach(), lse.detach(), *found

    for result in on_ranks(2, run):
        assert not isinstance(result, Exception), result
        rows, *made, of_rate = result
        for mine, whole in zip(made, expected):
            assert mine.numpy().tobytes() == np.ascontiguousarray(whole[:, :, rows]).tobytes()
        assert of_rate.numpy().tobytes() == expected[-1].tobytes()
    leaf = torch.from_numpy(rowed[0]).requires_grad_()
    with pytest.raises(NotImplementedError, match="this function has no gradients"):
        recency.sharded_decode(ALONE, plan_of(1), leaf, *map(torch.from_numpy, rowed[1:3]), rate=torch.from_numpy(rate))
