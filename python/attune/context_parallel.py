# SPDX-License-Identifier: MIT
"""Attention over positions that are spread over ranks: processes of MPI, or of any transport whose sends and receives are
functions of Python. attune.torch has ring_attention() for torch.distributed.

    import attune.context_parallel as cp
    from mpi4py import MPI
    ranks = cp.mpi_communicator(MPI.COMM_WORLD)
    plan = cp.plan_positions(100000, ranks.size, "striped", causal="top_left")
    rows = cp.rows_of(plan, ranks.rank)                       # positions of this rank
    out = cp.ring_attention(ranks, plan, query[:, :, rows], key[:, :, rows], value[:, :, rows], causal="top_left")

Results have the same bits for any number of ranks. Errors are ValueError on every rank where ranks disagree, and
ConnectionError where a message fails or does not come in time.
"""
from __future__ import annotations

import time
from typing import Any

from attune._attune import (
    Communicator,
    ParallelPlan,
    forecast_parallel,
    gathered_attention,
    head_parallel_attention,
    plan_positions,
    ring_attention,
    ring_attention_backward,
    sharded_decode,
    sharded_paged_decode,
)

__all__ = ["Communicator", "ParallelPlan", "forecast_parallel", "gathered_attention", "head_parallel_attention",
           "mpi_communicator", "plan_positions", "ring_attention", "ring_attention_backward", "rows_of", "sharded_decode",
           "sharded_paged_decode"]

# Bytes of a message of MPI, whose counts are 32-bit integers before MPI 4: longer messages go in parts.
_MOST_BYTES = 1 << 30
_TAG = 7


def rows_of(plan: ParallelPlan, rank: int) -> Any:
    """The positions that a rank holds, in their order, as a NumPy array of int64: an index into arrays of all positions."""
    import numpy as np

    plan.positions_of(rank)  # a rank that the plan does not have is refused
    return np.concatenate([np.arange(begin, end) for begin, end in plan.of_rank[rank]] or [np.arange(0)])


def mpi_communicator(comm: Any, *, time_limit: float = 60.0) -> Communicator:
    """The communicator of a communicator of mpi4py. Collective: comm is duplicated, so that messages are the library's own.

    Args:
        comm: mpi4py.MPI.Comm. Where MPI was initialised with less than MPI_THREAD_SERIALIZED, messages move between kernels
            alone.
        time_limit: Seconds that a rank waits for one message.
    """
    from mpi4py import MPI

    group = comm.Dup()

    def parts(view: memoryview) -> list[Any]:
        return [[view[at:at + _MOST_BYTES], MPI.BYTE] for at in range(0, len(view), _MOST_BYTES)]

    def start_send_receive(send, to, receive, source):
        requests = [] if source is None else [group.Irecv(part, source, _TAG) for part in parts(receive)]
        return requests + ([] if to is None else [group.Isend(part, to, _TAG) for part in parts(send)])

    def wait(requests, seconds):
        until, pause = time.monotonic() + seconds, 2e-5
        while not MPI.Request.Testall(requests):
            left = until - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, pause))
            pause = min(2 * pause, 1e-3)
        return True

    # MPI cannot give up a send: the memory of a request that was not done stays allocated.
    return Communicator(group.Get_rank(), group.Get_size(), start_send_receive, wait, time_limit=time_limit,
                        any_thread=MPI.Query_thread() >= MPI.THREAD_SERIALIZED)
