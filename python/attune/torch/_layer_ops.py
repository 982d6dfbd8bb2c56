# SPDX-License-Identifier: MIT
"""Operations of torch.library beside attention by scores: additive attention, packed batches, pages, layers, rows."""
from __future__ import annotations

from attune import _attune
from attune.torch._ops import (
    SCORE_SCHEMA,
    SCORE_TENSORS,
    attention_fake,
    define,
    dense_last,
    heads_of,
    new_rows,
    score_options,
    standard_slopes,
    wanted_names,
    wide,
)
import torch

# Additive attention.
_ADDITIVE_WEIGHTS = ("w_query", "w_key", "b_query", "b_key", "w_score")
_ADDITIVE = ("query", "key", "value", *_ADDITIVE_WEIGHTS, "bias", "alibi_slopes", "sinks")
_ADDITIVE_HEAD = "Tensor query, Tensor key, Tensor value, " + "".join(f"Tensor? {name}, " for name in _ADDITIVE_WEIGHTS)
_ADDITIVE_TENSORS = 3 + len(_ADDITIVE_WEIGHTS) + len(SCORE_TENSORS)


def _additive(*inputs):
    weights = dict(zip(_ADDITIVE_WEIGHTS, inputs[3:8]))
    found = _attune.additive_attention(*inputs[:3], **weights, lse=True, layout="heads_in_rows", detached=True,
                                       **score_options(inputs[0], heads_of(inputs[0]), inputs[8:_ADDITIVE_TENSORS],
                                                       inputs[_ADDITIVE_TENSORS:]))
    return found.out, found.lse


def _additive_setup(ctx, inputs, output):
    ctx.set_materialize_grads(False)
    ctx.numbers = inputs[_ADDITIVE_TENSORS:]
    ctx.save_for_backward(*inputs[:_ADDITIVE_TENSORS], *output)


def _additive_autograd(ctx, grad_out, grad_lse):
    *tensors, out, lse = ctx.saved_tensors
    wanted = wanted_names(ctx, _ADDITIVE, range(len(_ADDITIVE)))
    if grad_out is None:
        grad_out = torch.zeros_like(out)
    found = iter(additive_backward(grad_out, grad_lse, out, lse, *tensors, *ctx.numbers,
                                   [name in wanted for name in _ADDITIVE]))
    grads = [next(found) if name in wanted else None for name in _ADDITIVE]
    return (*grads, *(None,) * (len(tensors) + len(ctx.numbers) - len(grads)))


def _additive_backward(grad_out, grad_lse, out, lse, *inputs):
    *inputs, wanted = inputs
    names = [name for name, is_wanted in zip(_ADDITIVE, wanted) if is_wanted]
    found = _attune.additive_attention_backward(
        *inputs[:3], dense_last(out), lse, dense_last(grad_out), grad_lse=grad_lse, gradients=names,
        layout="heads_in_rows", detached=True, **dict(zip(_ADDITIVE_WEIGHTS, inputs[3:8])),
        **score_options(inputs[0], heads_of(inputs[0]), inputs[8:_ADDITIVE_TENSORS], inputs[_ADDITIVE_TENSORS:]))
    return [found[name] for name in names]


def _additive_backward_fake(grad_out, grad_lse, out, lse, *inputs):
    return [new_rows(tensor, tensor.shape, name in ("query", "key", "value"))
            for name, tensor, is_wanted in zip(_ADDITIVE, inputs, inputs[-1]) if is_wanted]


additive = define("additive_attention", f"({_ADDITIVE_HEAD}{SCORE_SCHEMA}) -> (Tensor, Tensor)", _additive, attention_fake,
                  _additive_setup, _additive_autograd, gradient_on_cuda=False)
