# SPDX-License-Identifier: MIT
"""Arrays on a CUDA device: kernels of the device run on the stream of the arrays' library, in place."""
import threading

import attune
import numpy as np
import pytest
from arrays import normal
from attention_numpy import Options, sdpa
from backward_numpy import sdpa_backward
from device_arrays import ROCM, OnDevice, WithTable, driver_counts, held
from judging import judge_attention, judge_gradients

if not any(v["target"].startswith("cuda") for v in attune.variants()):
    pytest.skip("no kernels for a device are linked in", allow_module_level=True)
if driver_counts() is None:
    pytest.skip("a GPU does not reach the memory of NumPy", allow_module_level=True)


@pytest.fixture(autouse=True)
def no_stream_and_nothing_held():
    WithTable.stream = 0
    yield
    WithTable.stream = 0
    assert held() == 0


@pytest.fixture
def arrays(rng):
    return [normal(rng, 2, 4, 5, 64), normal(rng, 2, 2, 9, 64), normal(rng, 2, 2, 9, 64)]


def on_device(arrays, kind=WithTable, **how):
    return [kind(a, **how) for a in arrays]


def last_variant(context=None):
    return (context or attune.default_context()).last_variant


def test_new_results_are_arrays_of_the_library_on_the_device(arrays):
    lens = np.array([9, 4], np.int32)
    got = attune.scaled_dot_product_attention(*on_device(arrays), valid_lens=WithTable(lens), causal="bottom_right",
                                              softcap=3.0, lse=True)
    assert last_variant().startswith("sdpa_f32_d64_cuda80")
    assert type(got.out) is type(got.lse) is WithTable
    expected = Options(valid_lens=lens, causal="bottom-right", softcap=3.0)
    judge_attention(lambda name: getattr(got, name).array, lambda dtype, order: sdpa(*arrays, expected, dtype, order),
                    np.float32, ("out", "lse"))
    rows = attune.scaled_dot_product_attention(*on_device(arrays), layout="heads_in_rows")
    assert rows.array.swapaxes(1, 2).flags.c_contiguous


def test_arrays_with_dlpack_alone(arrays):
    given, out = on_device(arrays, OnDevice), OnDevice(np.zeros_like(arrays[0]))
    assert attune.scaled_dot_product_attention(*given, out=out) is out
    judge_attention(lambda name: out.array, lambda dtype, order: sdpa(*arrays, Options(), dtype, order), np.float32, ("out",))
    assert [a.asked for a in (*given, out)] == [[1]] * 4  # DLPack's name of the default stream
    context = attune.Context(cuda_stream=0x5678)
    attune.scaled_dot_product_attention(*given, out=out, context=context)
    assert given[0].asked[1:] == [0x5678] and driver_counts().last_stream == 0x5678
    with pytest.raises(ValueError, match="^out: must be given"):
        attune.scaled_dot_product_attention(*given)


def test_streams(arrays):
    given = on_device(arrays)
    for stream in (0x1000, 0x2000, 0):
        WithTable.stream = stream
        attune.scaled_dot_product_attention(*given)
        assert driver_counts().last_stream == (stream or None)
    WithTable.stream = 0x3000
    attune.scaled_dot_product_attention(*given, context=attune.Context(cuda_stream=0x3000))
    assert driver_counts().last_stream == 0x3000
    for named in (0x4000, 0):
        with pytest.raises(ValueError, match="^query: the current stream of its library is not the one that the Context names"):
            attune.scaled_dot_product_attention(*given, context=attune.Context(cuda_stream=named))


def test_a_call_copies_nothing_and_waits_for_nothing(arrays):
    given = on_device(arrays)
    attune.scaled_dot_product_attention(*given)
    before = [getattr(driver_counts(), name) for name in ("copies", "waits")]
    attune.scaled_dot_product_attention(*given)
    assert [getattr(driver_counts(), name) for name in ("copies", "waits")] == before


def test_gradients(rng, arrays):
    grad_out, sinks = normal(rng, 2, 4, 5, 64), normal(rng, 4)
    forward = attune.scaled_dot_product_attention(*on_device(arrays), sinks=WithTable(sinks), lse=True)
    got = attune.scaled_dot_product_attention_backward(*on_device(arrays), forward.out, forward.lse, WithTable(grad_out),
                                                       sinks=WithTable(sinks), gradients=["query", "key", "value", "sinks"])
    assert "_cuda80" in last_variant()
    judge_gradients(lambda name: got[name].array, lambda dtype, order, **how: sdpa_backward(
        *arrays, grad_out, None, Options(sinks=sinks), dtype, order, **how), np.float32, list(got))


