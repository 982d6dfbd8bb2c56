# SPDX-License-Identifier: MIT
"""Layers, caches, pages, rows, merging."""
import attention_numpy
import attune
import numpy as np
import pytest
from arrays import in_rows, normal
from judging import judge, reference_and_plain


def check(name, got, compute):
    exact, plain = reference_and_plain(compute, np.float32)
    judge(name, got, plain, exact, np.float32)


@pytest.mark.parametrize("shape", [(8,), (3, 8), (2, 3, 8)])
def test_linear(rng, shape):
    x, weight, bias = normal(rng, *shape), normal(rng, 5, 8), normal(rng, 5)
    for given in (None, bias):
        check("out", attune.linear(x, weight, bias=given), lambda dtype, order: attention_numpy.linear(x, weight, given, dtype,
                                                                                                      order))
    packed = attune.pack_linear_weight(weight)
    assert packed.shape == (1, 8, 64)
    assert np.array_equal(attune.linear(x, packed, bias=bias), attune.linear(x, weight, bias=bias))
    assert np.array_equal(attune.linear(x, packed, columns=5), attune.linear(x, weight))
    with pytest.raises(ValueError, match="^variant"):
        attune.pack_linear_weight(weight, variant="none")


def test_batch_dot(rng):
    a, x = normal(rng, 2, 3, 4), normal(rng, 2, 4, 5)
    check("out", attune.batch_dot(a, x), lambda dtype, order: attention_numpy.batch_dot(a, x, dtype, order))


@pytest.mark.parametrize("fill", ["zero", "seed"])
def test_masked_softmax(rng, fill):
    scores, lens = normal(rng, 2, 3, 5), np.array([4, 0], np.int32)
    check("out", attune.masked_softmax(scores, valid_lens=lens, fill=fill),
          lambda dtype, order: attention_numpy.masked_softmax(scores, lens, fill, dtype, order))
    in_place = scores.copy()
    assert attune.masked_softmax(in_place, out=in_place) is in_place
    assert np.array_equal(in_place, attune.masked_softmax(scores))


def test_cache(rng):
    """A prompt in two chunks, then attention over the cache: as one call over the rows."""
    rows = [normal(rng, 2, 2, 6, 8), normal(rng, 2, 2, 6, 8)]
    caches = [np.full((2, 2, 9, 8), np.nan, np.float32) for _ in range(2)]
    query, lens = normal(rng, 2, 4, 3, 8), np.zeros(2, np.int32)
    for at in (0, 3):
        attune.kv_append(*[r[:, :, at:at + 3] for r in rows], lens, *caches)
        lens += 3
    lens -= 3
    got = attune.scaled_dot_product_attention(query, *caches, causal="bottom_right", cache_lens=lens)
    assert np.array_equal(got, attune.scaled_dot_product_attention(query, *rows, causal="bottom_right"))
    with pytest.raises(ValueError, match="cache"):
        attune.kv_append(*rows, [9, 9], *caches)
    attune.kv_append(*rows, [9, 9], *caches, when_full="slide")
    assert np.array_equal(caches[0][:, :, 3:], rows[0])


def test_pages(rng):
    """Attention over pages has the bits of attention over the rows."""
    pool = [np.zeros((5, 16, 2, 8), np.float32) for _ in range(2)]
    rows = [normal(rng, 20, 2, 8) for _ in range(2)]
    table, lens = np.array([[3, 1]], np.int32), [20]
    slots = np.concatenate([3 * 16 + np.arange(16), 16 + np.arange(4)]).astype(np.int64)
    attune.paged_append(*rows, slots, *pool)
    assert np.array_equal(pool[0][3], rows[0][:16])
    query = normal(rng, 4, 4, 8)
    got = attune.paged_attention(query, *pool, [0, 4], table, lens, lse=True)
    one = lambda a: a.swapaxes(0, 1)[None]
    expected = attune.scaled_dot_product_attention(one(query), *map(one, rows), causal="bottom_right", lse=True)
    assert np.array_equal(one(got.out), expected.out) and np.array_equal(got.lse[None], expected.lse)
    listed = attune.paged_attention(query, *pool, [0, 4], [3, 1], lens, indptr=[0, 2], causal=False, window=(2, 0))
    assert np.array_equal(one(listed), attune.scaled_dot_product_attention(one(query), *map(one, rows), offset=16,
                                                                          window=(2, 0)))