additive_backward = define(
    "additive_attention_backward",
    f"(Tensor grad_out, Tensor? grad_lse, Tensor out, Tensor lse, {_ADDITIVE_HEAD}{SCORE_SCHEMA}, bool[] wanted) -> Tensor[]",
    _additive_backward, _additive_backward_fake, no_gradient="no gradients of gradients of additive attention")


# Packed batches. Inputs that have gradients, and their places in the schema.
_PACKED = {"query": 0, "key": 1, "value": 2, "alibi_slopes": 6, "sinks": 7}
_PACKED_HEAD = "Tensor query, Tensor key, Tensor value, Tensor cu_seqlens_q, Tensor cu_seqlens_k, "
_PACKED_TENSORS = 5 + len(SCORE_TENSORS)


def _packed_fake(query, key, value, *rest):
    tokens, heads, _ = query.shape
    return query.new_empty((tokens, heads, value.shape[-1])), query.new_empty((heads, tokens), dtype=wide(query.dtype))


def _packed(*inputs):
    options = score_options(inputs[0], inputs[0].shape[1], inputs[5:_PACKED_TENSORS], inputs[_PACKED_TENSORS:])
    found = _attune.variable_length_attention(*inputs[:5], lse=True, detached=True, **options)
    used = int(inputs[3][-1])  # rows beyond the last sequence are not written
    found.out[used:], found.lse[:, used:] = 0, -torch.inf
    return found.out, found.lse


def _packed_setup(ctx, inputs, output):
    ctx.set_materialize_grads(False)
    ctx.numbers = inputs[_PACKED_TENSORS:]
    ctx.save_for_backward(*inputs[:_PACKED_TENSORS], *output)


def _packed_autograd(ctx, grad_out, grad_lse):
    *tensors, out, lse = ctx.saved_tensors
    wanted = [ctx.needs_input_grad[place] for place in _PACKED.values()]
    if grad_out is None:
        grad_out = torch.zeros_like(out)
    found = iter(packed_backward(grad_out, grad_lse, out, lse, *tensors, *ctx.numbers, wanted))
    grads = [None] * (len(tensors) + len(ctx.numbers))
    for place, is_wanted in zip(_PACKED.values(), wanted):
        if is_wanted:
            grads[place] = next(found)
    return tuple(grads)


def _packed_backward(grad_out, grad_lse, out, lse, *inputs):
    *inputs, wanted = inputs
    names = [name for name, is_wanted in zip(_PACKED, wanted) if is_wanted]
    found = _attune.variable_length_attention_backward(
        *inputs[:5], out, lse, dense_last(grad_out), grad_lse=dense_last(grad_lse), gradients=names, detached=True,
        **score_options(inputs[0], inputs[0].shape[1], inputs[5:_PACKED_TENSORS], inputs[_PACKED_TENSORS:]))
    for name, ends in (("query", inputs[3]), ("key", inputs[4]), ("value", inputs[4])):
        if name in found:
            found[name][int(ends[-1]):] = 0
    return [found[name] for name in names]


def _packed_backward_fake(grad_out, grad_lse, out, lse, *inputs):
    return [inputs[place].new_empty(inputs[place].shape) for place, is_wanted in zip(_PACKED.values(), inputs[-1]) if is_wanted]


packed = define("variable_length_attention", f"({_PACKED_HEAD}{SCORE_SCHEMA}) -> (Tensor, Tensor)", _packed, _packed_fake,
                _packed_setup, _packed_autograd)
packed_backward = define(
    "variable_length_attention_backward",
    f"(Tensor grad_out, Tensor? grad_lse, Tensor out, Tensor lse, {_PACKED_HEAD}{SCORE_SCHEMA}, bool[] wanted) -> Tensor[]",
    _packed_backward, _packed_backward_fake, no_gradient="no gradients of gradients of packed batches")


def _no_setup(ctx, inputs, output):
    pass


# Pages: forward alone. Pages that are quantised have scales, and minima.
PAGED_TENSORS = ("distance_bias", "alibi_slopes", "tree_mask", "positions", "sinks", "prefix_block_table", "prefix_lens",
                 "prefix_of", "indptr")


