# SPDX-License-Identifier: MIT
"""attune.context_parallel: ranks that are threads have the bits of one rank; disagreements and failures are exceptions on every
rank, within the time limit; processes of MPI where mpi4py is installed."""
import gc
import pathlib
import subprocess
import sys
import threading
import time
import weakref

import attune
import attune.context_parallel as cp
import numpy as np
import pytest
from arrays import normal
from thread_ranks import Group, on_ranks

S, CHUNK = 90, 16


@pytest.fixture
def tensors(rng):
    return normal(rng, 1, 4, S, 64), normal(rng, 1, 2, S, 64), normal(rng, 1, 2, S, 64), normal(rng, 1, 4, S, 64)


def spread(function, size, tensors, layout="striped", **options):
    """Results of a forward function and of the backward, of all positions; figures of the calls, by rank."""
    query, key, value, grad = tensors
    out, lse = np.empty_like(query), np.empty(query.shape[:3], np.float32)
    gradients = {name: np.empty_like(x) for name, x in zip(("query", "key", "value"), (query, key, value), strict=True)}
    band = {name: options[name] for name in ("causal", "window") if name in options}

    def run(ranks):
        plan = cp.plan_positions(S, ranks.size, layout, CHUNK, **band)
        rows = cp.rows_of(plan, ranks.rank)
        assert len(rows) == plan.positions_of(ranks.rank)
        report = {}
        own = [np.ascontiguousarray(x[:, :, rows]) for x in tensors]
        made = function(ranks, plan, *own[:3], lse=True, report=report, **options)
        back = cp.ring_attention_backward(ranks, plan, *own[:3], made.out, made.lse, own[3],
                                          gradients=["query", "key", "value", *(["sinks"] if "sinks" in options else [])],
                                          **options)
        out[:, :, rows], lse[:, :, rows] = made.out, made.lse
        for name, gradient in gradients.items():
            gradient[:, :, rows] = back[name]
        return report, back.get("sinks")

    results = on_ranks(size, run)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return [out, lse, *gradients.values(), *(r[1] for r in results if r[1] is not None)][:6], [r[0] for r in results]


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("options", [{}, {"causal": "top_left"}, {"window": (20, 0), "softcap": 5.0},
                                     {"causal": "top_left", "sinks": np.linspace(-1, 1, 4, dtype=np.float32)},
                                     {"dropout_p": 0.3, "seed": 5, "dropout_first_query": 7, "dropout_first_key": 2,
                                      "dropout_first_head": 3, "dropout_heads": 6}])
def test_ranks_have_the_bits_of_one(tensors, size, options):
    one, _ = spread(cp.ring_attention, 1, tensors, **options)
    several, reports = spread(cp.ring_attention, size, tensors, **options)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one, several, strict=True))
    plan = cp.plan_positions(S, size, "striped", CHUNK, **{n: v for n, v in options.items() if n in ("causal", "window")})
    forecast = cp.forecast_parallel(plan, "ring", query_heads=4, key_heads=2, head_dim=64, value_dim=64)
    assert [r["bytes_sent"] for r in reports] == forecast["bytes_sent"]
    assert all(r["seconds"] > 0 for r in reports)
    assert all(a.tobytes() == b.tobytes()
               for a, b in zip(one, spread(cp.gathered_attention, size, tensors, **options)[0], strict=True))


def test_heads_have_the_bits_of_one(rng):
    tensors = tuple(normal(rng, 1, 2, S, 64) for _ in range(3))
    # A call of fewer heads may be dispatched to another variant.
    variant = attune.plan_sdpa(queries=CHUNK, keys=CHUNK, head_dim=64, value_dim=64)["variant"]

    def run(ranks):
        rows = cp.rows_of(plan := cp.plan_positions(S, ranks.size, "striped", CHUNK), ranks.rank)
        own = (np.ascontiguousarray(x[:, :, rows]) for x in tensors)
        return rows, cp.head_parallel_attention(ranks, plan, *own, variant=variant)

    [(_, one)] = on_ranks(1, run)
    for rows, out in on_ranks(2, run):
        assert out.tobytes() == np.ascontiguousarray(one[:, :, rows]).tobytes()


