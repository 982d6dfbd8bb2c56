# SPDX-License-Identifier: MIT
"""A run beside other libraries as compact JSON: its schema, its only writer and its only reader. No package is needed.

`bench/results/<machine>.json` is the newest run of a machine. A run that is recorded replaces the file; rounds are not in it.

    machine   name of the file, such as zen5        title   the machine as readers know it, such as AMD EPYC Zen 5
    date      of the run                            command that repeats the run
    rounds    in which all programs took turns      threads of every program
    hardware  what the run found: target (of schedules/targets.json), cpu or gpu, cores, vectors, kernel, compiler...
    versions  of the other libraries                missing what could not be measured, a sentence each
    peaks     [median, best] of the machine's limits over the run: multiply-adds in f32 (fma), dot products of pairs in bf16
              (dot), AMX tiles in bf16 (tile), in GFLOP/s; a copy that no cache holds (copy, the best alone), in GB/s
    cells     by name, in the order of names:
      variant   that dispatch chose
      unit      of the work: FLOP, B, tanh          work    of a call, as far as masks keep it
      limit     of the machine: a peak (of a GPU, fma is counted from its clock), or the program, such as "plain read", whose
                time stands for it; absent if there is none
      share     of that limit, median over rounds; above 1 where the limit was slower in those rounds
      others    cores that other processes took meanwhile
      attune    this library; peers: other libraries; own: this library done otherwise, and bounds. Of each program:
        ms      [median, best], of attune [median, best, 10 %, 90 %], over rounds
        ratio   its time / ours of the same round: [median, 10 %, 90 %]; above 1 ours is faster
        rounds  in which it ran, if fewer than all
        error   largest, against the reference in f64; 1 is the error that is allowed
        failure why there are no times

A key is absent where the run did not measure its value. Numbers have four digits. A line holds the numbers of a cell, or of one
program in it, so that a diff of two runs can be read.
"""

import json
import math
import pathlib
import re
import statistics

SUBJECT = "attune"
FOLDER = pathlib.Path(__file__).resolve().parents[1] / "results"
SAME_RESULT = 4  # times the allowed error; a peer beyond it computes something else and is not compared with
OTHERS = 0.15  # cores; a cell during which other processes took more is marked
MACHINE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
HEAD = ("machine", "title", "date", "command", "rounds", "threads", "hardware", "versions", "missing", "peaks", "cells")
OF_CELL = ("variant", "unit", "work", "limit", "share", "others", SUBJECT, "peers", "own")
OF_PROGRAM = {"ms", "ratio", "rounds", "error", "failure"}