def _paged(query, key_pages, key_scale, key_minimum, value_pages, value_scale, value_minimum, cu_seqlens_q, block_table, lens,
           *rest, weight_sums=None):
    options = dict(zip(PAGED_TENSORS, rest))
    scale, softcap, alibi, causal, left, right, invariant = rest[len(PAGED_TENSORS):]
    if alibi and options["alibi_slopes"] is None:
        options["alibi_slopes"] = standard_slopes(query, query.shape[1])
        alibi = options["alibi_slopes"] is None
    found = _attune.paged_attention(query, (key_pages, key_scale, key_minimum), (value_pages, value_scale, value_minimum),
                                    cu_seqlens_q, block_table, lens, scale=scale, softcap=softcap, alibi=alibi, causal=causal,
                                    window=(left, right), invariant=invariant, weight_sums=weight_sums, lse=True,
                                    detached=True, **options)
    return found.out, found.lse


def _paged_fake(query, key_pages, key_scale, key_minimum, value_pages, *rest):
    tokens, heads, _ = query.shape
    width = value_pages.shape[-1] * (2 if value_pages.dtype == torch.uint8 else 1)
    return query.new_empty((tokens, heads, width)), query.new_empty((heads, tokens), dtype=wide(query.dtype))


_PAGED_SCHEMA = (
    "Tensor query, Tensor key_pages, Tensor? key_scale, Tensor? key_minimum, Tensor value_pages, Tensor? value_scale, "
    "Tensor? value_minimum, Tensor cu_seqlens_q, Tensor block_table, Tensor lens, " +
    "".join(f"Tensor? {name}, " for name in PAGED_TENSORS) +
    "float? scale, float softcap, bool alibi, bool causal, int left, int right, bool invariant")
paged = define("paged_attention", f"({_PAGED_SCHEMA}) -> (Tensor, Tensor)", _paged, _paged_fake, _no_setup,
               no_gradient="no gradients of attention over pages")
# An op of its own, because torch.library gives no autograd to ops that write to an argument.
paged_with_sums = define("paged_attention_with_sums", f"({_PAGED_SCHEMA}, Tensor(a!) weight_sums) -> (Tensor, Tensor)",
                         lambda *inputs: _paged(*inputs[:-1], weight_sums=inputs[-1]), _paged_fake)


# Layers.
def _linear(x, weight, bias):
    return _attune.linear(x, weight, bias=bias, detached=True)


def _linear_setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0], inputs[1])


def _linear_autograd(ctx, grad_out):
    x, weight = ctx.saved_tensors
    found = iter(linear_backward(grad_out, x, weight, list(ctx.needs_input_grad)))
    return tuple(next(found) if wanted else None for wanted in ctx.needs_input_grad)


def _linear_backward(grad_out, x, weight, wanted):
    names = [name for name, is_wanted in zip(("x", "weight", "bias"), wanted) if is_wanted]
    found = _attune.linear_backward(x, weight, dense_last(grad_out), gradients=names, detached=True)
    return [found[name] for name in names]


def _linear_backward_fake(grad_out, x, weight, wanted):
    shapes = (x.shape, weight.shape, weight.shape[:1])
    return [x.new_empty(shape) for shape, is_wanted in zip(shapes, wanted) if is_wanted]


linear = define("linear", "(Tensor x, Tensor weight, Tensor? bias) -> Tensor", _linear,
                lambda x, weight, bias: x.new_empty((*x.shape[:-1], weight.shape[0])), _linear_setup, _linear_autograd,
                gradient_on_cuda=False)
linear_backward = define("linear_backward", "(Tensor grad_out, Tensor x, Tensor weight, bool[] wanted) -> Tensor[]",
                         _linear_backward, _linear_backward_fake, _no_setup,
                         no_gradient="no gradients of gradients of linear layers")


