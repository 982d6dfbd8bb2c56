#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""This library and PyTorch on one GPU, in turns, on the same tensors: times by events of the stream, results against f64.

Prints a table; with --out writes it to DIR/gpu.md. --record replaces bench/results/MACHINE.json (results.py) unless a result of
this library is wrong.
"""

import argparse
import datetime
import math
import pathlib
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from attention_problem import Problem
import results
from attune_library import Attune
from report import spread

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
CALLS_MS = 3  # of calls between two events
FEW_QUERIES = 8  # up to which reading keys and values is what a call takes
ALLOWED = 2  # times the error of the plain computation in the type, and a floor for rounding


@dataclass(frozen=True)
class Cell:
    problem: Problem
    backward: bool = False

    def __str__(self):
        return f"{'backward' if self.backward else 'decode' if self.decodes else 'prefill'} {self.problem}"

    @property
    def decodes(self):
        return self.problem.queries <= FEW_QUERIES

    @property
    def flops(self):
        return self.problem.flops * (2.5 if self.backward else 1)  # five products for two

    @property
    def bytes(self):
        """of keys and values"""
        p = self.problem
        return 2 * p.batch * p.key_heads * p.keys * p.dim * TYPES[p.dtype].itemsize

    @property
    def peer(self):
        if self.problem.dtype != "f32":
            return SDPBackend.FLASH_ATTENTION
        # No fused one in f32 has heads that share keys.
        return SDPBackend.MATH if self.problem.grouped else SDPBackend.EFFICIENT_ATTENTION


def cells(scale):
    for dtype in TYPES:
        for queries, dim in ((1024, 64), (2048, 32), (2048, 64), (2048, 80), (2048, 96), (2048, 128), (2048, 256)):
            size = queries // scale
            yield from (Cell(Problem(4, 16, 16, size, size, dim, dtype, causal)) for causal in (False, True))
        for batch, key_heads, queries, keys, dim in ((1, 8, 1, 32768, 128), (16, 8, 1, 8192, 128), (16, 8, 1, 8192, 64),
                                                     (1, 4, 8, 16384, 128)):
            yield Cell(Problem(batch, 32, key_heads, queries, keys // scale, dim, dtype))
        size = 2048 // scale
        yield from (Cell(Problem(4, 16, 16, size, size, dim, dtype, causal), backward=True)
                    for dim in (64, 128) for causal in (False, True))


def plain(problem, q, k, v):
    """The definition, in the type of the tensors."""
    group = problem.heads // problem.key_heads
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(problem.dim)
    if problem.causal:
        keep = torch.ones(problem.queries, problem.keys, dtype=torch.bool, device=q.device).tril(problem.keys - problem.queries)
        scores = scores.masked_fill(~keep, -math.inf)
    return scores.softmax(-1) @ v


def gradients(call, inputs, grad):
    inputs = [x.detach().requires_grad_() for x in inputs]
    return torch.autograd.grad(call(*inputs), inputs, grad)


def share_of_allowed(found, in_type, truth):
    allowed = ALLOWED * (in_type.double() - truth).abs().max() + 8 * torch.finfo(found.dtype).eps * truth.abs().max()
    return float((found.double() - truth).abs().max() / allowed)


class Device:
    def __init__(self, name):
        self.name, self.gpu = name, name == "cuda"

    def seconds(self, call):
        """Seconds of a call, the mean of as many calls as take some milliseconds."""
        elapsed, calls = self.elapsed(call, 1), 1
        if elapsed < CALLS_MS / 1e3:
            calls = math.ceil(CALLS_MS / 1e3 / max(elapsed, 1e-6))
            elapsed = self.elapsed(call, calls)
        return elapsed / calls

    def elapsed(self, call, calls):
        if not self.gpu:
            start = time.perf_counter()
            for _ in range(calls):
                call()
            return time.perf_counter() - start
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    def describe(self):
        if not self.gpu:
            return {"cpu": "the CPU: this tries the script, and measures no GPU"}, 0
        asked = ["nvidia-smi", "--query-gpu=name,clocks.max.sm,driver_version", "--format=csv,noheader,nounits"]
        answer = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        name, clock, driver = answer.splitlines()[0].split(", ")
        units = torch.cuda.get_device_properties(0).multi_processor_count
        lanes = 64 if torch.cuda.get_device_capability() == (8, 0) else 128  # multiply-adds in f32 a clock
        return {"gpu": name, "multiprocessors": units, "driver": driver}, units * lanes * 2e6 * float(clock)


def programs(attune, device, cell):
    problem = cell.problem
    shape = lambda heads, rows: (problem.batch, heads, rows, problem.dim)
    draw = lambda *size: torch.randn(size, device=device.name, dtype=torch.float32).to(TYPES[problem.dtype])
    q, k, v = (draw(*shape(h, rows)) for h, rows in
               ((problem.heads, problem.queries), (problem.key_heads, problem.keys), (problem.key_heads, problem.keys)))
    one = slice(0, 1)
    group = slice(0, problem.heads // problem.key_heads)
    few = (q[one, group], k[one, one], v[one, one])  # what the definition is computed of
    sdpa = lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=problem.causal, enable_gqa=problem.heads != problem.key_heads)

    def peer(call):
        with sdpa_kernel([cell.peer] if device.gpu else [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
            return call()

    out = torch.empty_like(q)
    if not cell.backward:
        ours = attune.sdpa(q, k, v, out, causal=problem.causal)
        call = lambda: peer(lambda: sdpa(q, k, v))
        truth = lambda: plain(problem, *(x.double() for x in few))
        check = lambda: share_of_allowed(ours()[one, group], plain(problem, *few), truth())
        return ours, call, check
    lse, grad = torch.empty(q.shape[:3], device=device.name), draw(*q.shape)
    attune.sdpa(q, k, v, out, causal=problem.causal, lse=lse)()
    wanted = [torch.empty_like(x) for x in (q, k, v)]
    ours = attune.sdpa_backward(q, k, v, out, lse, grad, wanted, causal=problem.causal)
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    forward = peer(lambda: sdpa(*leaves))
    call = lambda: torch.autograd.grad(forward, leaves, grad, retain_graph=True)

    def check():
        found = [x[one, one] for x in ours()]
        in_type = gradients(lambda *x: plain(problem, *x), few, grad[one, group])
        truth = gradients(lambda *x: plain(problem, *x), [x.double() for x in few], grad[one, group].double())
        return max(map(share_of_allowed, found, in_type, truth))

    return ours, call, check


def measure(attune, device, cell, rounds):
    """(our seconds by round, the peer's, the error as a share of what is allowed, variant)"""
    torch.manual_seed(1)
    ours, peer, check = programs(attune, device, cell)
    share, variant = check(), attune.last_variant()
    times = {ours: [], peer: []}
    for n in range(-1, rounds):  # the first warms up
        for call in ((ours, peer), (peer, ours))[n % 2]:
            seconds = device.seconds(call)
            if n >= 0:
                times[call].append(seconds)
    return *(dict(enumerate(times[call])) for call in (ours, peer)), share, variant


def bandwidth(device, rounds):
    """Bytes a second of a copy, read and written, of what no cache holds."""
    memory = torch.empty((1 << 30 if device.gpu else 1 << 26) // 4, device=device.name)
    to = torch.empty_like(memory)
    return 2 * memory.nbytes / min(device.seconds(lambda: to.copy_(memory)) for _ in range(rounds))


def targets_of(cell, seconds, ratio, peak, reads):
    """(figure, measured, at least)"""
    problem = cell.problem
    if cell.decodes:
        yield f"{cell}: bytes of keys and values, of a copy's", cell.bytes / seconds / reads, 0.7
    elif not cell.backward and problem.dtype == "f32" and not problem.causal:
        if peak:
            yield f"{cell}: of the f32 peak", cell.flops / seconds / peak, 0.35
        yield f"{cell}: PyTorch's time / ours", ratio, 1.0
    elif not cell.backward and problem.dtype == "f16" and problem.dim == 128:
        yield f"{cell}: PyTorch's time / ours", ratio, 0.4


def record(cell, ours, peers, error, variant, peak, reads):
    """A cell of results.py; ours and peers are seconds by round."""
    seconds = statistics.median(ours.values())
    limit, share = None, None
    if cell.decodes:
        limit, share = "copy", cell.bytes / seconds / reads
    elif peak and cell.problem.dtype == "f32":
        limit, share = "fma", cell.flops / seconds / peak
    name = "torch " + cell.peer.name.removesuffix("_ATTENTION").lower()
    programs = {results.SUBJECT: results.program_record(ours, ours, error=error, subject=True, of=len(ours)),
                name: results.program_record(peers, ours, of=len(ours))}
    return results.cell_record(programs, (), variant=variant, unit="B" if cell.decodes else "FLOP",
                               work=cell.bytes if cell.decodes else cell.flops, limit=limit, share=share)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True, type=pathlib.Path, help="libattune_peers.so of a build of preset cuda")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="cells whose names have this in them")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="for the table, such as build/bench")
    results.add_record_arguments(parser)
    parser.add_argument("--cpu", action="store_true", help="small sizes on the CPU, to try this script")
    given = parser.parse_args()
    asked = [cell for cell in cells(16 if given.cpu else 1) if given.only in str(cell)]
    if given.record and (given.only or given.cpu):
        parser.error("--record takes a run of all cells on a GPU, without --only and --cpu")
    if given.rounds < 1:
        parser.error("--rounds: at least 1")
    if not asked:
        parser.error(f"--only: no cell has '{given.only}' in its name")
    if not given.cpu and not torch.cuda.is_available():
        parser.exit(2, "PyTorch finds no GPU (--cpu tries the script without)\n")
    torch.backends.cuda.matmul.allow_tf32 = False
    device = Device("cpu" if given.cpu else "cuda")
    attune = Attune(given.library, 0 if given.cpu else 1, torch.cuda.current_stream().cuda_stream if device.gpu else None)
    hardware, peak = device.describe()
    what = ", ".join(f"{key} {value}" for key, value in hardware.items()) + f", PyTorch {torch.__version__}"
    reads = bandwidth(device, given.rounds)
    lines = [f"# Beside PyTorch on a GPU, {datetime.date.today()}", "",
             what + f"; a copy moves {reads / 1e9:.0f} GB/s.", "",
             f"In turns, {given.rounds} rounds on the same tensors; ratios are medians over rounds of its time / ours."
             " PyTorch's is `efficient_attention` in f32 (TF32 off; the plain definition where heads share keys),"
             " `flash_attention` in f16 and bf16. Cells that name no type are f32. Error: 1 is what is allowed.", "",
             "| cell | variant | ours ms | TFLOP/s | of f32 peak | of a copy's bytes | its time / ours | 10 to 90 % | error |",
             "|---|---|---:|---:|---:|---:|---:|---:|---:|"]
    print("\n".join(lines), flush=True)
    targets, wrong, missing, records = [], [], [], {}
    for cell in asked:
        try:
            ours, peers, share, variant = measure(attune, device, cell, given.rounds)
        except RuntimeError as failure:
            missing.append(f"the cell {cell}: {str(failure).splitlines()[0]}")
            line = f"| {cell} | {str(failure).splitlines()[0]} | | | | | | | |"
        else:
            seconds, ratios = statistics.median(ours.values()), [peers[n] / ours[n] for n in ours]
            records[str(cell)] = record(cell, ours, peers, share, variant, peak, reads)
            of_peak = f"{cell.flops / seconds / peak:.2f}" if peak and cell.problem.dtype == "f32" else "-"
            of_copy = f"{cell.bytes / seconds / reads:.2f}" if cell.decodes else "-"
            ratio = statistics.median(ratios)
            targets += targets_of(cell, seconds, ratio, peak, reads)
            wrong += [] if share <= 1 else [f"{cell}: wrong result: {share:.3g} times the error that is allowed"]
            line = (f"| {cell} | `{variant}` | {seconds * 1e3:.3f} | {cell.flops / seconds / 1e12:.2f} | {of_peak} "
                    f"| {of_copy} | {ratio:.2f} | {spread(ratios)} | {share:.2f} |")
        print(line, flush=True)
        lines.append(line)
    lines += ["", *(f"{'held' if value >= least else 'NOT HELD'}: {what}: {value:.2f}, target >= {least}"
                    for what, value, least in targets)]
    print("\n".join(lines[-len(targets) - 1 :]))
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        file = given.out / "gpu.md"
        file.write_text("\n".join(lines) + "\n")
        print(f"\nwritten: {file}")
    for line in wrong:
        print(f"compare_device: {line}", file=sys.stderr)
    if wrong:
        return 1
    if given.record:
        run = results.document(
            machine=given.record, title=given.title, date=str(datetime.date.today()),
            command=f"scripts/gpu --rounds {given.rounds} --record {given.record}", rounds=given.rounds, threads=1,
            hardware=hardware, versions={"torch": torch.__version__}, missing=missing,
            peaks={"copy": [results.rounded(reads * 1e-9)]}, cells=records)
        print(f"recorded: {results.write(run)}; now scripts/performance_page")
    return 0


if __name__ == "__main__":
    sys.exit(main())
