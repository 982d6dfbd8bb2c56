# SPDX-License-Identifier: MIT
"""Arrays that are refused, each with a line that names the argument; and ways in which good ones come."""
import array
import gc
import weakref

import attune
import numpy as np
import pytest
from arrays import OldDLPack, WithDLPack, WithInterface, normal
from device_arrays import ROCM, OnDevice

sdpa = attune.scaled_dot_product_attention


def refused(says, *arguments, error=ValueError, **options):
    with pytest.raises(error) as caught:
        sdpa(*arguments, **options)
    text = str(caught.value)
    assert text.startswith(says) and "\n" not in text, text


def test_other_devices(qkv):
    query, key, value = qkv
    refused("key: is on a device", query, OnDevice(key), value)
    refused("key: is on a device (DLPack's type 10, number 0); the host and CUDA", query, OnDevice(key, kind=ROCM), value)

    class Liar(WithDLPack):  # the host's array, whose device is said to be the host, in a capsule of another
        def __dlpack_device__(self):
            return (3, 0)
    refused("key: its __dlpack_device__ names another device", query, Liar(key), value)


def test_read_only_outputs(qkv):
    out = np.empty((2, 4, 3, 6), np.float32)
    out.setflags(write=False)
    refused("out: is read-only", *qkv, out=out)
    refused("out: is read-only", *qkv, out=WithDLPack(out))
    refused("out: its DLPack is older than 1.0", *qkv, out=OldDLPack(np.empty((2, 4, 3, 6), np.float32)))
    for a in qkv:
        a.setflags(write=False)
    sdpa(*qkv)  # inputs may be read-only


def test_byte_order(qkv):
    query, key, value = qkv
    refused("query: its byte order", query.astype(">f4"), key, value)


@pytest.mark.parametrize("dtype", [object, "U3", np.complex64, np.uint16, np.longdouble, "datetime64[s]", "i4,f4"])
def test_types_that_are_no_numbers(qkv, dtype):
    refused("key: ", qkv[0], np.zeros(qkv[1].shape, dtype), qkv[2])


def test_types_that_the_function_refuses(qkv):
    refused("query: type must be", qkv[0].astype(np.int32), *qkv[1:])
    refused("key: type is f64, that of query is f32", qkv[0], qkv[1].astype(np.float64), qkv[2])
    refused("mask: type must be bool", *qkv, mask=np.ones((3, 5), np.int8))
    refused("valid_lens: type must be i32", *qkv, valid_lens=np.array([4, 0]))


def test_zero_dimensions(qkv):
    refused("query: is zero-dimensional", np.float32(1), *qkv[1:])
    refused("bias: is zero-dimensional", *qkv, bias=np.zeros((), np.float32))


def test_too_many_dimensions(qkv):
    refused("query: ", np.zeros((1,) * 5, np.float32), *qkv[1:])
    refused("bias: ", *qkv, bias=np.zeros((1,) * 6, np.float32))


def test_strides(qkv):
    query, key, value = qkv
    refused("key: last stride must be 1, got -1", query, key[..., ::-1], value)
    refused("key: last stride must be 1, got 2", query, np.repeat(key, 2, axis=3)[..., ::2], value)
    record = np.zeros((2, 2, 5), [("x", np.int8), ("row", np.float32, 8)])
    refused("key: stride 0 is 330 bytes, no multiple", query, record["row"], value)
    bytes_ = np.zeros(4 * key.size + 1, np.uint8)
    refused("key: its memory is not aligned", query, bytes_[1:].view(np.float32).reshape(key.shape), value)


def test_overlapping_outputs(qkv):
    query, key, value = (np.ascontiguousarray(a) for a in (*qkv[:2], qkv[1]))
    refused("out: overlaps", query, key, value, out=query)
    memory = np.empty(2 * 4 * 3 * 8, np.float32)
    refused("", query, key, value, out=memory.reshape(2, 4, 3, 8), lse=memory[:24].reshape(2, 4, 3))
    one = np.lib.stride_tricks.as_strided(memory, (2, 4, 3, 8), (0, 0, 0, 4))
    refused("out: ", query, key, value, out=one)


