# SPDX-License-Identifier: MIT
"""Report of attune_bench's JSON: <host-class>-<date>.json, .md and .svg with tables, a check list and a chart.

    python3 scripts/bench_report.py bench.json [--plain FILE] --out DIR
"""

import argparse
import json
import pathlib
import re
import statistics
import sys

sys.dont_write_bytecode = True  # no __pycache__ in the source tree
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import bench_chart

BASELINES = ("root", "mullapudi2016", "adams2019")
# Limits beyond which a cell was measured on a busy machine: share of a core that other processes took meanwhile, and share of
# its best that the peak just before or after reached.
OTHERS, BUSY = 0.15, 0.9
UNITS = {"FLOP": "useful_flops", "tanh": "useful_tanh", "B": "useful_bytes"}
NOISE = 1.03  # a variant that is better than dispatch's choice by less is equal


class Cell:
    """One variant on one shape."""

    def __init__(self, entry):
        name = re.sub(r"/(manual_time|real_time|iterations:\d+|min_time:[\d.]+|repeats:\d+)", "", entry["name"])
        self.variant, self.sizes = name.split("/", 1)
        self.dtype = re.search(r"_(f32|f64|bf16|f16)(_|$)", self.variant).group(1)
        op = re.match(r"(dispatched_)?(.*?)_?f(32|64)", self.variant).group(2) or "sdpa"
        self.op = "additive" if op == "additive_separable" else op  # two forms of one score
        self.error = entry.get("error_message") if entry.get("error_occurred") else None
        self.entry = entry
        self.label = entry.get("label", "")
        self.best = entry.get("best_s")
        self.median = entry.get("median_s")

    @property
    def dispatched(self):
        return self.variant.startswith("dispatched_")

    @property
    def schedule(self):
        """root, prefill, decode, an autoscheduler's name or dispatched."""
        return "dispatched" if self.dispatched else next(
            (s for s in (*BASELINES, "prefill", "decode") if f"_{s}" in self.variant), "other")

    @property
    def baseline(self):
        return self.schedule in BASELINES

    @property
    def peaks(self):
        return self.entry["fma_peak_before"], self.entry["fma_peak_after"]

    @property
    def unit(self):
        """Unit of the work. Only FLOPs have a peak."""
        return next((u for u, counter in UNITS.items() if counter in self.entry), None)

    @property
    def rate(self):
        """Rate in 10^9 units per second."""
        return self.entry[UNITS[self.unit]] / self.best * 1e-9

    @property
    def median_rate(self):
        return self.entry[UNITS[self.unit]] / self.median * 1e-9


class Shape:
    """All cells of one shape, and its name for readers."""

    def __init__(self, op, sizes, dtype):
        self.op, self.sizes, self.dtype, self.cells = op, sizes, dtype, []
        f = dict(part.split(":") for part in sizes.split("/"))
        self.name = "" if op == "sdpa" else op.replace("_", " ") + " "
        # The name leaves out sizes that the op does not have, and dv where it equals d.
        heads = f.get("h") if f.get("h") == f.get("kv", f.get("h")) else f"{f['h']}/{f['kv']}"
        self.name += "x".join(filter(None, (f["b"], heads, f["q"], f.get("k"), f.get("d"), f.get("dv"))))
        self.name += " causal" if f.get("causal") == "1" else ""
        self.name += f" window ({f['window'].replace('_', ',')})" if "window" in f else ""
        lengths = f.get("len", "")
        self.name += f" lengths {lengths.replace('_', ',')}" if "_" in lengths else f" length {lengths}" if lengths else ""
        self.name += f" with {f['options'].replace('+', ', ')}" if "options" in f else ""
        self.name += f", {dtype}"

    def measured(self):
        return [c for c in self.cells if not c.error]

    def find(self, schedule):
        """The best measured cell of a schedule, or None."""
        return min((c for c in self.measured() if c.schedule == schedule), key=lambda c: c.best, default=None)


