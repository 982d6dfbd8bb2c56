# SPDX-License-Identifier: MIT
"""Serving: attention over pages, as numbers and quantised, over lists of keys and over caches with room to spare, and rows that
are appended; beside this library's own contiguous call, and beside other libraries where they have the like."""

import functools

import numpy as np

import peer_llama
import peer_onnxruntime
import reference
from arrays import aligned, normal, zeros
from attention_problem import Problem, element_type
from cells_dense import READ, ours, peak, variant
from measure import Cell

CONTIGUOUS, GATHERED = "attune, contiguous", "torch flash, gathered copies"
STEP, STEPS = Problem(1, 32, 8, 1, 32768, 128), Problem(16, 32, 8, 1, 2048, 128)
CHUNK = Problem(1, 32, 8, 512, 4096, 128, causal=True)
TYPES = ("f32", "bf16", "f16")
PAGE = 64  # of cells of quantised rows


def cells():
    """(name, function that makes the cell)"""
    for dtype in TYPES:
        for problem in (STEP, STEPS):
            for page in (16, 64):
                yield from named(f"paged {variant(problem, dtype=dtype)}, pages of {page}", paged, problem, dtype, page)
        yield from named(f"paged {variant(CHUNK, dtype=dtype)}, pages of 16", paged, CHUNK, dtype, 16)
    for problem in (STEP, STEPS, CHUNK):
        for stored in ("int8", "int4"):
            yield from named(f"{stored} {variant(problem, dtype='bf16')}, pages of {PAGE}", quantised, problem, stored)
    yield from named("paged 31 steps over 2048 and a chunk of 512 over 4096, bf16", mixed)
    yield from named("sdpa 1x32/8x1x64x128 of room for 131072", room)
    yield from named("lists of 2048 of 65536 keys, 16 queries, 32/8 heads of 128, bf16", lists)
    yield from named("append 512 rows, 8 heads of 128, bf16 to int8, norm, RoPE and rotation", append)


def named(name, make, *given):
    yield name, lambda attune, peers, _: make(name, attune, peers, *given)


