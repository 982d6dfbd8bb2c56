#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the tuner's strategies on recorded spaces: distance of each from the best, by the number of candidates.

    tools/tune/compare_strategies.py build/native/tools/attune RECORDS.jsonl... [--page docs/tuning-strategies.md]

Each key of the records (a variant, a shape, a machine) is searched again and again, from the baseline of its ratios and from
recorded points that the seeds choose. Nothing is timed: the answers are the recorded medians. With --page the tables replace
the text between the markers of that page; without it they are printed.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- tables: tools/tune/compare_strategies.py -->", "<!-- end of tables -->"
STRATEGIES = ["factored", "descent", "random"]  # exhaustive gives the record itself
COUNTS = [10, 20, 40, 60, 100, 150, 200]


def replayed(program, records, schedules, strategy, seed, budget, random_start):
    command = [program, "tune-replay", records, "--schedules", schedules, "--strategy", strategy, "--seed", seed,
               "--budget", budget] + ["--random-start"] * random_start
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr.strip())
    return [json.loads(line) for line in done.stdout.splitlines()]


def name_of(key):
    """The variant and shape of a key, as a heading."""
    size = f" d{key['head_dim']}" if key["head_dim"] else ""
    shape_class = f" {key['class']}" if key["class"] else ""
    cold = ", cold caches" if key["cold"] else ""
    return f"{key['op']} {key['dtype']}{size} {key['schedule']}{shape_class} at {key['shape']}, {key['target']}, " \
           f"{key['threads']} threads{cold}"


def regret_after(run, count):
    """Regret of the search after so many candidates, or at its end; infinite until one was timed."""
    regret = run["regret"][:count]
    return regret[-1] if regret and regret[-1] is not None else float("inf")


def candidates_within(run, share):
    """Number of candidates after which the search is within a share of the best; None: never."""
    return next((n + 1 for n, regret in enumerate(run["regret"]) if regret is not None and regret <= 1 + share), None)


def percent(regret):
    return "-" if regret == float("inf") else f"{100 * (regret - 1):.1f}"


def rows_of(strategy, runs):
    cells = []
    for count in COUNTS:
        regrets = [regret_after(run, count) for run in runs]
        cells.append(f"{percent(statistics.median(regrets))} / {percent(max(regrets))}")
    asked = statistics.median(len(run["regret"]) for run in runs)
    within = [candidates_within(run, 0.02) for run in runs]
    reached = [n for n in within if n is not None]
    median = f"{statistics.median(reached):.0f} ({len(reached)} of {len(runs)})" if reached else f"never (0 of {len(runs)})"
    return f"| {strategy} | " + " | ".join(cells) + f" | {asked:.0f} | {median} |"


def tables(program, files, schedules, seeds, budget):
    text = []
    for records in files:
        runs = {}  # by key, start and strategy
        facts = {}
        for strategy in STRATEGIES:
            for random_start in (False, True):
                # From given parameters, descent makes the same search for every seed.
                for seed in range(1, (1 if strategy == "descent" and not random_start else seeds) + 1):
                    for run in replayed(program, records, schedules, strategy, seed, budget, random_start):
                        key = json.dumps(run["key"])
                        facts[key] = run
                        runs.setdefault(key, {}).setdefault(random_start, {}).setdefault(strategy, []).append(run)
        for key, by_start in runs.items():
            run = facts[key]
            text += [f"### {name_of(run['key'])}", "",
                     f"{run['key']['hardware']}; {run['recorded']} points recorded; best: `{run['best']['parameters']}`, "
                     f"{run['best']['ratio']:.3f} of the time of `{run['key']['baseline']}`.", ""]
            for random_start, by_strategy in by_start.items():
                text += ["From points that seeds choose:" if random_start else "From the parameters that ratios are against:",
                         "",
                         "| strategy | " + " | ".join(f"{count}" for count in COUNTS) + " | asked | within 2 % after |",
                         "|---" * (len(COUNTS) + 3) + "|"]
                text += [rows_of(strategy, its) for strategy, its in by_strategy.items()] + [""]
    return "\n".join(text).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="attune, of a build")
    parser.add_argument("records", nargs="+", help="files of records, as complete as may be")
    parser.add_argument("--schedules", default=ROOT / "schedules", help="folder of <op>/space.json")
    parser.add_argument("--seeds", type=int, default=20, help="searches of each strategy")
    parser.add_argument("--budget", type=int, default=200, help="candidates of a search")
    parser.add_argument("--page", type=pathlib.Path, help="whose tables are replaced")
    arguments = parser.parse_args()
    text = tables(arguments.program, arguments.records, arguments.schedules, arguments.seeds, arguments.budget)
    if not arguments.page:
        print(text, end="")
        return
    page = arguments.page.read_text()
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        sys.exit(f"{arguments.page}: expected one line {BEGIN} and, after it, one {END}")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    arguments.page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")


if __name__ == "__main__":
    main()