def test_rows_and_layers(rng):
    x, weight, positions = normal(rng, 6, 2, 64), np.float32(1) + normal(rng, 64) / 8, np.arange(3, 9, dtype=np.int32)
    cos, sin = attune.rope_tables(16, 64, 10000.0)
    steps = dict(norm_weight=weight, rope_cos=cos, rope_sin=sin, hadamard=True)
    on_host = attune.transform_rows(x, positions, **steps)
    got = attune.transform_rows(WithTable(x), WithTable(positions),
                                **{k: WithTable(v) if isinstance(v, np.ndarray) else v for k, v in steps.items()})
    assert np.array_equal(got.array, on_host)  # a device has the bits of the host here
    linear = attune.linear(WithTable(x), WithTable(normal(rng, 5, 64)))
    assert linear.array.shape == (6, 2, 5) and last_variant().startswith("linear_f32_cuda80")


def test_append(rng):
    rows, lens = normal(rng, 2, 2, 3, 64), np.array([4, 0], np.int32)
    host, device = ([np.zeros((2, 2, 8, 64), np.float32) for _ in range(2)] for _ in range(2))
    attune.kv_append(rows, rows, lens, *host)
    attune.kv_append(WithTable(rows), WithTable(rows), WithTable(lens), *map(WithTable, device))
    for one, other in zip(host, device):
        assert np.array_equal(one, other) and one.any()


def test_threads_have_streams_of_their_own(arrays):
    expected = attune.scaled_dot_product_attention(*on_device(arrays)).array.copy()
    wrong = []

    def calls(n):
        WithTable.stream = 0x100 * n  # of this thread; the Contexts are those of all threads
        given, out = on_device(arrays), WithTable(np.zeros_like(arrays[0]))
        for _ in range(10):
            attune.scaled_dot_product_attention(*given, out=out)
            wrong.extend([n] * (not np.array_equal(out.array, expected)))

    threads = [threading.Thread(target=calls, args=(n,)) for n in range(1, 9)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    for stream in range(1, 200):  # more streams than Contexts are kept for
        WithTable.stream = stream
        attune.linear(WithTable(arrays[0][0, 0]), WithTable(arrays[1][0, 0]))
        assert driver_counts().last_stream == stream


def test_plan():
    plan = attune.plan_sdpa(queries=64, keys=64, head_dim=64, value_dim=64, place="device")
    assert "_cuda80" in plan["variant"]


def test_bad_arrays(arrays):
    q, k, v = on_device(arrays)
    bad = [
        ((q, arrays[1], v), {}, "key: is on the host, query is on a device"),
        ((arrays[0], k, v), {}, "key: is on a device"),
        ((q, WithTable(arrays[1], device=1), v), {}, "key: is on CUDA device 1, other arrays of the call are on device 0"),
        (on_device(arrays, device=5), {}, "device.cuda_device: the CUDA driver gives no device 5"),
        ((OnDevice(arrays[0], kind=ROCM), k, v), {}, r"query: is on a device \(DLPack's type 10, number 0\); the host"),
        ((q, k, v), dict(valid_lens=[9, 9]), "valid_lens: is on the host, query is on a device"),
        ((q, k, v), dict(out=np.zeros_like(arrays[0])), "out: is on the host, query is on a device"),
        ((q, k, v), dict(dropout_p=0.5, seed=WithTable(np.ones(1, np.int64))), "seed: is on a device; the number is read on"),
    ]
    for given, options, message in bad:
        with pytest.raises(ValueError, match="^" + message):
            attune.scaled_dot_product_attention(*given, **options)
    WithTable.stream = 0x1000
    with pytest.raises(ValueError, match=r"^key: the current stream of its library is not that of the arrays before it"):
        attune.scaled_dot_product_attention(q, OnDevice(arrays[1]), v)
    WithTable.stream = 0
    with pytest.raises(ValueError, match="^weights: is on a device .*; this function computes on the host only"):
        attune.heatmap(WithTable(arrays[0]))
    with pytest.raises(attune.UnsupportedError):
        attune.batch_dot(WithTable(arrays[0][0]), WithTable(arrays[1][0]))
    for stream in (-1, 1.5):
        with pytest.raises((TypeError, ValueError)):
            attune.Context(cuda_stream=stream)
