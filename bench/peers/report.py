"""A run as Markdown and as JSON."""

import datetime

from measure import SUBJECT, quantile

OTHERS = 0.15  # cores; a cell during which other processes took more is marked
SAME = 1.02  # ratios closer to 1 than this are called equal


def stem(machine):
    return f"peers-{machine['target']}-{machine['cores']}cores-{datetime.date.today()}"


def peak_of(results):
    return max((p for r in results.values() for p in r.peaks), default=0)


def competitors(result):
    return [n for n in result.programs if n != SUBJECT and n not in result.cell.own and result.ok(n)]


def lost(results):
    """(cell, program, its time over ours) where a peer is ahead."""
    return [(name, peer, r.ratio(peer)) for name, r in results.items() if r.ok(SUBJECT)
            for peer in competitors(r) if r.ratio(peer) * SAME < 1]


def failures(results):
    return [(name, program, p.failure) for name, r in results.items() for program, p in r.programs.items() if p.failure]


def seconds(s):
    return f"{s * 1e3:.3f}" if s >= 1e-3 else f"{s * 1e3:.4f}"


def cell_table(result, peak):
    unit = result.cell.unit
    lines = [f"### {result.cell.name}", ""]
    lines += [result.cell.note + ".", ""] if result.cell.note else []
    busy = " **Busy machine.**" if result.others > OTHERS else ""
    lines += [f"`{result.variant}`; other processes took {result.others:.2f} cores.{busy}", ""]
    head = ["program", "best ms", "median ms", "time / attune", "10 to 90 %", f"G{unit}/s"]
    head += ["of FMA peak"] if unit == "FLOP" else []
    head += ["error / allowed"]
    lines += ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for name, p in result.programs.items():
        shown = f"**{name}**" if name == SUBJECT else name
        if p.failure:
            lines.append(f"| {shown} | {p.failure.replace('|', '/')} |" + " |" * (len(head) - 2))
            continue
        if result.ok(SUBJECT):
            ratios = result.ratios(name)
            compared = [f"{result.ratio(name):.2f}", f"{quantile(ratios, 0.1):.2f} to {quantile(ratios, 0.9):.2f}"]
        else:
            compared = ["-", "-"]
        rated = name not in result.cell.own or name.startswith(SUBJECT)
        fields = [shown, seconds(p.best), seconds(result.median(name)), *compared]
        fields += [f"{result.rate(name) * 1e-9:.2f}" if rated else "-"]
        fields += [f"{result.rate(name) / peak:.2f}" if rated else "-"] if unit == "FLOP" else []
        over = " **(over)**" if p.error is not None and p.error > 1 else ""
        error = "not compared" if p.error is None else f"{p.error:.2f}{over}"
        lines.append("| " + " | ".join([*fields, error]) + " |")
    return lines + [""]


def markdown(results, rows, machine, versions, missing, rounds, threads):
    peak = peak_of(results)
    others = ", ".join(f"{n} {v}" for n, v in versions.items())
    lines = [f"# Beside other libraries: {machine['target']}, {datetime.date.today()}", "",
             f"{machine['cpu']}, {machine['cores']} cores, {threads} threads for all, {machine['kernel']}; {others}.", "",
             f"Peak of multiply-adds in f32, {machine['vectors']}, the best of {sum(len(r.peaks) for r in results.values())} "
             f"measurements over the run: **{peak * 1e-9:.1f} GFLOP/s**.", "",
             f"All in one process, in turns, {rounds} rounds on the same inputs; a ratio is the median over rounds of (its "
             "time / ours in the same round), so above 1 is slower than ours. Rates are of the best time. Results are compared "
             "with NumPy in f64: 1 is the error that is allowed, twice that of NumPy in f32 and a floor for rounding.", ""]
    lines += [f"* **Missing:** {m}" for m in missing] + [""] * bool(missing)
    busy = sum(r.others > OTHERS for r in results.values())
    lines += [f"**{busy} of {len(results)} cells were measured while other work ran on the machine.**", ""] if busy else []
    lines += ["## Cells we lose", ""]
    behind = lost(results)
    lines += [f"* {name}: {peer} takes {ratio:.2f} of our time" for name, peer, ratio in behind]
    lines += [] if behind else ["None."]
    failed = failures(results)
    lines += ["", "## Not measured", ""] + [f"* {name}: {program}: {why}" for name, program, why in failed] if failed else []
    lines += ["", "## Targets", "", "| figure | measured | target | |", "|---|---:|---:|---|"]
    words = {True: "held", False: "**not held**", None: "not measured"}
    lines += [f"| {figure} | {value or '-'} | {target} | {words[held]} |" for figure, value, target, held in rows]
    lines += ["", "## Cells", ""]
    for result in results.values():
        lines += cell_table(result, peak)
    return "\n".join(lines).rstrip() + "\n"


def document(results, rows, machine, versions, missing, rounds, threads):
    return {
        "machine": machine, "versions": versions, "missing": missing, "rounds": rounds, "threads": threads,
        "date": str(datetime.date.today()), "fma_peak": peak_of(results),
        "targets": [dict(zip(("figure", "measured", "target", "held"), row)) for row in rows],
        "lost": [dict(zip(("cell", "program", "ratio"), row)) for row in lost(results)],
        "cells": {name: {"variant": r.variant, "work": r.cell.work, "unit": r.cell.unit, "peaks": r.peaks,
                         "cores_of_others": r.others,
                         "programs": {n: {"best_s": p.best if p.rounds else None, "rounds_s": p.rounds, "error": p.error,
                                          "ratio": r.ratio(n) if r.ok(n) and r.ok(SUBJECT) else None, "failure": p.failure}
                                      for n, p in r.programs.items()}}
                  for name, r in results.items()},
    }
