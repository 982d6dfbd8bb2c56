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


def test_quantised_pages(rng):
    rows = normal(rng, 3, 2, 32)
    pages, scale = np.zeros((1, 16, 2, 32), np.int8), np.zeros((1, 16, 2), np.float32)
    plain = np.zeros((1, 16, 2, 32), np.float32)
    attune.paged_append(rows, rows, np.arange(3), (pages, scale), plain)
    assert np.array_equal(plain[0, :3], rows)
    assert np.max(np.abs(pages[0, :3] * scale[0, :3, :, None] - rows)) <= np.max(np.abs(rows)) / 254 * 1.001


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
    twice = attune.transform_rows(attune.transform_rows(x, None, hadamard=True), None, hadamard=True)
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