class Pool:
    """The keys and values of a Problem in pages of a pool, in random order."""

    def __init__(self, problem, page):
        self.problem, self.page = problem, page
        count = problem.keys // page
        pages = np.random.default_rng(3).permutation(problem.batch * count).astype(np.int32)
        self.table = aligned(pages.reshape(problem.batch, count))
        self.offsets = np.arange(problem.batch + 1, dtype=np.int32) * problem.queries
        self.lens = np.full(problem.batch, problem.keys, np.int32)
        self.query = aligned(problem.arrays[0].swapaxes(1, 2).reshape(-1, problem.heads, problem.dim))

    def pages(self, rows):
        """(B, H, S, W) as (P, page, H, W)."""
        batch, heads, keys, width = rows.shape
        pool = zeros((batch * keys // self.page, self.page, heads, width), rows.dtype)
        pool[self.table.reshape(-1)] = rows.swapaxes(1, 2).reshape(-1, self.page, heads, width)
        return pool

    def call(self, attune, key_pages, value_pages):
        out = zeros(self.query.shape, self.query.dtype)
        call = attune.paged(self.query, key_pages, value_pages, self.offsets, self.table, self.lens, out)
        return lambda: self.by_heads(call())

    def of_numbers(self, attune):
        return self.call(attune, *((self.pages(x),) for x in self.problem.arrays[1:]))

    def by_heads(self, out):
        p = self.problem
        return out.reshape(p.batch, p.queries, p.heads, p.out_dim).swapaxes(1, 2)


def cell_of(name, attune, problem, programs, own, nbytes, exact, **given):
    """One query: bytes, limited by a plain read; more: FLOPs."""
    step = problem.queries == 1
    rows = problem.rows
    epsilon = {"f32": float(np.finfo(np.float32).eps) * 8, "bf16": 2.0**-7, "f16": 2.0**-10}[problem.dtype]
    return Cell(name, programs, exact, work=float(nbytes) if step else problem.flops, unit="B" if step else "FLOP", own=own,
                sample=lambda x: x[:, :, rows], epsilon=epsilon, bound=READ if step else "",
                peak=peak(attune, "prefill", problem), **given)


def paged(name, attune, peers, problem, dtype, page):
    if element_type(dtype) is None:
        raise ImportError("the package ml_dtypes, for NumPy's bfloat16")
    problem = variant(problem, dtype=dtype)
    pool = Pool(problem, page)
    keys, values = (pool.pages(x) for x in problem.arrays[1:])
    programs = {"attune": pool.call(attune, (keys,), (values,)), CONTIGUOUS: ours(attune, problem)}
    if problem.queries == 1:
        programs[READ] = attune.read(*problem.arrays[1:])
    if peers.torch:
        programs[GATHERED] = gathered(peers, problem, pool, keys, values)
    own = tuple(n for n in (CONTIGUOUS, READ) if n in programs)
    return cell_of(name, attune, problem, programs, own, sum(x.nbytes for x in problem.arrays[1:]), problem.reference,
                   unchecked=(READ,))


def gathered(peers, problem, pool, keys, values):
    """Pages copied to a contiguous cache, and attention over it: what PyTorch has for pages on CPUs."""
    torch = peers.torch
    q, k, v, mask = peers.tensors(problem.arrays[0], keys, values, problem.mask)
    table = torch.from_numpy(pool.table.astype(np.int64)).reshape(-1)

    def call():
        copies = (x[table].reshape(problem.batch, problem.keys, problem.key_heads, -1).transpose(1, 2) for x in (k, v))
        return torch.nn.functional.scaled_dot_product_attention(q, *copies, attn_mask=mask, enable_gqa=True)

    return call


class QuantisedRows:
    """int8: a scale of f32 for each row. int4: a scale and a minimum of f16 for each 32 channels, two of them to a byte."""

    def __init__(self, x, stored):
        x = x.astype(np.float32)
        if stored == "int8":
            scale = np.abs(x).max(-1, keepdims=True) / 127
            codes = np.rint(x / scale)
            self.arrays, self.numbers = (codes.astype(np.int8), scale), codes * scale
            return
        groups = x.reshape(*x.shape[:-1], -1, 32)
        low = groups.min(-1, keepdims=True).astype(np.float16)
        step = ((groups.max(-1, keepdims=True) - groups.min(-1, keepdims=True)) / 15).astype(np.float16)
        codes = np.clip(np.rint((groups - low.astype(np.float32)) / step.astype(np.float32)), 0, 15)
        self.numbers = (low.astype(np.float32) + codes * step.astype(np.float32)).reshape(x.shape)
        codes = codes.astype(np.uint8).reshape(x.shape)
        self.arrays = codes[..., 0::2] | codes[..., 1::2] << 4, step[..., 0], low[..., 0]

    def pages(self, pool):
        rows, *of_rows = map(pool.pages, self.arrays)
        return rows, *(x[..., 0] if x.shape[-1] == 1 else x for x in of_rows)


def quantised(name, attune, peers, problem, stored):
    problem = variant(problem, dtype="bf16")
    pool = Pool(problem, PAGE)
    keys, values = (QuantisedRows(x, stored) for x in problem.arrays[1:])
    pages = [x.pages(pool) for x in (keys, values)]
    programs, own = {"attune": pool.call(attune, *pages), "attune, bf16": pool.of_numbers(attune)}, ["attune, bf16"]
    if problem.queries == 1:
        programs[READ] = attune.read(*(x[0] for x in pages))
        own.append(READ)
        in_order = Pool(problem, problem.keys)  # a page a sequence: a contiguous cache
        programs["attune, contiguous"] = in_order.call(attune, *(x.pages(in_order) for x in (keys, values)))
        own.append("attune, contiguous")
        bits, kind = {"int8": (8, "q8_0"), "int4": (4, "q4_0")}[stored]
        if peers.ort:
            programs[f"onnxruntime GroupQueryAttention, {bits} bits"] = peers.lazy(
                lambda: peer_onnxruntime.group_query_quantised(peers, problem, bits))
        if peers.llama:
            programs[f"llama.cpp, {kind}"] = peers.lazy(lambda: peer_llama.attention(peers, problem, kind))
    nbytes = sum(x.nbytes for p in pages for x in p)
    numbers = functools.partial(reference_of, problem=problem, keys=keys.numbers, values=values.numbers)
    others = tuple(n for n in programs if n != "attune")
    return cell_of(name, attune, problem, programs, tuple(own), nbytes, numbers, unchecked=others,
                   note="Bytes are those of rows and scales. Programs beside ours quantise in their own ways")


def reference_of(real, problem, keys, values):
    """The rows of problem.reference, over other keys and values."""
    over = variant(problem)
    over.__dict__["arrays"] = problem.arrays[0], keys, values
    return over.reference(real)


def mixed(name, attune, peers):
    step, chunk = (variant(p, dtype="bf16", batch=b) for p, b in ((STEPS, 31), (CHUNK, 1)))
    pools = Pool(step, PAGE), Pool(chunk, PAGE)
    keys, values = (aligned(np.concatenate([pool.pages(pool.problem.arrays[n]) for pool in pools])) for n in (1, 2))
    table = zeros((32, chunk.keys // PAGE), np.int32)
    table[:31, : step.keys // PAGE] = pools[0].table
    table[31] = pools[1].table[0] + step.batch * step.keys // PAGE
    offsets = np.concatenate([np.arange(32), [31 + chunk.queries]]).astype(np.int32)
    lens = np.array([step.keys] * 31 + [chunk.keys], np.int32)
    query = aligned(np.concatenate([p.query for p in pools]))
    out = zeros(query.shape, query.dtype)
    together = attune.paged(query, (keys,), (values,), offsets, table, lens, out)
    apart = [pool.of_numbers(attune) for pool in pools]

    def each():
        return [call() for call in apart]

    programs = {"attune": together, "attune, two calls": lambda: each() and None}
    return Cell(name, programs, work=step.flops + chunk.flops, own=("attune, two calls",), unchecked=tuple(programs),
                peak=peak(attune, "prefill", chunk))


def room(name, attune, peers):
    """64 rows that a cache holds, with room for 131072 and for 256."""
    def call(capacity):
        p = Problem(1, 32, 8, 1, capacity, 128)
        arrays = [zeros((1, p.key_heads, capacity, p.dim)) for _ in range(2)]
        for n, x in enumerate(arrays):
            x[:, :, :64] = normal(np.random.default_rng(n), 1, p.key_heads, 64, p.dim)
        query = normal(np.random.default_rng(5), 1, p.heads, 1, p.dim)
        held = np.array([63], np.int32)
        exact = lambda real: reference.attention(real, query.reshape(1, 8, 4, 128), *(x[:, :, :64] for x in arrays)).reshape(
            query.shape)
        return attune.sdpa(query, *arrays, zeros(query.shape), causal=True, cache_lens=held), exact

    of_large, exact = call(131072)
    programs = {"attune": of_large, "attune, room for 256": call(256)[0]}
    return Cell(name, programs, exact, work=4.0 * 32 * 64 * 128, own=("attune, room for 256",), peak="")


def lists(name, attune, peers):
    """Each query has a list of keys of its own, as an indexer chooses them."""
    queries, chosen, rows, heads, key_heads, dim = 16, 2048, 65536, 32, 8, 128
    random, dtype = np.random.default_rng(1), element_type("bf16")
    query = normal(random, queries, heads, dim, dtype=dtype)
    keys, values = (normal(random, rows, 1, key_heads, dim, dtype=dtype) for _ in range(2))
    table = aligned(np.stack([random.permutation(rows)[:chosen] for _ in range(queries)]).astype(np.int32))
    offsets, lens = np.arange(queries + 1, dtype=np.int32), np.full(queries, chosen, np.int32)
    one = Problem(queries, heads, key_heads, 1, chosen, dim, "bf16")
    out = zeros(query.shape, query.dtype)
    ours_of_lists = attune.paged(query, (keys,), (values,), offsets, table, lens, out)
    programs = {"attune": lambda: ours_of_lists()[:, :, None], CONTIGUOUS: ours(attune, one),
                READ: attune.read(*one.arrays[1:])}
    if peers.torch:
        torch = peers.torch
        q, k, v = peers.tensors(query, keys[:, 0], values[:, 0])
        index = torch.from_numpy(table.astype(np.int64))
        programs[GATHERED] = lambda: torch.nn.functional.scaled_dot_product_attention(
            q[:, :, None], *(x[index].transpose(1, 2) for x in (k, v)), enable_gqa=True)

    def exact(real):
        group = query.reshape(queries, key_heads, heads // key_heads, dim)
        gathered_rows = (x[table, 0].swapaxes(1, 2) for x in (keys, values))
        stored = dtype if real is np.float32 else None
        return reference.attention(real, group, *gathered_rows, stored=stored).reshape(queries, heads, 1, dim)

    return Cell(name, programs, exact, work=2.0 * queries * chosen * key_heads * dim * 2, unit="B", own=(CONTIGUOUS, READ),
                unchecked=(CONTIGUOUS, READ), epsilon=2.0**-7, bound=READ)


def append(name, attune, peers):
    rows, heads, dim, pages, positions = 512, 8, 128, 64, 4096
    random, dtype = np.random.default_rng(1), element_type("bf16")
    key, value = (normal(random, rows, heads, dim, dtype=dtype) for _ in range(2))
    weight = normal(random, dim, dtype=dtype)
    order = random.permutation(pages).astype(np.int64)
    at = np.arange(rows)
    slots = aligned(order[at // PAGE] * PAGE + at % PAGE)
    angles = np.arange(positions)[:, None] * 10000.0 ** (-np.arange(dim // 2) / (dim // 2))
    cos, sin = (aligned(f(angles).astype(np.float32)) for f in (np.cos, np.sin))
    pool = lambda: (zeros((pages, PAGE, heads, dim), np.int8), zeros((pages, PAGE, heads)))
    call = attune.append(key, value, slots, pool(), pool(), weight, cos, sin, aligned((at + 100).astype(np.int32)))
    # Read: rows of 16 bits; written: bytes and scales.
    moved = (key.nbytes + value.nbytes + 2 * rows * heads * (dim + 4)) // 2
    source, target = (zeros((moved,), np.uint8) for _ in range(2))
    programs = {"attune": call, "copy": attune.copy(source, target)}
    return Cell(name, programs, work=2.0 * moved, unit="B", own=("copy",), bound="copy",
                note="Bytes are those read and written. Results are compared in the tests")
