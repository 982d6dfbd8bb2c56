# SPDX-License-Identifier: MIT
"""Attention over positions that are spread over the ranks of torch.distributed, with autograd."""
from __future__ import annotations

import datetime
import threading

import numpy as np
import torch
import torch.distributed as dist

from attune import context_parallel
from attune._attune import Communicator, ring_attention as forward_call, ring_attention_backward as backward_call
from attune.torch._attention import refuse_transforms
from attune.torch._ops import dense_last

_TAG = 0x61740000  # of messages between ranks of a group; other messages of the program have other tags
_LEAST_CHUNK, _MOST_CHUNK = 256, 2048


class _Transfer:
    """A message that was started. Gloo's operations end by wait() alone, which a thread of their own calls."""

    def __init__(self, works, tensors, time_limit):
        self.tensors = tensors  # whose memory the works use
        self.error = None
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run, args=(works, datetime.timedelta(seconds=time_limit)), daemon=True)
        self.thread.start()

    def run(self, works, time_limit):
        try:
            for work in works:
                work.wait(time_limit)
        except BaseException as error:  # of the backend, for the thread that waits
            self.error = error
        self.done.set()

    def wait(self, seconds):
        if not self.done.wait(seconds):
            return False
        if self.error is not None:
            raise self.error
        self.tensors = None
        return True


class _Memory:
    """The memory of a message as an array that may be written: torch has no tensors over memory that may only be read, as that
    of a send is."""

    def __init__(self, view):
        self.array = np.frombuffer(view, np.uint8)
        interface = self.array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def _bytes_of(view):
    return torch.from_numpy(np.asarray(_Memory(view)))


def process_group_communicator(group=None, *, time_limit=60.0):
    """The communicator of a group of torch.distributed whose tensors on the CPU go by gloo.

    Args:
        group: ProcessGroup; None: that of all processes.
        time_limit: seconds that a rank waits for one message.
    """
    if not dist.is_available() or not dist.is_initialized():
        raise ValueError("group: torch.distributed is not initialised; call init_process_group(\"gloo\")")
    group = dist.group.WORLD if group is None else group
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    if rank < 0:
        raise ValueError("group: this process is no rank of it")
    if "cpu:gloo" not in (config := str(dist.get_backend_config(group))):
        raise ValueError(f"group: its backend is {config}; tensors on the CPU need gloo")
    global_ranks = [dist.get_global_rank(group, n) for n in range(size)]

    def start_send_receive(send, to, receive, source):
        works, tensors = [], []
        # A message of no bytes is none, on both sides.
        if source is not None and len(receive):
            tensors.append(_bytes_of(receive))
            works.append(dist.irecv(tensors[-1], global_ranks[source], group=group, tag=_TAG))
        if to is not None and len(send):
            tensors.append(_bytes_of(send))
            works.append(dist.isend(tensors[-1], global_ranks[to], group=group, tag=_TAG))
        return _Transfer(works, tensors, time_limit)

    # Gloo cannot give up a message: the memory of one that was not done stays allocated.
    return Communicator(rank, size, start_send_receive, _Transfer.wait, time_limit=time_limit)


def _plan_of(positions, ranks, causal, window):
    """The plan of ranks that hold equal numbers of positions, one range each."""
    chunk = next((n for n in range(min(positions, _MOST_CHUNK), 0, -1) if positions % n == 0), 1)
    if chunk < min(positions, _LEAST_CHUNK):
        raise ValueError(f"plan: {positions} positions a rank have no divisor from {_LEAST_CHUNK} to {_MOST_CHUNK}; pad them, "
                         "or give attune.context_parallel.plan_positions()")
    return context_parallel.plan_positions(positions * ranks, ranks, "contiguous", chunk, causal=causal, window=window)