@pytest.mark.parametrize("heads", [4, 2])
def test_weight_sums(rng, heads):
    """Sums of the weights of each key over the queries, and over the query heads of a group."""
    query, rows = normal(rng, 4, 4, 8), (normal(rng, 20, 2, 8), normal(rng, 20, 2, 8))
    pool = np.zeros((2, 16, 2, 8), np.float32), np.zeros((2, 16, 2, 8), np.float32)
    attune.paged_append(*rows, np.arange(20), *pool)
    sums = np.full((1, heads, 23), 7, np.float32)
    out = attune.paged_attention(query, *pool, [0, 4], [[0, 1]], [20], weight_sums=sums)
    assert np.array_equal(out, attune.paged_attention(query, *pool, [0, 4], [[0, 1]], [20]))
    one = lambda a: a.swapaxes(0, 1)[None]
    options = attention_numpy.Options(causal="bottom-right")
    expected = lambda dtype, order: attention_numpy.sdpa(one(query), *map(one, rows), options, dtype, order).weights[3]
    check("sums", sums[0, :, :20], lambda dtype, order: expected(dtype, order)[0].reshape(heads, -1, 20).sum(1))
    assert not np.any(sums[:, :, 20:])
    with pytest.raises(ValueError, match="^weight_sums: has room for 19 keys, sequence 0 holds 20 rows$"):
        attune.paged_attention(query, *pool, [0, 4], [[0, 1]], [20], weight_sums=np.zeros((1, heads, 19), np.float32))


def test_quantised_pages(rng):
    rows = normal(rng, 3, 2, 32)
    pages, scale = np.zeros((1, 16, 2, 32), np.int8), np.zeros((1, 16, 2), np.float32)
    plain = np.zeros((1, 16, 2, 32), np.float32)
    attune.paged_append(rows, rows, np.arange(3), (pages, scale), plain)
    assert np.array_equal(plain[0, :3], rows)
    assert np.max(np.abs(pages[0, :3] * scale[0, :3, :, None] - rows)) <= np.max(np.abs(rows)) / 254 * 1.001


# Names of the pages below: i8 with scales of rows in f32 and f16, of the caller's own; u8 in groups, and in one of a row.
QUANTISED = ("f32", "f16", "one", "channels", "groups", "whole")


