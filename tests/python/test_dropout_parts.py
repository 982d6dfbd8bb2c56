# SPDX-License-Identifier: MIT
"""Dropout of a part of a larger call: batch entries, heads, queries or keys alone keep the weights that all keep together."""
import attune
import numpy as np
import pytest
from arrays import normal
from attention_numpy import Options, sdpa
from backward_numpy import sdpa_backward
from judging import judge_attention, judge_gradients

BATCH, HEADS, KEY_HEADS, QUERIES, KEYS, DIM = 3, 4, 2, 9, 14, 8
DROPOUT = dict(dropout_p=0.4, seed=7, dropout_offset=3)
ALL = slice(0, None)
# Batch entries, query heads, queries, keys. Four keys have one counter: parts begin within it, too.
PARTS = [(slice(1, 2), ALL, ALL, ALL), (slice(1, 3), ALL, ALL, ALL), (ALL, ALL, slice(4, 9), ALL),
         (ALL, ALL, ALL, slice(5, 14)), (slice(2, 3), slice(2, 4), ALL, ALL),
         (slice(1, 2), slice(0, 2), slice(3, 7), slice(8, 13))]


def numbers(part):
    entries, heads, queries, keys = part
    return dict(dropout_first_query=queries.start, dropout_first_key=keys.start,
                dropout_first_head=HEADS * entries.start + heads.start, dropout_heads=HEADS)


@pytest.fixture
def tensors(rng):
    return (normal(rng, BATCH, HEADS, QUERIES, DIM), normal(rng, BATCH, KEY_HEADS, KEYS, DIM),
            normal(rng, BATCH, KEY_HEADS, KEYS, DIM))


@pytest.fixture
def kept():
    return attune.dropout_mask((BATCH, HEADS, QUERIES, KEYS), 0.4, seed=7, dropout_offset=3)


