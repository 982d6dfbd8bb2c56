# SPDX-License-Identifier: MIT
"""A run of the CPU as Markdown, as its rounds, and as the compact results of results.py."""

import datetime
import statistics

import results as compact
from results import OTHERS, SUBJECT, behind, quantile

PEAKS = {"fma": "multiply-adds in f32", "dot": "dot products of pairs in bf16", "tile": "AMX tiles in bf16"}
METHOD = """\
All in one process, in turns, {rounds} rounds on the same inputs, each of which begins at a cache line; a ratio is the median
over rounds of (its time / ours in the same round), so above 1 is slower than ours. A peer that takes twice as long as the
quickest is in every fifth round only, one that takes 8 times as long in the first. "Of limit" is the median over rounds of our
rate over the peak, or of the time of a plain read of the same keys and values over ours. Work is counted where the masks keep
it. Results are compared with NumPy in f64, of long calls a sample of rows: 1 is the error that is allowed, twice that of the
plain computation in the type and a floor for rounding; and with ours, every element, in the same unit."""


def peaks_of(results, kind):
    return [p for r in results.values() if r.cell.peak == kind for p in r.peaks.values()]


def lost(results):
    """(cell, program, its time over ours) where a peer is ahead."""
    return [(name, peer, r.ratio(peer)) for name, r in results.items() if r.ok(SUBJECT)
            for peer in r.competitors() if behind(r.ratio(peer))]


def short(result):
    """Peers that are not as far behind as the cell wants."""
    return [p for p in result.competitors() if result.ratio(p) < result.cell.limit(p)] if result.ok(SUBJECT) else []


def groups(results):
    """(title, [(name, result)]) by the best peer, the worst first. Every cell with a peer is in one."""
    compared = {name: r for name, r in results.items() if r.best_peer()}
    behind = {name for name, *_ in lost(compared)}
    near = {name for name, r in compared.items() if short(r)} - behind
    rest = compared.keys() - behind - near
    ratio = lambda name: compared[name].ratio(compared[name].best_peer())
    titles = ("Cells we lose", behind), ("Cells that are closer than wanted", near), ("The rest", rest)
    return [(title, [(name, compared[name]) for name in sorted(names, key=ratio)]) for title, names in titles]


def failures(results):
    return [(name, program, p.failure) for name, r in results.items() for program, p in r.programs.items() if p.failure]


def seconds(s):
    return f"{s * 1e3:.3f}" if s >= 1e-3 else f"{s * 1e3:.4f}"


def spread(ratios):
    return f"{quantile(ratios, 0.1):.2f} to {quantile(ratios, 0.9):.2f}"


def share(result, name=SUBJECT):
    """"0.85 of fma": of the machine's limit in the same rounds."""
    value = result.share(name) if result.ok(name) else None
    if value is None:
        return "-"
    return f"{value:.2f} of {result.cell.bound or result.cell.peak}" + (" (above it)" if value > 1 else "")


def summary(title, members):
    lines = [f"## {title}", ""]
    if not members:
        return lines + ["None.", ""]
    lines += ["| cell | ours ms | of limit | best peer | its time / ours | 10 to 90 % | wanted |",
              "|---|---:|---|---|---:|---:|---:|"]
    for name, r in members:
        peer = r.best_peer()
        busy = " (busy)" if r.others > OTHERS else ""
        lines.append(f"| {name}{busy} | {seconds(r.median(SUBJECT))} | {share(r)} | {peer} | {r.ratio(peer):.2f} | "
                     f"{spread(r.ratios(peer))} | {r.cell.limit(peer):.2f} |")
        lines += [f"| | | | {p} | {r.ratio(p):.2f} | {spread(r.ratios(p))} | {r.cell.limit(p):.2f} |"
                  for p in short(r) if p != peer]
    return lines + [""]


