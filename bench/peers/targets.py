# SPDX-License-Identifier: MIT
"""The figures that the library is held to, read off a run."""

import cells_backward
import cells_ragged
import cells_users
from cells_additive import SHAPES, TRAINED, training_name
from cells_attention import LONG, PLAIN, WEIGHTS, label
from cells_dense import BERT, F32, LONG_DECODE, NEIGHBOURS, PREFILL, VIT, WIDE, cell_name, variant

ADDITIVE = {"B1 q128 k1024 h128": (12, "torch compiled", 8), "B8 q64 k64 h256": (8, "torch compiled", 6),
            "decode B64 q1 k64 h256": (6, "torch eager", 20)}
OPTIONS = {"mask (Sq,Sk)": 1.15, "bias (Sq,Sk)": 1.15, "ALiBi": 1.10, "softcap 30": 1.35, "dropout 0.1": 1.5}
# Shares of the peak, by (problem, causal, type).
SHARES = {(PREFILL, False, "f32"): 0.83, (WIDE, False, "f32"): 0.87, (PREFILL, True, "f32"): 0.70, (WIDE, True, "f32"): 0.80,
          (BERT, False, "f32"): 0.62, (VIT, False, "f32"): 0.65, (PREFILL, False, "bf16"): 0.73, (WIDE, False, "bf16"): 0.80,
          (PREFILL, True, "bf16"): 0.60, (WIDE, True, "bf16"): 0.70}
# By AMX tiles, times our own f32.
TILES = 2.5
# Targets of gradients: shares of the peak with five products counted; bf16: times the speed of our own f32.
BACKWARD = {cells_backward.PREFILL: 0.60, cells_backward.CAUSAL: 0.52, cells_backward.WIDE: 0.56}
BACKWARD_BF16 = 1.5
ADDITIVE_TRAINING = 5.0


def relative(result, other):
    """Our rate over that of another program, in the same rounds."""
    return result.ratio(other) * result.work() / result.work(other)


def targets(results):
    """Rows of (figure, value, target, held); value and held are None where the run did not measure it."""
    rows = []

    def row(figure, cell, programs, value, limit, at_least=True):
        text = "{:.2f}"
        result = results.get(cell)
        number = value(result) if result and all(map(result.ok, ("attune", *programs))) else None
        held = None if number is None else number >= limit if at_least else number <= limit
        shown = None if number is None else text.format(number)
        rows.append((figure, shown, (">= " if at_least else "<= ") + text.format(limit), held))

    for (problem, causal, dtype), limit in SHARES.items():
        cell = cell_name("prefill", variant(problem, causal=causal, dtype=dtype))
        if cell in results and results[cell].cell.peak == "tile":
            row(f"{cell}: rate / that of f32", cell, (F32,), lambda r: relative(r, F32), TILES)
            continue
        row(f"{cell}: share of the peak", cell, (), lambda r: r.share() or 0, limit)
    for dim, neighbour in NEIGHBOURS.items():
        cell, other = cell_name("prefill", variant(PREFILL, dim=dim)), f"attune, head size {neighbour}"
        row(f"{cell}: rate / that of head size {neighbour}", cell, (other,), lambda r, other=other: relative(r, other), 0.9)
    cell = cell_name("prefill", variant(PREFILL, dtype="f16"))
    row(f"{cell}: rate / that of f32", cell, (F32,), lambda r: relative(r, F32), 0.85)
    for problem, limit in BACKWARD.items():
        cell = cells_backward.cell_name(problem)
        row(f"{cell}: share of the peak", cell, (), lambda r: r.share() or 0, limit)
    for problem, limit in cells_backward.WANTED.items():
        cell = cells_backward.cell_name(problem)
        row(f"{cell}: times PyTorch", cell, ("torch math",), lambda r: r.ratio(r.best_peer()), limit)
    for cell in (cells_backward.cell_name(p) for p in cells_backward.OF_16_BITS if p.dtype == "bf16"):
        row(f"{cell}: rate / that of f32", cell, (F32,), lambda r: relative(r, F32), BACKWARD_BF16)
    for dtype in ("f32", "bf16", "f16"):
        cell = cell_name("decode", variant(LONG_DECODE, dtype=dtype))
        row(f"{cell}: time of a plain read / ours", cell, (), lambda r: r.share(), 0.75)
    cell = cells_ragged.NAME
    row(f"{cell}: rate / that of equal lengths", cell, (cells_ragged.DENSE,), lambda r: relative(r, cells_ragged.DENSE), 0.85)
    assert ADDITIVE.keys() == SHAPES.keys()
    for name, (rate, peer, times) in ADDITIVE.items():
        cell = f"additive {name}"
        row(f"{cell}: G tanh/s", cell, (), lambda r: r.rate("attune") * 1e-9, rate)
        row(f"{cell}: times {peer}", cell, (peer,), lambda r, peer=peer: r.ratio(peer), times)
    for cell in map(training_name, TRAINED):
        row(f"{cell}: times torch compiled", cell, ("torch compiled",), lambda r: r.ratio("torch compiled"), ADDITIVE_TRAINING)
    cell = "multi-head B4 S512 E512 H8"
    for peer in ("torch", "onnxruntime Attention", "onnxruntime MultiHeadAttention"):
        row(f"{cell}: times {peer}", cell, (peer,), lambda r, peer=peer: r.ratio(peer), 1.3)
    cell = "linear 2048x512x512"
    row(f"{cell}: share of the FMA peak", cell, (), lambda r: r.share(), 0.80)
    for option, limit in OPTIONS.items():
        cell = f"sdpa {label(LONG)}, {option}"
        row(f"{cell}: time / time without", cell, (PLAIN,), lambda r: 1 / r.ratio(PLAIN), limit, at_least=False)
    for shape in WEIGHTS:
        cell = f"sdpa {label(shape)}, weights"
        row(f"{cell}: time less one write / time without", cell, (PLAIN, "one write"),
            lambda r: (r.median("attune") - r.median("one write")) / r.median(PLAIN), 1.6, at_least=False)
        for peer in ("torch unfused", "torch unfused, memory given"):
            row(f"{cell}: times {peer}", cell, (peer,), lambda r, peer=peer: r.ratio(peer), 1.0)
    for option in cells_users.OPTIONS:
        cell, own = cells_users.cell_name(option), cells_users.PLAIN
        limit = 1.35 if option == "softcap" else 1.1
        against = cells_users.DENSE if option == "softcap" else own
        row(f"{cell}: time / that of {against}", cell, (against,), lambda r, against=against: 1 / r.ratio(against), limit,
            at_least=False)
        times = 1.3 if option.startswith("window") else 2.0
        row(f"{cell}: times FlexAttention", cell, ("torch FlexAttention",), lambda r: r.ratio("torch FlexAttention"), times)
    for cuts, limit in (("equal", 0.2), ("random", 0.35)):
        cell = cells_users.documents_name(cuts)
        row(f"{cell}: time / dense", cell, (cells_users.DENSE,), lambda r: 1 / r.ratio(cells_users.DENSE), limit,
            at_least=False)
    return rows
