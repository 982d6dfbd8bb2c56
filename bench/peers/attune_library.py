# SPDX-License-Identifier: MIT
"""libattune_peers.so through ctypes: the structs of attune_peers.cpp, and calls whose arguments are made once."""

import ctypes
import math

import numpy as np

from arrays import LINE, zeros

DTYPES = {"float32": 0, "float64": 1, "int32": 2, "bool": 3, "bfloat16": 4, "float16": 5, "int8": 6,
          "uint8": 7, "int64": 8}
CAUSAL = {False: 0, True: 2}  # none, bottom_right
PAGE = 4096  # bytes; where smaller arrays begin is not felt
SCORES = {"dot_product": 0, "general": 1, "cosine": 2, "gaussian": 3}


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("place", ctypes.c_int32), ("extent", ctypes.c_int64 * 4), ("stride", ctypes.c_int64 * 4)]


class Options(ctypes.Structure):
    _fields_ = [("score", ctypes.c_int32), ("causal", ctypes.c_int32), ("alibi", ctypes.c_int32),
                ("weights_mode", ctypes.c_int32), ("scale", ctypes.c_double), ("softcap", ctypes.c_double),
                ("dropout", ctypes.c_double), ("seed", ctypes.c_uint64), ("left", ctypes.c_int64), ("right", ctypes.c_int64),
                *((name, Tensor) for name in ("score_weight", "bias", "mask", "valid_lens", "cache_lens", "weights", "lse"))]


class Backward(ctypes.Structure):
    _fields_ = [(name, Tensor) for name in ("out", "lse", "grad_out", "grad_query", "grad_key", "grad_value", "grad_bias",
                                       "grad_score")]


class Pages(ctypes.Structure):
    """Numbers have rows alone."""

    _fields_ = [(name, Tensor) for name in ("rows", "scale", "minimum")]


class RowSteps(ctypes.Structure):
    _fields_ = [*((name, Tensor) for name in ("norm_weight", "cos", "sin", "positions")), ("hadamard", ctypes.c_int32)]


class MultiHead(ctypes.Structure):
    _fields_ = [("heads", ctypes.c_int64), ("key_heads", ctypes.c_int64),
                *((name, Tensor) for name in ("query", "key", "value", "out")),
                *((name + "_bias", Tensor) for name in ("query", "key", "value", "out"))]