def of_part(tensors, part):
    """The query, key and value of a part; query heads come with their key heads."""
    entries, heads, queries, keys = part
    group = HEADS // KEY_HEADS
    key_heads = slice(heads.start // group, None if heads.stop is None else heads.stop // group)
    query, key, value = tensors
    return query[entries, heads, queries], key[entries, key_heads, keys], value[entries, key_heads, keys]


@pytest.mark.parametrize("part", PARTS)
def test_mask(kept, part):
    expected = kept[part]
    got = attune.dropout_mask(expected.shape, 0.4, seed=7, dropout_offset=3, **numbers(part))
    assert np.array_equal(got, expected)


def test_mask_of_random_parts(kept):
    seed = 20261129
    print("seed", seed)
    rng = np.random.default_rng(seed)
    for _ in range(100):
        part = tuple(slice(int(a), int(b) + 1) for a, b in (sorted(rng.integers(0, n, 2)) for n in kept.shape))
        # Entries beside each other are whole: a part of the heads of several has other numbers.
        if part[0].stop - part[0].start > 1:
            part = (part[0], slice(0, HEADS), *part[2:])
        got = attune.dropout_mask(kept[part].shape, 0.4, seed=7, dropout_offset=3, **numbers(part))
        assert np.array_equal(got, kept[part]), part


def test_numbers_end_at_32_bits(kept):
    """Numbers are modulo 2^32: a part that begins before the larger call's first query has its rows later on."""
    got = attune.dropout_mask((1, HEADS, QUERIES + 2, KEYS), 0.4, seed=7, dropout_offset=3, dropout_first_query=2**32 - 2)
    assert np.array_equal(got[:, :, 2:], kept[:1])


@pytest.mark.parametrize("part", PARTS)
def test_attention(tensors, kept, part):
    arrays = of_part(tensors, part)
    got = attune.scaled_dot_product_attention(*arrays, lse=True, **DROPOUT, **numbers(part))
    options = Options(dropout=0.4, survivors=kept[part])
    judge_attention(lambda name: getattr(got, name), lambda dtype, order: sdpa(*arrays, options, dtype, order), np.float32,
                    ("out", "lse"))


@pytest.mark.parametrize("part", PARTS)
def test_gradients(tensors, rng, kept, part):
    arrays = of_part(tensors, part)
    forward = attune.scaled_dot_product_attention(*arrays, lse=True, **DROPOUT, **numbers(part))
    grad_out = normal(rng, *forward.out.shape)
    got = attune.scaled_dot_product_attention_backward(*arrays, forward.out, forward.lse, grad_out, **DROPOUT, **numbers(part))
    options = Options(dropout=0.4, survivors=kept[part])
    judge_gradients(got.get, lambda dtype, order, **how: sdpa_backward(*arrays, grad_out, None, options, dtype, order, **how),
                    np.float32, ("query", "key", "value"))


def test_parts_are_merged(tensors, kept):
    """Parts by keys, merged by their log-sum-exps, are the attention of all keys."""
    parts = []
    for keys in (slice(0, 5), slice(5, 14)):
        part = (ALL, ALL, ALL, keys)
        got = attune.scaled_dot_product_attention(*of_part(tensors, part), lse=True, **DROPOUT, **numbers(part))
        parts.append((got.out, got.lse))
    got = attune.merge_attention(parts, lse=True)
    options = Options(dropout=0.4, survivors=kept)
    judge_attention(lambda name: getattr(got, name), lambda dtype, order: sdpa(*tensors, options, dtype, order), np.float32,
                    ("out", "lse"))


def test_packed(tensors, kept):
    """The second and third sequence alone, which are batch entries 1 and 2."""
    joined = [np.concatenate([a[b].swapaxes(0, 1) for b in range(BATCH)]) for a in tensors]
    cut = lambda first: ([QUERIES * n for n in range(BATCH + 1 - first)], [KEYS * n for n in range(BATCH + 1 - first)])
    whole = attune.variable_length_attention(*joined, *cut(0), **DROPOUT)
    alone = [joined[0][QUERIES:], joined[1][KEYS:], joined[2][KEYS:]]
    got = attune.variable_length_attention(*alone, *cut(1), **DROPOUT, dropout_first_head=HEADS)
    assert np.array_equal(got, whole[QUERIES:])


def additive(tensors, **options):
    wide = [np.repeat(a, HEADS // KEY_HEADS, 1) for a in tensors[1:]]
    return attune.additive_attention(tensors[0], *wide, **options)


def layer(tensors, **options):
    rows = [np.ascontiguousarray(a[:, 0]) for a in tensors]
    weight = np.linspace(-1, 1, 4 * DIM * DIM, dtype=np.float32)
    into, out = weight.reshape(4 * DIM, DIM), weight.reshape(DIM, 4 * DIM)
    return attune.multi_head_attention(*rows, into, into, into, out, heads=HEADS, **options)


@pytest.mark.parametrize("function", [additive, layer])
def test_other_functions(tensors, function):
    whole = function(tensors, **DROPOUT)
    got = function([a[1:] for a in tensors], **DROPOUT, dropout_first_head=HEADS, dropout_heads=HEADS)
    assert np.array_equal(got, whole[1:])
    other = function([a[1:] for a in tensors], **DROPOUT)
    assert not np.array_equal(other, whole[1:])


@pytest.mark.parametrize("name", ["first_query", "first_key", "first_head", "heads"])
@pytest.mark.parametrize("value, says", [(-1, "must be an integer"), (1.5, "must be an integer"),
                                         (2**32, "must be below 2^32")])
def test_numbers_that_are_refused(tensors, name, value, says):
    refused(tensors, f"dropout_{name}: {says}", **{f"dropout_{name}": value})


def test_fewer_heads_than_the_call_has(tensors):
    refused(tensors, f"dropout: heads must be 0 or at least {HEADS}, got 1", dropout_heads=1)


def refused(tensors, says, **options):
    """A ValueError of each function, before anything is written."""
    out, mask = np.full_like(tensors[0], 7), np.ones((BATCH, HEADS, 3, 5), bool)
    zeros = np.zeros((BATCH, HEADS, QUERIES), np.float32)
    gradient = np.full_like(tensors[0], 7)
    for call in (lambda: attune.scaled_dot_product_attention(*tensors, out=out, **DROPOUT, **options),
                 lambda: attune.scaled_dot_product_attention_backward(*tensors, tensors[0], zeros, tensors[0],
                                                                      gradients={"query": gradient}, **DROPOUT, **options),
                 lambda: attune.dropout_mask(mask.shape, 0.4, out=mask, **options)):
        with pytest.raises(ValueError) as caught:
            call()
        assert str(caught.value).startswith(says), str(caught.value)
    assert np.all(out == 7) and np.all(gradient == 7) and mask.all()
