# SPDX-License-Identifier: MIT
"""Dropout of a part of a larger call through attune.torch: the weights that the larger call keeps, forward and by autograd, in
each function that drops weights; numbers that change make no new graph."""
import pytest

torch = pytest.importorskip("torch")
import attune  # noqa: E402
import attune.torch as at  # noqa: E402
import numpy as np  # noqa: E402
from attune.torch import _ops  # noqa: E402
from torch._dynamo.testing import CompileCounterWithBackend  # noqa: E402

BATCH, HEADS, KEY_HEADS, QUERIES, KEYS, DIM = 3, 4, 2, 9, 14, 8
DROPOUT = dict(dropout_p=0.4, seed=7, dropout_offset=3)
# The last two batch entries, from query 4 and key 5 on.
PART = dict(dropout_first_query=4, dropout_first_key=5, dropout_first_head=HEADS, dropout_heads=HEADS)
LAST_ENTRIES = dict(dropout_first_head=HEADS, dropout_heads=HEADS)


@pytest.fixture
def tensors():
    torch.manual_seed(0)
    return [torch.randn(BATCH, heads, rows, DIM) for heads, rows in ((HEADS, QUERIES), (KEY_HEADS, KEYS), (KEY_HEADS, KEYS))]


def of_part(tensors):
    query, key, value = tensors
    return query[1:, :, 4:].clone(), key[1:, :, 5:].clone(), value[1:, :, 5:].clone()


@pytest.mark.parametrize("more", [{}, PART, {"dropout_first_query": 2**32 - 2}], ids=["whole", "part", "modulo"])
def test_attention(tensors, more):
    """The bits of the library's own function, which tests/python/test_dropout_parts.py judges, forward and backward."""
    part = of_part(tensors)
    leaves = [t.clone().requires_grad_() for t in part]
    out, lse = at.scaled_dot_product_attention(*leaves, enable_gqa=True, return_lse=True, **DROPOUT, **more)
    expected = attune.scaled_dot_product_attention(*part, lse=True, **DROPOUT, **more)
    assert torch.equal(out, expected.out) and torch.equal(lse, expected.lse)
    grad = torch.randn_like(out)
    found = torch.autograd.grad(out, leaves, grad)
    of_library = attune.scaled_dot_product_attention_backward(*part, *expected[:2], grad, **DROPOUT, **more)
    for name, gradient in zip(("query", "key", "value"), found, strict=True):
        assert torch.equal(gradient, of_library[name]), name
    with torch.no_grad():
        assert torch.equal(at.scaled_dot_product_attention(*part, enable_gqa=True, **DROPOUT, **more), out)


def test_parts_are_those_of_the_larger_call(tensors):
    whole = at.scaled_dot_product_attention(*tensors, enable_gqa=True, **DROPOUT)
    last = [t[1:] for t in tensors]
    assert torch.equal(at.scaled_dot_product_attention(*last, enable_gqa=True, **DROPOUT, **LAST_ENTRIES), whole[1:])
    assert not torch.equal(at.scaled_dot_product_attention(*last, enable_gqa=True, **DROPOUT), whole[1:])
    # A batch of several dimensions counts its entries one after another.
    five = [torch.stack([t, t.flip(0)]) for t in (tensors[0], *(t.repeat_interleave(2, 1) for t in tensors[1:]))]
    both = at.scaled_dot_product_attention(*five, **DROPOUT)
    second = at.scaled_dot_product_attention(*(t[1] for t in five), **DROPOUT, dropout_first_head=BATCH * HEADS)
    assert torch.equal(second, both[1])


def test_gradcheck(tensors):
    part = [t[..., :2, :].double().requires_grad_() for t in of_part(tensors)]
    assert torch.autograd.gradcheck(
        lambda *t: at.scaled_dot_product_attention(*t, enable_gqa=True, **DROPOUT, **PART), part)