def _softmax(scores, valid_lens, fill):
    return _attune.masked_softmax(scores, valid_lens=valid_lens, fill=fill, detached=True)


def _softmax_setup(ctx, inputs, output):
    _, valid_lens, ctx.fill = inputs
    ctx.save_for_backward(output, valid_lens)


def _softmax_autograd(ctx, grad_out):
    out, valid_lens = ctx.saved_tensors
    return softmax_backward(grad_out, out, valid_lens, ctx.fill), None, None


softmax = define("masked_softmax", "(Tensor scores, Tensor? valid_lens, str fill) -> Tensor", _softmax,
                 lambda scores, valid_lens, fill: scores.new_empty(scores.shape), _softmax_setup, _softmax_autograd,
                 gradient_on_cuda=False)
softmax_backward = define(
    "masked_softmax_backward", "(Tensor grad_out, Tensor out, Tensor? valid_lens, str fill) -> Tensor",
    lambda grad_out, out, valid_lens, fill: _attune.masked_softmax_backward(out, dense_last(grad_out), valid_lens=valid_lens,
                                                                            fill=fill, detached=True),
    lambda grad_out, out, valid_lens, fill: out.new_empty(out.shape), _no_setup,
    no_gradient="no gradients of gradients of masked_softmax")

# Rows of queries and keys.
_STEP_TENSORS = ("norm_weight", "rope_cos", "rope_sin")
_STEP_NUMBERS = ("norm_eps", "rope_base", "rope_scaling", "rope_dim", "rope_offset", "rope_pairs", "hadamard")
_STEP_SCHEMA = ("Tensor? positions, Tensor? norm_weight, Tensor? rope_cos, Tensor? rope_sin, float norm_eps, float rope_base, "
                "float rope_scaling, int rope_dim, int rope_offset, str rope_pairs, bool hadamard")


def _steps(rest):
    return {**dict(zip(_STEP_TENSORS, rest)), **dict(zip(_STEP_NUMBERS, rest[len(_STEP_TENSORS):]))}


def _rows(x, positions, *rest):
    return _attune.transform_rows(x, positions, layout="heads_in_rows", detached=True, **_steps(rest))


def _rows_setup(ctx, inputs, output):
    ctx.numbers = inputs[5:]
    ctx.save_for_backward(*inputs[:5])


def _rows_autograd(ctx, grad_out):
    x_wanted, weight_wanted = ctx.needs_input_grad[0], ctx.needs_input_grad[2]
    grad_x, grad_weight = rows_backward(grad_out, *ctx.saved_tensors, *ctx.numbers)
    weight = ctx.saved_tensors[2]
    return (grad_x if x_wanted else None, None, grad_weight.to(weight.dtype) if weight_wanted else None,
            *(None,) * (2 + len(ctx.numbers)))


def _rows_backward(grad_out, x, positions, *rest):
    names = ["x", "norm_weight"] if rest[0] is not None else ["x"]
    found = _attune.transform_rows_backward(x, positions, dense_last(grad_out), gradients=names, detached=True, **_steps(rest))
    return found["x"], found.get("norm_weight", x.new_empty(0, dtype=wide(x.dtype)))


def _rows_backward_fake(grad_out, x, positions, *rest):
    return x.new_empty(x.shape), x.new_empty(rest[0].shape if rest[0] is not None else (0,), dtype=wide(x.dtype))


rows = define("transform_rows", f"(Tensor x, {_STEP_SCHEMA}) -> Tensor", _rows, lambda x, *rest: new_rows(x, x.shape),
              _rows_setup, _rows_autograd, gradient_on_cuda=False)
rows_backward = define("transform_rows_backward", f"(Tensor grad_out, Tensor x, {_STEP_SCHEMA}) -> (Tensor, Tensor)",
                       _rows_backward, _rows_backward_fake, _no_setup, no_gradient="no gradients of gradients of rows")
