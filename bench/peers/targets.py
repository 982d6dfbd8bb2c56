"""The figures that the library is held to, read off a run."""

from cells_additive import SHAPES
from cells_attention import LONG, PLAIN, WEIGHTS, label

ADDITIVE = {"B1 q128 k1024 h128": (12, "torch compiled", 8), "B8 q64 k64 h256": (8, "torch compiled", 6),
            "decode B64 q1 k64 h256": (6, "torch eager", 20)}
OPTIONS = {"mask (Sq,Sk)": 1.15, "bias (Sq,Sk)": 1.15, "ALiBi": 1.10, "softcap 30": 1.35, "dropout 0.1": 1.5}


def targets(results, peak):
    """Rows of (figure, value, target, held); value and held are None where the run did not measure it."""
    rows = []

    def row(figure, cell, programs, value, limit, at_least=True):
        text = "{:.2f}"
        result = results.get(cell)
        number = value(result) if result and all(map(result.ok, ("attune", *programs))) else None
        held = None if number is None else number >= limit if at_least else number <= limit
        shown = None if number is None else text.format(number)
        rows.append((figure, shown, (">= " if at_least else "<= ") + text.format(limit), held))

    assert ADDITIVE.keys() == SHAPES.keys()
    for name, (rate, peer, times) in ADDITIVE.items():
        cell = f"additive {name}"
        row(f"{cell}: G tanh/s", cell, (), lambda r: r.rate("attune") * 1e-9, rate)
        row(f"{cell}: times {peer}", cell, (peer,), lambda r, peer=peer: r.ratio(peer), times)
    cell = "multi-head B4 S512 E512 H8"
    for peer in ("torch", "onnxruntime Attention", "onnxruntime MultiHeadAttention"):
        row(f"{cell}: times {peer}", cell, (peer,), lambda r, peer=peer: r.ratio(peer), 1.3)
    cell = "linear 2048x512x512"
    row(f"{cell}: share of the FMA peak", cell, (), lambda r: r.rate("attune") / peak, 0.80)
    for option, limit in OPTIONS.items():
        cell = f"sdpa {label(LONG)}, {option}"
        row(f"{cell}: time / time without", cell, (PLAIN,), lambda r: 1 / r.ratio(PLAIN), limit, at_least=False)
    for shape in WEIGHTS:
        cell = f"sdpa {label(shape)}, weights"
        row(f"{cell}: time less one write / time without", cell, (PLAIN, "one write"),
            lambda r: (r.median("attune") - r.median("one write")) / r.median(PLAIN), 1.6, at_least=False)
        for peer in ("torch unfused", "torch unfused, memory given"):
            row(f"{cell}: times {peer}", cell, (peer,), lambda r, peer=peer: r.ratio(peer), 1.0)
    return rows
