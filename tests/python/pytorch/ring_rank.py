# SPDX-License-Identifier: MIT
"""A rank of torch.distributed in the tests of attune.torch.ring_attention: a process of torch.multiprocessing."""
import os
import time

import attune.context_parallel as cp
import attune.torch as at
import torch
import torch.distributed as dist

POSITIONS, CHUNK = 96, 16
CASES = {
    "plain": {},
    "causal": {"layout": "striped", "is_causal": True, "heads": (4, 2)},
    "window": {"layout": "balanced", "window": (20, 4), "softcap": 5.0},
    "sinks": {"layout": "head_tail", "is_causal": True, "sinks": True, "grad_lse": True},
    "slopes": {"layout": "striped", "is_causal": True, "alibi_slopes": True},
    "bias": {"layout": "contiguous", "bias": True, "mask": True},
    "bf16": {"layout": "striped", "is_causal": True, "dtype": torch.bfloat16},
    "dropout": {"layout": "striped", "is_causal": True, "dropout_p": 0.3, "seed": 5, "dropout_offset": 2,
                "dropout_first_query": 7, "dropout_first_key": 2, "dropout_first_head": 3, "dropout_heads": 6},
    "lengths": {"layout": "striped", "valid_lens": [70], "dtype": torch.float64},
}


def tensors_of(name):
    """Tensors of all positions, the same on every rank."""
    case = CASES[name]
    heads, key_heads = case.get("heads", (2, 2))
    draw = torch.Generator().manual_seed(5)
    dtype = case.get("dtype", torch.float32)
    made = {"query": (1, heads, POSITIONS, 64), "key": (1, key_heads, POSITIONS, 64), "value": (1, key_heads, POSITIONS, 64)}
    if case.get("bias"):
        made["bias"] = (1, heads, POSITIONS, POSITIONS)
    tensors = {n: torch.randn(shape, generator=draw, dtype=torch.float32).to(dtype) for n, shape in made.items()}
    for n in ("sinks", "alibi_slopes"):
        if case.get(n):
            tensors[n] = torch.rand(heads, generator=draw)
    grads = torch.randn((1, heads, POSITIONS, 64), generator=draw).to(dtype), torch.randn((1, heads, POSITIONS), generator=draw)
    mask = torch.rand((1, 1, POSITIONS, POSITIONS), generator=draw) > 0.2 if case.get("mask") else None
    return tensors, mask, grads


def run_case(name, group, size, rank):
    """out, lse and gradients of this rank's rows; those of sinks and slopes are of all ranks."""
    case = CASES[name]
    options = {n: given for n, given in case.items()
               if n in ("is_causal", "window", "softcap", "valid_lens", "seed") or n.startswith("dropout")}
    band = {"causal": "top_left" if case.get("is_causal") else None, "window": case.get("window")}
    plan = cp.plan_positions(POSITIONS, size, case.get("layout", "contiguous"), CHUNK, **band)
    rows = torch.from_numpy(cp.rows_of(plan, rank))
    tensors, mask, (grad_out, grad_lse) = tensors_of(name)
    own = {n: (t[:, :, rows] if t.dim() == 4 else t).clone().requires_grad_() for n, t in tensors.items()}
    out, lse = at.ring_attention(**own, mask=None if mask is None else mask[:, :, rows].contiguous(), group=group, plan=plan,
                                 return_lse=True, time_limit=30.0, **options)
    if case.get("grad_lse"):
        torch.autograd.backward([out, lse], [grad_out[:, :, rows], grad_lse[:, :, rows]])
    else:
        out.backward(grad_out[:, :, rows])
    return rows, {"out": out.detach(), "lse": lse, **{n: t.grad for n, t in own.items()}}


def rank_of(rank, size, folder, what, *arguments):
    """A process: joins the group, runs, and stores its result or the name and words of its exception."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    try:
        result = globals()[what](rank, size, *arguments)
    except Exception as error:
        result = type(error).__name__, str(error)
    torch.save(result, f"{folder}/{rank}.pt")
    os._exit(0)  # without waiting for ranks that ended


def all_cases(rank, size):
    return {name: run_case(name, None, size, rank) for name in CASES}


def equal_parts(rank, size):
    """Without a plan every rank holds as many positions as the others."""
    tensors, _, _ = tensors_of("causal")
    part = POSITIONS // size
    rows = torch.arange(rank * part, (rank + 1) * part)
    own = (t[:, :, rows].contiguous() for t in tensors.values())
    return rows, {"out": at.ring_attention(*own, is_causal=True)}


def group_of_two(rank, size):
    """A group of ranks 2 and 0 of three, in the order of their numbers; rank 1 is not in the group."""
    group = dist.new_group([0, 2])
    if rank == 1:
        try:
            return at.process_group_communicator(group)
        except ValueError as error:
            return "ValueError", str(error)
    return run_case("causal", group, 2, dist.get_rank(group))


def disagreement(rank, size, backward):
    query = torch.ones(1, 2, 16, 64, requires_grad=True)
    key = torch.ones(1, 2, 16, 64, requires_grad=not backward or rank != 1)
    out = at.ring_attention(query, key, key, softcap=1.0 + (rank == 1 and not backward), time_limit=5.0)
    out.sum().backward()


def killed(rank, size, backward):
    query = torch.ones(1, 2, 16, 64, requires_grad=True)
    out = at.ring_attention(query, query, query, time_limit=3.0) if backward else None
    if rank == 1:
        os._exit(7)
    if backward:
        out.sum().backward()
    else:
        at.ring_attention(query, query, query, time_limit=3.0)


def late(rank, size):
    query = torch.ones(1, 2, 16, 64)
    if rank == 1:
        time.sleep(4)
    at.ring_attention(query, query, query, time_limit=1.0)