def additive(query, key, value, **options):
    wide = (t.repeat_interleave(HEADS // KEY_HEADS, 1) for t in (key, value))
    return at.additive_attention(query, *wide, **options)


def packed(query, key, value, **options):
    rows = [t.transpose(1, 2).flatten(0, 1) for t in (query, key, value)]
    ends = [[n * t.shape[2] for n in range(len(query) + 1)] for t in (query, key)]
    return at.variable_length_attention(*rows, *ends, **options).unflatten(0, (len(query), QUERIES))


def layer(query, key, value, **options):
    rows = [t[:, 0].contiguous() for t in (query, key, value)]
    weight = torch.linspace(-1, 1, 4 * DIM * DIM)
    into, out = weight.view(4 * DIM, DIM), weight.view(DIM, 4 * DIM)
    return at.multi_head_attention(*rows, into, into, into, out, heads=HEADS, **options)


@pytest.mark.parametrize("function", [additive, packed, layer])
def test_other_functions(tensors, function):
    whole = function(*tensors, **DROPOUT)
    last = [t[1:].clone() for t in tensors]
    assert torch.equal(function(*last, **DROPOUT, **LAST_ENTRIES), whole[1:])
    assert not torch.equal(function(*last, **DROPOUT), whole[1:])
    gradients = []
    for inputs, first, more in ((tensors, 1, {}), (last, 0, LAST_ENTRIES)):
        leaves = [t.clone().requires_grad_() for t in inputs]
        out = function(*leaves, **DROPOUT, **more)[first:]
        gradients.append([g[first:] for g in torch.autograd.grad(out.square().sum(), leaves)])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_opcheck(tensors):
    part = [t.requires_grad_() for t in of_part(tensors)]
    torch.library.opcheck(_ops.attention, (*part, *(None,) * 8, torch.tensor([7]), None, 0.0, False, "none", None, -1, -1, 0.4,
                                           False, 3, 4, 5, HEADS, HEADS, "dot_product"))


def test_compile_makes_no_graph_for_another_part(tensors):
    graphs = CompileCounterWithBackend("aot_eager")
    call = lambda q, k, v, first: at.scaled_dot_product_attention(q, k, v, enable_gqa=True, **DROPOUT,
                                                                  dropout_first_query=first, dropout_heads=HEADS)
    compiled = torch.compile(call, fullgraph=True, dynamic=True, backend=graphs)
    leaves, made = [t.requires_grad_() for t in tensors], None
    for first in (20, 31, 47):  # no extent of a tensor: torch.compile takes equal numbers for one
        out, expected = compiled(*leaves, first), call(*leaves, first)
        assert torch.equal(out, expected)
        grad = torch.randn_like(out)
        for mine, theirs in zip(torch.autograd.grad(out, leaves, grad), torch.autograd.grad(expected, leaves, grad)):
            assert torch.equal(mine, theirs)
        made = made or graphs.frame_count
    assert graphs.frame_count == made


@pytest.mark.parametrize("name", ["offset", "first_query", "first_key", "first_head", "heads"])
@pytest.mark.parametrize("grad", [False, True])
def test_numbers_that_are_refused(tensors, name, grad):
    tensors = [t.requires_grad_(grad) for t in tensors]
    for value, says in [(-1, "must be an integer"), (1.5, "must be an integer"), (2**32, "must be below 2.32")]:
        for more in ({}, {"dropout_p": 0.4}):
            with pytest.raises(ValueError, match=f"^dropout_{name}: {says}"):
                at.scaled_dot_product_attention(*tensors, enable_gqa=True, **{f"dropout_{name}": value}, **more)
    with pytest.raises(ValueError, match=f"^dropout: heads must be 0 or at least {HEADS}, got 1"):
        at.scaled_dot_product_attention(*tensors, enable_gqa=True, dropout_p=0.4, dropout_heads=1)


def test_the_mask_of_a_part(tensors):
    """dropout_mask() names the weights that are 0."""
    query, key, _ = of_part(tensors)
    identity = torch.eye(KEYS - 5).expand(2, KEY_HEADS, -1, -1)
    weights = at.scaled_dot_product_attention(query, key, identity, enable_gqa=True, **DROPOUT, **PART)
    mask = attune.dropout_mask(tuple(weights.shape), 0.4, seed=7, dropout_offset=3, **PART)
    assert np.array_equal(weights.numpy() != 0, mask)