def pool(how, pages, page, heads, width):
    """A pool of zeros, as paged_append() takes it, with read-only scales of the caller's own."""
    shape = (pages, page, heads)
    if how in ("groups", "whole"):
        groups = width // 32 if how == "groups" else 1
        return np.zeros((*shape, width // 2), np.uint8), *(np.zeros((*shape, groups), np.float16) for _ in range(2))
    scale = {"f32": np.zeros(shape, np.float32), "f16": np.zeros(shape, np.float16), "one": np.full(1, 0.04, np.float32),
             "channels": np.linspace(0.03, 0.05, heads * width, dtype=np.float32).reshape(heads, width)}[how]
    scale.flags.writeable = how in ("f32", "f16")
    return np.zeros((*shape, width), np.int8), scale


def dequantised(rows, scale, minimum=None):
    """The numbers that the pages stand for, f32."""
    if minimum is None:
        return rows * (scale[..., None] if scale.ndim == 3 else scale).astype(np.float32)
    numbers = np.stack([rows & 15, rows >> 4], -1).reshape(*rows.shape[:-1], -1).astype(np.float32)
    wide = lambda a: np.repeat(a, numbers.shape[-1] // a.shape[-1], -1).astype(np.float32)
    return wide(minimum) + numbers * wide(scale)


def read_only(array):
    array = array.view()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("keys, values", [*zip(QUANTISED, QUANTISED), ("f32", "groups"), ("whole", "one"), (None, "f16"),
                                          ("groups", None)])
@pytest.mark.parametrize("queries", [1, 19])
def test_attention_over_quantised_pages(rng, keys, values, queries):
    """As NumPy over the dequantised rows."""
    rows = normal(rng, 37, 2, 64), normal(rng, 37, 2, 32)
    slots = np.concatenate([4 * 16 + np.arange(16), 16 + np.arange(16), 2 * 16 + np.arange(5)])
    pages = [np.zeros((5, 16, 2, r.shape[-1]), np.float32) if how is None else pool(how, 5, 16, 2, r.shape[-1])
             for how, r in zip((keys, values), rows)]
    attune.paged_append(*rows, slots, *pages)
    pages = [read_only(p) if isinstance(p, np.ndarray) else tuple(map(read_only, p)) for p in pages]
    numbers = [p if isinstance(p, np.ndarray) else dequantised(*p) for p in pages]
    in_order = [n.reshape(-1, *n.shape[2:])[slots].swapaxes(0, 1)[None] for n in numbers]
    assert all(np.max(np.abs(n[0].swapaxes(0, 1) - r)) < 0.3 for n, r in zip(in_order, rows))
    query = normal(rng, queries, 4, 64)
    got = attune.paged_attention(query, *pages, [0, queries], [[4, 1, 2]], [37], lse=True)
    assert got.out.shape == (queries, 4, 32)
    expected = lambda dtype, order: attention_numpy.sdpa(query.swapaxes(0, 1)[None], *in_order,
                                                         attention_numpy.Options(causal="bottom-right"), dtype, order)
    check("out", np.ascontiguousarray(got.out.swapaxes(0, 1))[None], lambda dtype, order: expected(dtype, order).out)
    check("lse", got.lse[None], lambda dtype, order: expected(dtype, order).lse)


def test_pages_that_are_wrong(rng):
    query, plain = normal(rng, 1, 4, 32), np.zeros((1, 16, 2, 32), np.float32)
    rows, scale = pool("f32", 1, 16, 2, 32)
    call = lambda pages: attune.paged_attention(query, pages, plain, [0, 1], [[0]], [1])
    call((rows, scale))
    call((rows, scale, None))
    call((plain,))
    for wrong in ((), (rows, scale, scale, scale)):
        with pytest.raises(ValueError, match=r"^key_pages: must be an array, \(rows, scale\) or \(rows, scale, minimum\)$"):
            call(wrong)
    with pytest.raises(ValueError, match=r"^key_pages\.scale: is not given, and pages of i8 need it"):
        call((rows, None))
    with pytest.raises(ValueError, match="^key_pages: scale or minimum given for pages of type f32"):
        call((plain, scale))
    with pytest.raises(ValueError, match=r"^key_pages\.scale: its byte order"):
        call((rows, scale.astype(">f4")))
    with pytest.raises(ValueError, match=r"^key_pages\.scale: is read-only, and would be written$"):
        attune.paged_append(query[:, :2], query[:, :2], np.zeros(1, np.int64), (rows, read_only(scale)), plain)
    with pytest.raises(TypeError, match="^key_pages: must be an array"):
        call([rows, scale])


def test_rows(rng):
    x, positions = normal(rng, 1, 2, 3, 8), [[0, 5, 2]]
    cos, sin = attune.rope_tables(6, 8, 10000.0)
    assert cos.shape == sin.shape == (6, 4) and np.array_equal(cos[0], np.ones(4))
    turned = attune.transform_rows(x, positions, rope_cos=cos, rope_sin=sin)
    assert np.array_equal(turned[:, :, 0], x[:, :, 0])  # position 0
    angle = positions[0][1] * 10000.0 ** (-2 * np.arange(4) / 8)
    expected = lambda dtype, order: (x[0, :, 1, :4].astype(dtype) * np.cos(angle).astype(dtype) -
                                     x[0, :, 1, 4:].astype(dtype) * np.sin(angle).astype(dtype))
    check("rope", np.ascontiguousarray(turned[0, :, 1, :4]), expected)
    assert np.array_equal(attune.transform_rows(x, positions, rope_base=10000.0), turned)
    twice = attune.transform_rows(attune.transform_rows(x, hadamard=True), None, hadamard=True)
    check("hadamard", twice, lambda dtype, order: x.astype(dtype))


def test_merge(rng):
    q, k, v = normal(rng, 1, 2, 3, 8), normal(rng, 1, 2, 6, 8), normal(rng, 1, 2, 6, 8)
    parts = [attune.scaled_dot_product_attention(q, k[:, :, at], v[:, :, at], lse=True)[:2]
             for at in (slice(0, 2), slice(2, 5), slice(5, 6))]
    got = attune.merge_attention(parts, lse=True)
    check("out", got.out, lambda dtype, order: attention_numpy.sdpa(q, k, v, dtype=dtype, order=order).out)
    check("lse", got.lse, lambda dtype, order: attention_numpy.sdpa(q, k, v, dtype=dtype, order=order).lse)
    with pytest.raises(ValueError, match="^parts: "):
        attune.merge_attention([])


def test_layouts(rng):
    """The same bits for any strides, without a copy."""
    q, k, v = normal(rng, 2, 4, 3, 8), normal(rng, 2, 4, 5, 8), normal(rng, 2, 4, 5, 8)
    expected = attune.scaled_dot_product_attention(q, k, v)
    backward = lambda a: np.ascontiguousarray(a[::-1, :, ::-1])[::-1, :, ::-1]  # negative strides
    padded = lambda a: np.pad(a, ((0, 0), (0, 0), (0, 0), (0, 5)))[..., :8]
    for how in (in_rows, backward, padded):
        assert np.array_equal(attune.scaled_dot_product_attention(*map(how, (q, k, v))), expected)
    shared = np.broadcast_to(k[:1], k.shape)  # stride 0
    assert np.array_equal(attune.scaled_dot_product_attention(q, shared, v),
                          attune.scaled_dot_product_attention(q, np.ascontiguousarray(shared), v))