class Run:
    """Shapes in the order of the run, and the figures of the machine."""

    def __init__(self, document):
        self.context = document["context"]
        shapes = {}
        for entry in document["benchmarks"]:
            if entry.get("run_type") == "aggregate":
                continue
            cell = Cell(entry)
            key = cell.op, cell.sizes, cell.dtype
            shapes.setdefault(key, Shape(*key)).cells.append(cell)
        self.shapes = list(shapes.values())
        self.peaks = {}
        for cell in (c for s in self.shapes for c in s.measured()):
            self.peaks.setdefault(cell.dtype, []).extend(p * 1e-9 for p in cell.peaks)

    def peak(self, dtype):
        return max(self.peaks[dtype])

    def share(self, cell, median=False):
        """Share of the multiply-add peak; None for other work."""
        return (cell.median_rate if median else cell.rate) / self.peak(cell.dtype) if cell.unit == "FLOP" else None

    def busy(self, cell):
        return cell.entry["cores_of_others"] > OTHERS or min(cell.peaks) * 1e-9 < BUSY * self.peak(cell.dtype)

    def find(self, name, schedule="dispatched"):
        shape = next((s for s in self.shapes if s.name == name), None)
        return shape and shape.find(schedule)


def share_text(share):
    """A share in words. Above 1 the peak was measured on a busy machine, or is not that of the instructions."""
    return "-" if share is None else f"{share:.3f}" + (" (above the peak)" if share > 1 else "")


def lost_cells(run):
    """Shapes where another variant of ours beats dispatch's choice: rows of (shape, chosen, best, ratio, busy)."""
    rows = []
    for shape in run.shapes:
        chosen = shape.find("dispatched")
        ours = [c for c in shape.measured() if not c.baseline and not c.dispatched]
        if not chosen or not ours:
            continue
        # The same variant, forced, is the same call: the better of the two measurements counts.
        time = min([chosen.best] + [c.best for c in ours if c.variant == chosen.label])
        best = min(ours, key=lambda c: c.best)
        if time > NOISE * best.best:
            rows.append((shape.name, chosen.label, best.variant, time / best.best, run.busy(chosen) or run.busy(best)))
    return rows


def check_list(run, plain):
    """Rows of (what, measured, target, met); met is None where the run did not measure it."""
    rows = []

    def row(what, cells, value, limit, least, text="{:.3f}", beside=None):
        target = f"{'>=' if least else '<='} " + text.format(limit)
        if not all(cells):
            return rows.append((what, "not measured", target, None))
        number = value(*cells)
        shown = text.format(number) + (f" ({beside(*cells)})" if beside else "")
        shown += ", busy machine" if any(isinstance(c, Cell) and run.busy(c) for c in cells) else ""
        rows.append((what, shown, target, number >= limit if least else number <= limit))

    def f32(name, schedule="dispatched"):
        return run.find(name + ", f32", schedule)

    full, long, big = "1x8x1024x1024x64", "1x8x2048x2048x128", "1x8x4096x4096x64"
    for name, limit in ((full, 0.75), (long, 0.82), (full + " causal", 0.60), (long + " causal", 0.70)):
        row(f"share of the peak, {name}", [f32(name)], run.share, limit, True,
            beside=lambda c: f"median {run.share(c, True):.3f}")
    for name, limit in (("1x32/8x1x32768x128", 0.45), ("1x32/8x1x4096x128", 0.35)):
        row(f"share of a plain sum over K and V, {name}", [f32(name)], lambda c: c.entry["read_fraction"], limit, True,
            beside=lambda c: f"of the bests {c.entry['read_fraction_best']:.3f}")
    for schedule, limit in (("root", 100), ("mullapudi2016", 4)):
        row(f"times the rate of {schedule}, {full}", [f32(full), f32(full, schedule)], lambda c, other: other.best / c.best,
            limit, True, "{:.1f}", lambda c, other: f"medians {other.median / c.median:.1f}")
    row("textbook example, microseconds a call", [f32("2x1x1x10x2 lengths 2,6")], lambda c: c.median * 1e6, 5, False, "{:.2f}",
        lambda c: f"best {c.best * 1e6:.2f}")
    for option, limit in ((" causal", 0.6), (" causal window (255,0)", 0.15), (" length 1000", 0.35)):
        row(f"time of{option} / full, {big}", [f32(big + option), f32(big)], lambda c, whole: c.best / whole.best, limit, False,
            beside=lambda c, whole: f"medians {c.median / whole.median:.3f}")
    # Gradients of one head store nothing of size (Sq, Sk).
    few, many = (f32(f"sdpa backward 1x1x{keys}x{keys}x128") for keys in (1024, 16384))
    row("scratch of gradients, 16384 keys / 1024", [few, many],
        lambda a, b: b.entry["scratch_bytes"] / a.entry["scratch_bytes"], 16.5, False, "{:.2f}",
        lambda a, b: f"{mib(a)} and {mib(b)} MiB")
    row(f"plain program / benchmark, rate, {full}", [f32(full), plain],
        lambda c, p: max(x["best_gflops"] for x in p) / c.rate, 0.95, True,
        beside=lambda c, p: f"medians {statistics.median(x['median_gflops'] for x in p) / c.median_rate:.3f}")
    return rows


