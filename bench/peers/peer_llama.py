# SPDX-License-Identifier: MIT
"""llama.cpp's flash attention over quantised caches: ggml's operator, from the libraries of the package llama-cpp-python. The
caches are contiguous, of blocks of 32 channels: q8_0 with a scale of f16 each, q4_0 too (ggml-common.h); queries are f32."""

import ctypes
import pathlib

import numpy as np

from arrays import aligned, zeros

TYPES = {"q8_0": 8, "q4_0": 2}  # ggml_type
F32 = 0


class Parameters(ctypes.Structure):
    """ggml_init_params"""

    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]

def load(llama):
    """(libggml-base, libggml-cpu) of the package."""
    folder = pathlib.Path(llama.__file__).parent / "lib"
    libraries = [ctypes.CDLL(str(folder / f"libggml-{name}.so"), mode=ctypes.RTLD_GLOBAL) for name in ("base", "cpu")]
    of_base = "ggml_init", "ggml_new_tensor_4d", "ggml_flash_attn_ext", "ggml_get_data", "ggml_new_graph"
    for library, names in zip(libraries, (of_base, ("ggml_backend_cpu_init", "ggml_threadpool_new"))):
        for name in names:
            getattr(library, name).restype = ctypes.c_void_p
    libraries[0].ggml_quantize_chunk.restype = ctypes.c_size_t
    return libraries


def attention(peers, problem, kind):
    """A call of `problem`, whose keys and values are stored as `kind`."""
    base, cpu = load(peers.llama)
    q, k, v = (aligned(np.asarray(x, np.float32)) for x in problem.arrays)
    blocks = {"q8_0": 34 / 32, "q4_0": 18 / 32}[kind]
    size = int((k.size + v.size) * blocks + 8 * q.nbytes + (256 << 20))
    memory = zeros((size,), np.uint8)
    context = ctypes.c_void_p(base.ggml_init(Parameters(size, memory.ctypes.data, False)))

    def tensor(kind, array):
        """A tensor of ne = (D, S, H, B)."""
        extents = (ctypes.c_int64(n) for n in reversed(array.shape))
        return ctypes.c_void_p(base.ggml_new_tensor_4d(context, kind, *extents))

    def data(t):
        return ctypes.c_void_p(base.ggml_get_data(t))

    query = tensor(F32, q)
    ctypes.memmove(data(query), q.ctypes.data, q.nbytes)
    rows = []
    for array in (k, v):
        made = tensor(TYPES[kind], array)
        base.ggml_quantize_chunk(TYPES[kind], array.ctypes.data_as(ctypes.c_void_p), data(made), ctypes.c_int64(0),
                                 ctypes.c_int64(array.size // problem.dim), ctypes.c_int64(problem.dim), None)
        rows.append(made)
    out = ctypes.c_void_p(base.ggml_flash_attn_ext(context, query, *rows, None, ctypes.c_float(problem.dim**-0.5),
                                                   ctypes.c_float(0), ctypes.c_float(0)))
    graph = ctypes.c_void_p(base.ggml_new_graph(context))
    base.ggml_build_forward_expand(graph, out)
    backend = ctypes.c_void_p(cpu.ggml_backend_cpu_init())
    cpu.ggml_backend_cpu_set_n_threads(backend, peers.threads)
    pool_parameters = ctypes.create_string_buffer(1024)  # ggml_threadpool_params, of 528 bytes
    base.ggml_threadpool_params_init(pool_parameters, peers.threads)
    cpu.ggml_backend_cpu_set_threadpool(backend, ctypes.c_void_p(cpu.ggml_threadpool_new(pool_parameters)))
    shape = problem.batch, problem.queries, problem.heads, problem.out_dim
    floats = ctypes.cast(data(out), ctypes.POINTER(ctypes.c_float))
    result = np.ctypeslib.as_array(floats, shape).transpose(0, 2, 1, 3)

    def call(_keep=memory):
        if base.ggml_backend_graph_compute(backend, graph):
            raise RuntimeError("ggml_backend_graph_compute failed")
        return result

    return call