def cell_table(result):
    unit = result.cell.unit
    lines = [f"### {result.cell.name}", ""]
    lines += [result.cell.note + ".", ""] if result.cell.note else []
    busy = " **Busy machine.**" if result.others > OTHERS else ""
    lines += [f"`{result.variant}`; other processes took {result.others:.2f} cores.{busy}", ""]
    head = ["program", "best ms", "median ms", "time / attune", "10 to 90 %", "rounds", f"G{unit}/s", "of limit",
            "error / allowed", "from ours / allowed"]
    lines += ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for name, p in result.programs.items():
        shown = f"**{name}**" if name == SUBJECT else name
        if p.failure:
            lines.append(f"| {shown} | {p.failure.replace('|', '/')} |" + " |" * (len(head) - 2))
            continue
        ratios = result.ratios(name) if result.ok(SUBJECT) else []
        compared = [f"{statistics.median(ratios):.2f}", spread(ratios)] if ratios else ["-", "-"]
        own = name in result.cell.own
        rated = not own or name.startswith(SUBJECT) or name == result.cell.bound
        limited = rated and not (own and result.cell.peak != "fma")  # in f32, whose peak is another
        other = " **(something else)**" if result.other(name) else ""
        over = other or (" **(over)**" if p.error is not None and p.error > 1 else "")
        lines.append("| " + " | ".join([
            shown, seconds(p.best), seconds(result.median(name)), *compared, str(len(p.rounds)),
            f"{result.rate(name) * 1e-9:.2f}" if rated else "-", share(result, name) if limited else "-",
            "not compared" if p.error is None else f"{p.error:.2f}{over}",
            "-" if p.apart is None else f"{p.apart:.2f}"]) + " |")
    return lines + [""]


def markdown(results, rows, machine, versions, missing, rounds, threads):
    others = ", ".join(f"{n} {v}" for n, v in versions.items())
    lines = [f"# Beside other libraries: {machine['target']}, {datetime.date.today()}", "",
             f"{machine['cpu']}, {machine['cores']} cores, {threads} threads for all, {machine['kernel']}; {others}.", ""]
    for kind, words in PEAKS.items():
        if peaks := peaks_of(results, kind):
            lines += [f"Peak \"{kind}\", {words}, {machine['vectors']}: median of {len(peaks)} rounds "
                      f"**{statistics.median(peaks) * 1e-9:.1f} GFLOP/s**, best {max(peaks) * 1e-9:.1f}.", ""]
    lines += [METHOD.format(rounds=rounds), ""]
    lines += [f"* **Missing:** {m}" for m in missing] + [""] * bool(missing)
    busy = sum(r.others > OTHERS for r in results.values())
    lines += [f"**{busy} of {len(results)} cells were measured while other work ran on the machine.**", ""] if busy else []
    for title, members in groups(results):
        lines += summary(title, members)
    failed = failures(results)
    lines += ["## Not measured", ""] + [f"* {name}: {program}: {why}" for name, program, why in failed] + [""] if failed else []
    words = {True: "held", False: "**not held**", None: "not measured"}
    measured = [row for row in rows if row[3] is not None]
    if measured:
        lines += ["## Targets", "", "| figure | measured | target | |", "|---|---:|---:|---|"]
        lines += [f"| {figure} | {value} | {target} | {words[held]} |" for figure, value, target, held in measured] + [""]
    lines += ["## Cells", ""]
    for result in results.values():
        lines += cell_table(result)
    return "\n".join(lines).rstrip() + "\n"


def record(result, rounds):
    """A cell of results.py."""
    ours = result.programs[SUBJECT].rounds
    programs = {n: compact.program_record(p.rounds, ours, best=p.best, error=p.error, failure=p.failure,
                                          of=rounds, subject=n == SUBJECT) for n, p in result.programs.items()}
    cell, share = result.cell, result.share() if result.ok(SUBJECT) else None
    return compact.cell_record(programs, cell.own, variant=result.variant, work=cell.work or None,
                               unit=cell.unit if cell.work else None, share=share,
                               limit=(cell.bound or cell.peak) if share is not None else None, others=result.others)


def document(results, machine, versions, missing, rounds, threads, name, title):
    """The document of results.py, of the machine `name`."""
    peaks = {kind: peaks for kind in PEAKS if (peaks := peaks_of(results, kind))}
    hardware = {key: int(value) if key == "cores" else value for key, value in machine.items() if value != "not readable"}
    fewer = f" --threads {threads}" if threads != hardware["cores"] else ""
    return compact.document(
        machine=name, title=title, date=str(datetime.date.today()), rounds=rounds, threads=threads,
        command=f"scripts/bench_peers --rounds {rounds}{fewer} --record {name}",
        hardware=hardware, versions=versions, missing=missing,
        peaks={kind: [compact.rounded(f(p) * 1e-9) for f in (statistics.median, max)] for kind, p in peaks.items()},
        cells={cell: record(r, rounds) for cell, r in results.items()})


def every_round(results):
    """Seconds of each program in each round, and the peaks of the rounds, for questions that medians do not answer."""
    return {name: {"peaks": r.peaks, "programs": {n: p.rounds for n, p in r.programs.items()}} for name, r in results.items()}