def test_one_chunk_has_the_bits_of_attention(tensors):
    query, key, value, _ = tensors
    plan = cp.plan_positions(S, 1, "contiguous", causal="top_left")
    out = cp.ring_attention(cp.Communicator(0, 1), plan, query, key, value, causal="top_left")
    expected = attune.scaled_dot_product_attention(query, key, value, causal="offset", offset=0)
    assert out.tobytes() == expected.tobytes()


def test_decoding_has_the_bits_of_one(rng, tensors):
    _, key, value, _ = tensors
    query = normal(rng, 1, 4, 2, 64)

    def decode(ranks):
        plan = cp.plan_positions(S, ranks.size, "head_tail", CHUNK)
        rows = cp.rows_of(plan, ranks.rank)
        return cp.sharded_decode(ranks, plan, query, np.ascontiguousarray(key[:, :, rows]),
                                 np.ascontiguousarray(value[:, :, rows]), valid_lens=[70], causal="top_left")

    [expected] = on_ranks(1, decode)
    for out in on_ranks(3, decode):
        assert out.tobytes() == expected.tobytes()


def test_decoding_over_pages_has_the_bits_of_one(rng):
    query, pool = normal(rng, 2, 4, 64), normal(rng, 6, 16, 2, 64)  # page 3 b + n has the rows 16 n, ... of sequence b

    def decode(ranks):
        plan = cp.plan_positions(48, ranks.size, "striped", 16)
        pages = [begin // 16 + n for begin, end in plan.of_rank[ranks.rank] for n in range((end - begin) // 16)]
        table = np.array([[3 * b + page for page in pages] for b in range(2)], np.int32)
        return cp.sharded_paged_decode(ranks, plan, query, pool, pool, table, [40, 3], lse=True)

    [expected] = on_ranks(1, decode)
    for made in on_ranks(3, decode):
        assert made.out.tobytes() == expected.out.tobytes() and made.lse.tobytes() == expected.lse.tobytes()


def test_a_layout_of_the_caller(tensors):
    query, key, value, _ = tensors
    plan = cp.plan_positions(S, 2, "contiguous", CHUNK)
    plan.of_rank = [[(0, 16), (32, S)], [(16, 32)]]

    def run(ranks):
        rows = cp.rows_of(plan, ranks.rank)
        return cp.ring_attention(ranks, plan, *(np.ascontiguousarray(x[:, :, rows]) for x in (query, key, value)))

    one = cp.ring_attention(cp.Communicator(0, 1), cp.plan_positions(S, 1, "contiguous", CHUNK), query, key, value)
    for rank, out in enumerate(on_ranks(2, run)):
        assert out.tobytes() == np.ascontiguousarray(one[:, :, cp.rows_of(plan, rank)]).tobytes()
    plan.of_rank = [[(0, 10)], [(10, S)]]
    for error in on_ranks(2, run):
        assert isinstance(error, ValueError) and "plan.of_rank" in str(error)


def attempt(tensors, change=lambda ranks: {}, **arguments):
    def run(ranks):
        rows = cp.rows_of(plan := cp.plan_positions(S, ranks.size, "striped", CHUNK), ranks.rank)
        return cp.ring_attention(ranks, plan, *(np.ascontiguousarray(x[:, :, rows]) for x in tensors[:3]), **change(ranks))

    return on_ranks(3, run, **arguments)


def test_a_disagreement_is_an_error_on_every_rank(tensors):
    for error in attempt(tensors, lambda ranks: {"softcap": 1.0 + (ranks.rank == 1)}):
        assert isinstance(error, ValueError) and str(error).startswith("softcap: ranks disagree")


def test_a_rank_that_does_not_call_is_an_error_on_the_others(tensors):
    start = time.monotonic()

    def change(ranks):
        if ranks.rank == 1:
            raise KeyError("this rank does not call")
        return {}

    errors = attempt(tensors, change, time_limit=0.5)
    assert isinstance(errors[1], KeyError)
    for error in (errors[0], errors[2]):
        assert isinstance(error, ConnectionError) and "did not come within" in str(error)
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("name", ["start_send_receive", "wait"])
def test_an_exception_of_a_function_is_the_cause(tensors, name):
    def raises(*_):
        raise OSError("the cable is cut")

    errors = attempt(tensors, time_limit=0.5, functions=lambda rank: {name: raises} if rank == 1 else {})
    assert all(isinstance(error, ConnectionError) for error in errors)
    assert isinstance(errors[1].__cause__, OSError) and str(errors[1].__cause__) == "the cable is cut"
    assert errors[0].__cause__ is None


def test_functions_that_answer_nonsense(tensors):
    class NoTruth:
        def __bool__(self):
            raise ArithmeticError("neither")

    errors = attempt(tensors, time_limit=0.5, functions=lambda rank: {"wait": lambda *_: NoTruth()} if rank == 1 else {})
    assert isinstance(errors[1], ConnectionError) and errors[1].__cause__ is not None


def test_functions_of_the_calling_thread_alone(tensors):
    callers, group = set(), Group(3)

    def watched(rank):
        def wait(request, seconds):
            callers.add((rank, threading.get_ident()))
            return group.wait(request, seconds)
        return {"any_thread": False, "wait": wait}

    expected, made = attempt(tensors), attempt(tensors, functions=watched)
    assert len(callers) == 3, "each rank calls by one thread"
    assert all(a.tobytes() == b.tobytes() for a, b in zip(expected, made, strict=True))


def test_wrong_communicators_and_plans(tensors):
    def refused(call, *words):
        with pytest.raises(ValueError) as error:
            call()
        assert all(word in str(error.value) for word in words), error.value

    refused(lambda: cp.Communicator(0, 2), "start_send_receive: must be a function")
    refused(lambda: cp.Communicator(2, 2, print, print), "rank: must be from 0 to 1, got 2")
    refused(lambda: cp.Communicator(0, 0), "size: must be at least 1")
    refused(lambda: cp.Communicator(0, 1, time_limit=0.0), "time_limit: must be above 0")
    refused(lambda: cp.plan_positions(-1, 2, "striped"), "positions")
    refused(lambda: cp.plan_positions(8, 2, "spiral"), "layout: must be one of", "spiral")
    plan = cp.plan_positions(S, 2, "striped", CHUNK)
    refused(lambda: plan.positions_of(2), "rank: the plan has 2 ranks")
    refused(lambda: cp.forecast_parallel(plan, "tree"), "scheme: must be one of")
    refused(lambda: cp.ring_attention(cp.Communicator(0, 1), plan, *tensors[:3]), "plan.of_rank")
    with pytest.raises(TypeError, match="gathered_attention.. got an unexpected keyword argument 'sparsity'"):
        cp.gathered_attention(cp.Communicator(0, 1), plan, *tensors[:3], sparsity=1)


def test_memory_of_a_message_ends_with_it(tensors):
    """A function that keeps a memoryview of a message finds it released, and requests are not kept."""
    kept, requests, queues = [], [], Group(2).queues

    class Answer:
        pass

    def watching(rank):
        def start(send, to, receive, source):
            answer = Answer()
            answer.receive, answer.source = receive, source
            if to is not None:
                queues[rank, to].put(send.tobytes())
                kept.append(send)
            requests.append(weakref.ref(answer))
            return answer

        def wait(answer, seconds):
            if answer.source is not None:
                answer.receive[:] = queues[answer.source, rank].get(timeout=20)
            return True

        return {"start_send_receive": start, "wait": wait}

    def run(ranks):
        rows = cp.rows_of(plan := cp.plan_positions(S, 2, "striped", CHUNK), ranks.rank)
        return cp.ring_attention(ranks, plan, *(np.ascontiguousarray(x[:, :, rows]) for x in tensors[:3]))

    results = on_ranks(2, run, functions=watching)
    assert not any(isinstance(r, Exception) for r in results), results
    gc.collect()
    assert kept and all(reference() is None for reference in requests)
    with pytest.raises(ValueError, match="released"):
        kept[0].tobytes()


def test_a_communicator_that_its_own_functions_hold_is_collected():
    class Holder:
        pass

    holder = Holder()
    holder.communicator = cp.Communicator(0, 2, lambda *_: holder, lambda *_: holder)
    seen = weakref.ref(holder)
    del holder
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("size", [1, 2, 3])
def test_processes_of_mpi(mpirun, size):
    program = pathlib.Path(__file__).with_name("mpi_rank.py")
    done = subprocess.run([*mpirun, "-n", str(size), sys.executable, str(program)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.count("the same bits") == size, done.stdout + done.stderr