def ms(seconds):
    return f"{seconds * 1e3:.3f}" if seconds >= 1e-4 else f"{seconds * 1e3:.5f}"


def mib(cell):
    return f"{cell.entry['scratch_bytes'] / 2**20:.2f}" if "scratch_bytes" in cell.entry else "-"


def shape_table(run, shape):
    root = shape.find("root")
    decode = any("read_fraction" in c.entry for c in shape.measured())
    unit = next((c.unit for c in shape.measured()), "FLOP")
    head = ["variant", "best ms", "median ms", "spread", f"useful G{unit}/s", "share of peak", "times root", "scratch MiB"]
    head += ["share of a plain sum", "(bests)"] if decode else []
    lines = [f"### {shape.name}", "", "| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    order = {"dispatched": 0, "root": 3, "mullapudi2016": 2, "adams2019": 2}
    for c in sorted(shape.cells, key=lambda c: (order.get(c.schedule, 1), c.best or float("inf"))):
        name = f"**dispatched** ({c.label})" if c.dispatched and c.label else f"`{c.variant}`"
        if c.error:
            lines.append(f"| {name} | {c.error} |" + " |" * (len(head) - 2))
            continue
        fields = [name + (" (busy)" if run.busy(c) else ""), ms(c.best), ms(c.median),
                  f"{c.entry['spread']:.1%}" if c.entry["samples"] > 1 else "one call", f"{c.rate:.2f}",
                  share_text(run.share(c)),
                  f"{root.best / c.best:.1f}" if root else "-", mib(c)]
        if decode:
            read = c.entry.get("read_fraction")
            fields += [f"{read:.3f}", f"{c.entry['read_fraction_best']:.3f}"] if read is not None else ["-", "-"]
        lines.append("| " + " | ".join(fields) + " |")
    return lines + [""]


def markdown(run, plain, chart):
    c = run.context
    lines = [f"# Benchmarks: {c['target']}, {c['date'][:10]}", "",
             f"{c['cpu']}, {c['cores']} cores, {c['threads']} threads a call, clock governor {c['governor']}, {c['kernel']}, "
             f"{c['compiler']}, Halide {c['halide']}.", ""]
    for dtype, peaks in sorted(run.peaks.items()):
        lines += [f"Peak of multiply-adds, {dtype}, {c['vectors']}: **{max(peaks):.1f} GFLOP/s**, measured {len(peaks)} times "
                  f"over the run (least {min(peaks):.1f}, median {statistics.median(peaks):.1f}).", ""]
    cells = [c for s in run.shapes for c in s.measured()]
    busy = sum(map(run.busy, cells))
    lines += [f"**{busy} of {len(cells)} cells, marked (busy), were measured while other work ran on the machine: their rates "
              "are too low.**", ""] if busy else []
    lines += [f"Plain sum over 256 MiB: {float(c['read_bandwidth']) * 1e-9:.1f} GB/s.", "",
              "Times: best and median of the samples; spread: 10th to 90th percentile over the median. Rates and shares are of "
              "the best time against the best peak of the run; useful FLOPs count only the pairs that the masks keep. "
              "Share of a plain sum: median over pairs (sum, call) taken in turns.", "", f"![share of the peak]({chart})", ""]
    if c["variants_not_run_here"] != "none":
        lines += ["Variants that this machine cannot run:", "", *(f"* {v}" for v in c["variants_not_run_here"].split("; ")), ""]
    if c["forced_variant"] != "none":
        lines += [f"**ATTUNE_FORCE_VARIANT={c['forced_variant']}**: dispatch did not choose.", ""]
    lines += ["## Cells we lose", ""]
    lost = lost_cells(run)
    lines += [f"* {name}: `{chosen}` was chosen, `{best}` has {ratio:.2f} times its rate" + (" (busy machine)" if busy else "")
              for name, chosen, best, ratio, busy in lost]
    lines += [] if lost else [f"None: dispatch's choice is the best of our variants (within {NOISE - 1:.0%}) on every shape."]
    failed = [(s.name, x) for s in run.shapes for x in s.cells if x.error and not x.error.startswith("not run:")]
    lines += ["", "## Failed", "", *(f"* {name}: `{x.variant}`: {x.error}" for name, x in failed)] if failed else []
    lines += ["", "## Check list", "", "| what | measured | target | |", "|---|---:|---:|---|"]
    words = {True: "met", False: "**not met**", None: "not measured"}
    lines += [f"| {what} | {value} | {target} | {words[met]} |" for what, value, target, met in check_list(run, plain)]
    lines += ["", "## Shapes", ""]
    for shape in run.shapes:
        lines += shape_table(run, shape)
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", type=pathlib.Path)
    parser.add_argument("--plain", type=pathlib.Path, help="lines of attune_plain")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    text = args.json.read_text()
    document = json.loads(text) if text.strip() else {"benchmarks": []}
    if not document["benchmarks"]:
        sys.exit("bench_report: no benchmark was run (does the filter match?)")
    plain = [json.loads(line) for line in args.plain.read_text().splitlines()] if args.plain else []
    run = Run(document)
    if not run.peaks:
        sys.exit("bench_report: nothing was measured: " + document["benchmarks"][0].get("error_message", ""))
    # The results may be kept and shared, so the names of host and folder are removed.
    for key in ("host_name", "executable"):
        document["context"].pop(key, None)
    document["plain_program"] = plain
    stem = f"{run.context['target']}-{run.context['cores']}cores-{run.context['date'][:10]}"
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / f"{stem}.json").write_text(json.dumps(document, indent=1) + "\n")
    (args.out / f"{stem}.md").write_text(markdown(run, plain, f"{stem}.svg"))
    (args.out / f"{stem}.svg").write_text(bench_chart.chart(run))
    busy = sum(run.busy(c) for s in run.shapes for c in s.measured())
    if busy:
        print(f"busy     {busy} cells were measured on a busy machine: their rates are too low")
    for what, value, target, met in check_list(run, plain):
        print(f"{ {True: 'met', False: 'NOT MET', None: '-'}[met]:8} {what}: {value}, target {target}")
    for name, chosen, best, ratio, busy in lost_cells(run):
        print(f"lost     {name}: {best} has {ratio:.2f} times the rate of {chosen}" + (", busy machine" if busy else ""))
    print(f"table {args.out / stem}.md\nchart {args.out / stem}.svg\njson  {args.out / stem}.json")


if __name__ == "__main__":
    main()
