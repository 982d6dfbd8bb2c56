# SPDX-License-Identifier: MIT
"""A rank of MPI: attention of its rows has the bits of one rank, and a disagreement is an error. Run by mpirun."""
import attune.context_parallel as cp
import numpy as np
from mpi4py import MPI

ranks = cp.mpi_communicator(MPI.COMM_WORLD, time_limit=30.0)
rng = np.random.default_rng(2)
query, key, value = (rng.standard_normal((1, heads, 90, 64)).astype(np.float32) for heads in (4, 2, 2))
plan = cp.plan_positions(90, ranks.size, "striped", 16, causal="top_left")
rows = cp.rows_of(plan, ranks.rank)
own = [np.ascontiguousarray(x[:, :, rows]) for x in (query, key, value)]
out = cp.ring_attention(ranks, plan, *own, causal="top_left")
one = cp.ring_attention(cp.Communicator(0, 1), cp.plan_positions(90, 1, "striped", 16, causal="top_left"), query, key, value,
                        causal="top_left")
assert out.tobytes() == np.ascontiguousarray(one[:, :, rows]).tobytes()
if ranks.size > 1:
    try:
        cp.ring_attention(ranks, plan, *own, causal="top_left", softcap=1.0 + ranks.rank)
        raise SystemExit("ranks disagree, and no rank says so")
    except ValueError as error:
        assert "ranks disagree" in str(error), error
print(f"rank {ranks.rank}: the same bits", flush=True)