def quantile(values, at):
    """By linear interpolation between the sorted values."""
    values = sorted(values)
    place = at * (len(values) - 1)
    below = math.floor(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (place - below) * (values[above] - values[below])


def rounded(number):
    """To four digits."""
    if number is None or not math.isfinite(number):
        return None
    number = float(f"{number:.4g}")
    return int(number) if number.is_integer() and abs(number) < 1e15 else number


def exact(number):
    """A count, as an integer where it is one."""
    return int(number) if number is not None and float(number).is_integer() else number


def present(**values):
    """Without what was not measured."""
    return {key: value for key, value in values.items() if value not in (None, "", [], {})}


def program_record(rounds, ours, *, best=None, error=None, failure="", of=None, subject=False):
    """Record of a program: seconds by round; `ours` are those of this library, `of` is the number of rounds of the run."""
    if error is not None and not math.isfinite(error):
        failure = failure or "its result is not finite where the reference is"
    if failure or not rounds:
        return present(failure=failure or "no round", error=rounded(error))
    times = list(rounds.values())
    ms = [statistics.median(times), min(times) if best is None else best]
    ms += [quantile(times, 0.1), quantile(times, 0.9)] if subject else []
    ratios = [rounds[n] / ours[n] for n in rounds if n in ours] if not subject else []
    ratio = [statistics.median(ratios), quantile(ratios, 0.1), quantile(ratios, 0.9)] if ratios else []
    return present(ms=[rounded(1e3 * x) for x in ms], ratio=[rounded(x) for x in ratio],
                   rounds=len(rounds) if len(rounds) != of else None, error=rounded(error))


def cell_record(programs, own, **values):
    """programs: records by name, this library's among them."""
    values = {key: exact(value) if key == "work" else rounded(value) if isinstance(value, float) else value
              for key, value in values.items()}
    values |= {SUBJECT: programs[SUBJECT], "peers": {n: p for n, p in programs.items() if n != SUBJECT and n not in own},
               "own": {n: programs[n] for n in own if n in programs}}
    return present(**{key: values[key] for key in OF_CELL if key in values})


def document(**values):
    """Keys and cells in order. The default title is that of the file which is replaced, else the name of the CPU or GPU."""
    if not values.get("title"):
        file = FOLDER / f"{values['machine']}.json"
        hardware = values["hardware"]
        values["title"] = load(file)["title"] if file.exists() else hardware.get("gpu") or hardware["cpu"]
    values["cells"] = dict(sorted(values["cells"].items()))
    return {key: values[key] for key in HEAD}


def competitors(cell):
    """Ratios of the peers that ran and computed the same, by name."""
    return {name: p["ratio"][0] for name, p in cell.get("peers", {}).items()
            if "ratio" in p and p.get("error", 0) <= SAME_RESULT}


def best_peer(cell):
    """(name, ratio) of the peer whose time is the least; None where there is none to compare with."""
    return min(competitors(cell).items(), key=lambda item: item[1], default=None)


def behind(ratio):
    """Whether the number that pages show, of two decimals, is below 1."""
    return round(ratio, 2) < 1


def lost(document):
    """Names of the cells in which a peer is ahead, the worst first."""
    ratios = {name: best[1] for name, cell in document["cells"].items() if (best := best_peer(cell))}
    return sorted((name for name in ratios if behind(ratios[name])), key=ratios.get)


def text_of(document):
    """A line for each value of the head, for each cell and for each program."""
    line = lambda value: json.dumps(value, ensure_ascii=False)
    lines = []
    for key in HEAD[:-1]:
        text = f'"{key}": {line(document[key])},'
        if len(text) > 128:  # columns
            text = f'"{key}": ' + json.dumps(document[key], ensure_ascii=False, indent=2) + ","
        lines += text.splitlines()
    lines.append('"cells": {')
    for number, (name, cell) in enumerate(document["cells"].items()):
        programs = [[f'{line(SUBJECT)}: {line(cell[SUBJECT])}']]
        programs += [[f"{line(n)}: {line(p)}" for n, p in cell[kind].items()] for kind in ("peers", "own") if kind in cell]
        kinds = [SUBJECT, *(kind for kind in ("peers", "own") if kind in cell)]
        values = {key: value for key, value in cell.items() if key not in kinds}
        lines.append(f"{line(name)}: {line(values)[:-1]}," if values else f"{line(name)}: {{")
        for kind, rows in zip(kinds, programs):
            last = "" if kind == kinds[-1] else ","
            if kind == SUBJECT:
                lines.append(f"  {rows[0]}{last}")
            else:
                lines += [f'  "{kind}": {{', *(f"    {row}," for row in rows[:-1]), f"    {rows[-1]}}}{last}"]
        lines[-1] += "}" + ("," if number + 1 < len(document["cells"]) else "")
    return "{\n" + "\n".join(lines) + "\n}}\n"


def add_record_arguments(parser):
    """--record and --title, the same for all that measure beside others."""

    def machine(name):
        if not MACHINE.fullmatch(name):
            raise ValueError
        return name

    parser.add_argument("--record", type=machine, metavar="MACHINE", help="replace bench/results/MACHINE.json, such as zen5")
    parser.add_argument("--title", help="of the machine on pages; default: that of the replaced file")


def write(document, folder=FOLDER):
    """Replaces the machine's file."""
    path = folder / f"{document['machine']}.json"
    path.write_text(text_of(document))
    return path


def load(path):
    """The document of a file. Refuses one that is not of the schema, by ValueError."""
    found = json.loads(path.read_text())

    def need(held, words):
        if not held:
            raise ValueError(f"{path.name}: {words}")

    need(tuple(found) == HEAD, f"keys are {', '.join(found)}, not {', '.join(HEAD)}")
    need(MACHINE.fullmatch(found["machine"]) and path.stem == found["machine"], f"it is of the machine {found['machine']}")
    need(list(found["cells"]) == sorted(found["cells"]), "cells are not in the order of their names")
    for name, cell in found["cells"].items():
        need(cell.keys() <= set(OF_CELL) and SUBJECT in cell, f"{name}: keys are {', '.join(cell)}")
        for program in (cell[SUBJECT], *cell.get("peers", {}).values(), *cell.get("own", {}).values()):
            need(program.keys() <= OF_PROGRAM, f"{name}: keys of a program are {', '.join(program)}")
            need("failure" in program or "ms" in program or "ratio" in program, f"{name}: a program without times or a failure")
    return found
