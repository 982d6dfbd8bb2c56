# SPDX-License-Identifier: MIT
"""Microseconds of a call from Python beyond those of the library: the textbook example (four words, three channels) through
NumPy and PyTorch, and an operation of PyTorch's that does nothing, which shows its own part. Called by scripts/bench_torch."""
import statistics
import time

import numpy
import torch

import attune
import attune.torch

CALLS, ROUNDS = 2000, 15


@torch.library.custom_op("attune_bench::nothing", mutates_args=())
def nothing(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(query)


@nothing.register_fake
def _(query, key, value):
    return torch.empty_like(query)


nothing.register_autograd(lambda ctx, grad: (grad, grad, grad), setup_context=lambda ctx, inputs, output: None)


def microseconds(call):
    """Medians over rounds of the time of a call, in turns with nothing else."""
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - begin) / CALLS * 1e6)
    return statistics.median(times), min(times), max(times)


def main():
    torch.set_num_threads(1)
    rows = numpy.random.default_rng(1).standard_normal((3, 1, 1, 4, 3)).astype(numpy.float32)
    context, out = attune.Context(threads=1), numpy.empty_like(rows[0])
    tensors = [torch.tensor(r) for r in rows]
    recorded = [t.clone().requires_grad_() for t in tensors]
    calls = {
        "NumPy, given out": lambda: attune.scaled_dot_product_attention(*rows, out=out, context=context),
        "torch": lambda: attune.torch.scaled_dot_product_attention(*tensors),
        "torch, recording gradients": lambda: attune.torch.scaled_dot_product_attention(*recorded),
        "PyTorch's own attention": lambda: torch.nn.functional.scaled_dot_product_attention(*tensors),
        "PyTorch's own, recording gradients": lambda: torch.nn.functional.scaled_dot_product_attention(*recorded),
        "an empty operation of PyTorch's": lambda: nothing(*tensors),
        "the same, recording gradients": lambda: nothing(*recorded),
    }
    print(f"PyTorch {torch.__version__}, NumPy {numpy.__version__}; microseconds a call: median (least to most)")
    for name, call in calls.items():
        middle, least, most = microseconds(call)
        print(f"{name:36} {middle:6.1f} ({least:.1f} to {most:.1f})", flush=True)


if __name__ == "__main__":
    main()