def test_things_that_are_no_arrays(qkv):
    refused("key: must be an array", qkv[0], [[1.0]], qkv[2], error=TypeError)
    refused("key: must be an array", qkv[0], None, qkv[2], error=TypeError)
    refused("valid_lens: is no list of 32-bit integers", *qkv, valid_lens=[2**40, 0])
    refused("query: is a masked array", np.ma.array(qkv[0]), *qkv[1:])


@pytest.mark.parametrize("options, says", [
    (dict(causal=True), "causal: must be one of"), (dict(causal="left"), "causal: must be one of"),
    (dict(window=3), "window: must be (left, right)"), (dict(alibi=1), "alibi: must be True or False"),
    (dict(scale="x"), "scale: must be a number"), (dict(seed=-1, dropout_p=0.5), "seed: must be an integer"),
    (dict(offset=1.5), "offset: must be an integer"), (dict(dropout_offset=2**32), "dropout_offset: must be below"),
    (dict(variant=3), "variant: must be a text"), (dict(variant="no_such"), "variant: "),
    (dict(context=3), "context: must be an attune.Context"), (dict(layout="x"), "layout: must be one of"),
    (dict(dropout_p=2.0), "dropout"), (dict(scale=float("nan")), "scale: "),
])
def test_options(qkv, options, says):
    refused(says, *qkv, **options)


def test_unknown_keywords(qkv):
    refused("scaled_dot_product_attention() got an unexpected keyword argument 'is_causal'", *qkv, is_causal=True,
            error=TypeError)


def test_unsupported_is_a_value_error_of_its_own(qkv):
    assert issubclass(attune.UnsupportedError, ValueError)
    refused("query: ", *[a.astype(np.float16) for a in qkv], score="cosine", error=attune.UnsupportedError)


def test_ways_in(qkv):
    expected = sdpa(*qkv)
    for way in (WithDLPack, OldDLPack, WithInterface):
        assert np.array_equal(sdpa(*map(way, qkv)), expected)
        assert np.array_equal(sdpa(way(qkv[0]), *qkv[1:]), expected)
    for way in (WithDLPack, WithInterface):
        out = np.zeros_like(expected)
        sdpa(*qkv, out=way(out))
        assert np.array_equal(out, expected)
    plain = array.array("f", [1.0, 2.0])
    assert np.array_equal(attune.linear(memoryview(plain), np.eye(2, dtype=np.float32)), [1, 2])
    subclass = qkv[0].view(type("Mine", (np.ndarray,), {}))
    assert np.array_equal(sdpa(subclass, *qkv[1:]), expected)


def test_nothing_is_kept(qkv):
    """A call leaves no reference behind, neither of a success nor of an error."""
    class Mine(np.ndarray):
        pass
    arrays = [a.view(Mine) for a in qkv]
    gone = [weakref.ref(a) for a in arrays]
    sdpa(*arrays)
    refused("out: ", *arrays, out=arrays[0])
    del arrays
    gc.collect()
    assert not any(ref() is not None for ref in gone)


def test_rest_of_the_refused_call_is_untouched(qkv):
    out = np.full((2, 4, 3, 6), 7, np.float32)
    refused("valid_lens: ", *qkv, out=out, valid_lens=[6, 0])
    assert np.all(out == 7)


def test_bad_bias_of_a_device_in_gradients(qkv, rng):
    forward = sdpa(*qkv, lse=True)
    with pytest.raises(ValueError, match="^forward.grad_out: is on a device"):
        attune.scaled_dot_product_attention_backward(*qkv, forward.out, forward.lse,
                                                     OnDevice(normal(rng, 2, 4, 3, 6)))
