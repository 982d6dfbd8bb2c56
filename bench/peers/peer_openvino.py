# SPDX-License-Identifier: MIT
"""OpenVINO's scaled_dot_product_attention (opset 13) of a Problem."""

import numpy as np

from attention_problem import FEW, dense

# The type at the border and of the products: it has no f16 arithmetic on CPUs of today, so f16 is widened, as ours is.
PRECISION = {"f32": "f32", "bf16": "bf16", "f16": "f32"}


def programs(peers, problem):
    """It knows no groups of heads: where there are few queries, a group's heads stand as queries of one head, which reads keys
    and values once; else they are repeated beforehand, outside the time."""
    q, k, v = problem.arrays
    group, mask, causal, name = problem.heads // problem.key_heads, problem.mask, False, "openvino"
    if problem.causal and problem.square and not problem.window:
        mask, causal = None, True
    if group > 1 and problem.queries <= FEW:
        q = q.reshape(problem.batch, problem.key_heads, -1, problem.dim)
        mask = mask if mask is None else np.tile(mask, (group, 1))
        name += ", group as queries"
    elif group > 1:
        k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
        name += ", heads repeated"
    arrays = [q, k, v]
    if mask is not None:
        arrays.append(dense(mask, q.shape[2], k.shape[2]))
    call = peers.lazy(lambda: peers.openvino_attention(arrays, causal, PRECISION[problem.dtype]))
    shape = problem.batch, problem.heads, problem.queries, problem.out_dim
    return {name: lambda: call().reshape(shape)}