def tensor(array):
    """The Tensor of an array of NumPy, or of PyTorch on the CPU or a GPU."""
    t = Tensor()
    if hasattr(array, "data_ptr"):
        t.data, t.dtype, t.rank = array.data_ptr(), DTYPES[str(array.dtype).removeprefix("torch.")], array.dim()
        t.place = array.is_cuda
        t.extent[: t.rank] = array.shape
        t.stride[: t.rank] = array.stride()
    elif array is not None:
        if array.nbytes >= PAGE and array.ctypes.data % LINE:
            raise ValueError(f"an array of {array.nbytes} bytes that does not begin at a cache line (arrays.py)")
        t.data, t.dtype, t.rank = array.ctypes.data, DTYPES[array.dtype.name], array.ndim
        t.extent[: array.ndim] = array.shape
        t.stride[: array.ndim] = [s // array.itemsize for s in array.strides]
    return t


def options(score="dot_product", alibi=False, scale=math.nan, softcap=0, dropout=0, seed=0, causal=False, left=-1, **tensors):
    """tensors: score_weight, bias, mask, valid_lens, cache_lens, weights, lse; weights are those after the softmax."""
    o = Options(score=SCORES[score], causal=CAUSAL[causal], alibi=alibi, weights_mode=3, scale=scale, softcap=softcap,
                dropout=dropout, seed=seed, left=left, right=-1)
    for name, array in tensors.items():
        setattr(o, name, tensor(array))
    return o


class Attune:
    """Functions answer a call: it has no arguments, writes `out` and returns it."""

    def __init__(self, path, threads, stream=None):
        try:
            self.library = ctypes.CDLL(str(path))
        except OSError as error:
            raise SystemExit(f"--library: {error}")
        for name in ("sdpa", "sdpa_backward", "variable_length", "paged", "append", "additive", "additive_backward",
                     "multi_head", "linear", "pack_linear_weight", "batch_dot", "masked_softmax", "dropout_mask", "write",
                     "copy", "read", "status", "last_variant", "machine"):
            self._function(name).restype = ctypes.c_char_p
        self._function("open").restype = ctypes.c_void_p
        for name in ("fma_peak", "dot_peak", "tile_peak", "cpu_seconds_of_others"):
            self._function(name).restype = ctypes.c_double
        self.session = ctypes.c_void_p(self._function("open")(threads, ctypes.c_void_p(stream)))
        self._checked(self._function("status")(self.session))
        self.machine = dict(line.split("\t", 1) for line in self._function("machine")(self.session).decode().splitlines())

    def _function(self, name):
        try:
            return getattr(self.library, "attune_peers_" + name)
        except AttributeError as error:
            raise SystemExit(f"--library: {error}: not of the target attune_peers of this source tree")

    @staticmethod
    def _checked(message):
        if message is not None:
            raise RuntimeError(message.decode())

    def _call(self, name, out, *arguments, keep=()):
        function, session = self._function(name), self.session
        given = [ctypes.byref(a) if isinstance(a, ctypes.Structure) else a for a in arguments]

        def call(_keep=(arguments, keep)):  # the arrays behind the pointers live as long as the call
            message = function(session, *given)
            if message is not None:
                self._checked(message)
            return out

        return call

    def sdpa(self, query, key, value, out, **given):
        arrays = (query, key, value, out)
        return self._call("sdpa", out, *map(tensor, arrays), options(**given), keep=(arrays, given))

    def sdpa_backward(self, query, key, value, out, lse, grad_out, gradients, **given):
        """gradients: arrays to write, those of query, key and value, then that of the bias if it is wanted."""
        arrays = (query, key, value, out, lse, grad_out, *gradients)
        backward = Backward(*map(tensor, arrays[3:]))
        return self._call("sdpa_backward", gradients, *map(tensor, arrays[:3]), backward, options(**given),
                          keep=(arrays, given))

    def variable_length(self, query, key, value, offsets, out, **given):
        """Packed (T, H, D); offsets int32 (B + 1), those of queries and of keys."""
        arrays = (query, key, value, offsets, offsets, out)
        return self._call("variable_length", out, *map(tensor, arrays), options(**given), keep=(arrays, given))

    def paged(self, query, key_pages, value_pages, offsets, table, lens, out):
        """query, out (Tq, H, D); pages: tuples of rows (P, page, H, D) and, of quantised ones, scales and minima."""
        arrays = (query, *key_pages, *value_pages, offsets, table, lens)
        pages = (Pages(*map(tensor, p)) for p in (key_pages, value_pages))
        return self._call("paged", out, tensor(query), *pages, *map(tensor, (offsets, table, lens, out)), keep=arrays)

    def append(self, key, value, slots, key_pages, value_pages, norm_weight, cos, sin, positions):
        """Rows (T, H, D) into pages, with norm, RoPE and Hadamard rotation of keys, and rotation of values."""
        arrays = (key, value, slots, *key_pages, *value_pages, norm_weight, cos, sin, positions)
        pages = (Pages(*map(tensor, p)) for p in (key_pages, value_pages))
        steps = RowSteps(*map(tensor, (norm_weight, cos, sin, positions)), hadamard=1)
        return self._call("append", None, *map(tensor, (key, value, slots)), *pages, steps, keep=arrays)

    def additive(self, query, key, value, w_score, out, w_query=None, w_key=None, **given):
        arrays = (query, key, value, out, w_query, w_key, w_score)
        return self._call("additive", out, *map(tensor, arrays), options(**given), keep=(arrays, given))

    def additive_backward(self, query, key, value, w_score, out, lse, grad_out, gradients, **given):
        """gradients: arrays to write, those of query, key, value and w_score."""
        arrays = (query, key, value, w_score, out, lse, grad_out, *gradients)
        backward = Backward(*map(tensor, arrays[4:-1]), grad_score=tensor(gradients[-1]))
        return self._call("additive_backward", gradients, *map(tensor, arrays[:4]), backward, options(**given),
                          keep=(arrays, given))

    def multi_head(self, x, heads, packed, packed_bias, w_out, out_bias, out, **given):
        """Self-attention; packed is (3 E, E), the weights of query, key and value."""
        width = x.shape[-1]
        parts = [packed[n * width : (n + 1) * width] for n in range(3)]
        biases = [packed_bias[n * width : (n + 1) * width] for n in range(3)]
        layer = MultiHead(heads, heads, *map(tensor, [*parts, w_out, *biases, out_bias]))
        return self._call("multi_head", out, *map(tensor, (x, x, x, out)), layer, options(**given),
                          keep=(x, packed, packed_bias, w_out, out_bias, given))

    def linear(self, x, weight, bias, out):
        return self._call("linear", out, *map(tensor, (x, weight, bias, out)), keep=(x, weight, bias))

    def packed_weight(self, weight):
        """f32 or bf16 (N, K) as linear() takes it packed."""
        (columns, depth), pair = weight.shape, 2 if weight.dtype.itemsize == 2 else 1
        packed = zeros((-(-columns // 64), -(-depth // pair), 64 * pair), weight.dtype)
        self._call("pack_linear_weight", packed, *map(tensor, (weight, packed)))()
        return packed

    def batch_dot(self, a, x, out):
        return self._call("batch_dot", out, *map(tensor, (a, x, out)), keep=(a, x))

    def masked_softmax(self, scores, valid_lens, out):
        return self._call("masked_softmax", out, *map(tensor, (scores, out, valid_lens)), keep=(scores, valid_lens))

    def write(self, out):
        return self._call("write", None, tensor(out), ctypes.c_int64(out.nbytes), keep=(out,))

    def copy(self, array, out):
        return self._call("copy", None, tensor(array), tensor(out), ctypes.c_int64(out.nbytes), keep=(array, out))

    def dropout_mask(self, probability, seed, shape):
        mask = zeros(shape, np.bool_)
        self._call("dropout_mask", mask, ctypes.c_double(probability), ctypes.c_uint64(seed), tensor(mask))()
        return mask

    def last_variant(self):
        return self._function("last_variant")(self.session).decode()

    def read(self, key, value):
        sizes = ctypes.c_int64(key.nbytes), ctypes.c_int64(value.nbytes)
        return self._call("read", None, tensor(key), tensor(value), *sizes, keep=(key, value))

    def peak(self, kind):
        """FLOP/s: "fma", multiply-adds in f32, "dot" or "tile", dot products of pairs or AMX tiles in bf16; 0 where the CPU
        has none."""
        return self._function(kind + "_peak")(self.session)

    def peak_of(self, dtype):
        """The kind that products of elements of this type can be made with."""
        return next((kind for kind in ("tile", "dot") if dtype == "bf16" and self.peak(kind)), "fma")

    def cpu_seconds_of_others(self):
        return self._function("cpu_seconds_of_others")()