class _RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, communicator, plan, options, query, key, value, bias, alibi_slopes, sinks):
        score = {"bias": bias, "alibi_slopes": alibi_slopes, "sinks": sinks}
        out, lse, _ = forward_call(communicator, plan, query, key, value, lse=True, detached=True, **score, **options)
        ctx.call = communicator, plan, options
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(query, key, value, bias, alibi_slopes, sinks, out, lse)
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_out, grad_lse):
        communicator, plan, options = ctx.call
        query, key, value, bias, alibi_slopes, sinks, out, lse = ctx.saved_tensors
        names = ("query", "key", "value", "bias", "alibi_slopes", "sinks")
        wanted = [name for name, needed in zip(names, ctx.needs_input_grad[3:], strict=True) if needed]
        if grad_out is None:
            grad_out = torch.zeros_like(out)
        made = backward_call(communicator, plan, query, key, value, out, lse, dense_last(grad_out), grad_lse=grad_lse,
                             gradients=wanted, detached=True, bias=bias, alibi_slopes=alibi_slopes, sinks=sinks, **options)
        return None, None, None, *(made.get(name) for name in names)


@torch.compiler.disable
def ring_attention(query, key, value, *, group=None, plan=None, is_causal=False, window=None, scale=None, softcap=0.0,
                   score="dot_product", bias=None, alibi=False, alibi_slopes=None, mask=None, valid_lens=None, sinks=None,
                   dropout_p=0.0, seed=None, dropout_offset=0, dropout_first_query=0, dropout_first_key=0,
                   dropout_first_head=0, dropout_heads=0, invariant=False, variant=None, return_lse=False, time_limit=60.0,
                   context=None):
    """Attention of this rank's queries over the keys of all ranks of a group, with autograd by query, key, value, bias,
    alibi_slopes and sinks (Ring Attention, Liu et al., 2023). The same bits for any number of ranks.

    Collective, and so is backward(): every rank calls, in the same order, with its own tensors and otherwise equal arguments.

    Args:
        query, key, value: (B, Hq, S, Dk), (B, Hkv, S, Dk), (B, Hkv, S, Dv) of this rank; f32, f64, bf16 or f16, on the CPU.
        group: a group of torch.distributed with gloo, or a Communicator of attune.context_parallel; None: all processes.
        plan: attune.context_parallel.plan_positions(), S = plan.positions_of(rank); causal masks want a striped one. None:
            every rank holds S positions, rank 0 the first ones.
        is_causal: a query sees the keys up to its own position.
        window: (left, right), from the position of the query; -1: unbounded.
        bias, mask: rows of this rank's positions, and a column for each position of all ranks.
        valid_lens: int32 (B), counted over all positions.
        scale, softcap, score, alibi, alibi_slopes, sinks, invariant, variant, context: as in
            attune.context_parallel.ring_attention; tensors are the same on every rank.
        dropout_p: probability with which a weight becomes 0; needs a seed.
        seed: an int, the same on every rank: generators of torch differ between processes.
        dropout_offset, dropout_first_query, dropout_first_key, dropout_first_head, dropout_heads: as in
            attune.scaled_dot_product_attention; dropout counts the positions of all ranks.
        return_lse: also return lse, (B, Hq, S).
        time_limit: seconds that a rank waits for one message. It must cover the longest time between two calls of ranks.

    Raises:
        ValueError: an argument is wrong, or ranks disagree: on every rank.
        ConnectionError: a message failed, or did not come in time.
    """
    refuse_transforms()
    communicator = group if isinstance(group, Communicator) else process_group_communicator(group, time_limit=time_limit)
    causal = "top_left" if is_causal else None
    if plan is None:
        if query.dim() != 4:
            raise ValueError(f"query: must be (B, Hq, S, Dk), has {query.dim()} dimensions")
        plan = _plan_of(query.shape[-2], communicator.size, causal, window)
    if dropout_p > 0 and seed is None:
        raise ValueError("seed: must be given with dropout_p, the same on every rank")
    options = {"causal": causal, "window": window, "scale": scale, "softcap": softcap, "score": score, "alibi": alibi,
               "mask": dense_last(mask), "valid_lens": valid_lens, "invariant": invariant, "variant": variant,
               "context": context, "dropout_p": dropout_p, "seed": seed, "dropout_offset": dropout_offset,
               "dropout_first_query": dropout_first_query, "dropout_first_key": dropout_first_key,
               "dropout_first_head": dropout_first_head, "dropout_heads": dropout_heads}
    out, lse = _RingAttention.apply(communicator, plan, options, *map(dense_last, (query, key, value, bias)), alibi_slopes,
                                    sinks)
    return (out, lse) if return_lse else out
