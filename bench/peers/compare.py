#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""This library, PyTorch, onnxruntime and OpenVINO in one process, in turns, on the same inputs.

    python bench/peers/compare.py [--only REGEX] [--rounds N] [--out DIR] [--record MACHINE [--title WORDS]]

Packages that are not installed (requirements.txt) are named and left out. Prints a report in Markdown; with --out writes it to
DIR/peers.md, and every round to DIR/peers-rounds.json. --record replaces bench/results/MACHINE.json (results.py). The exit
status is 1 if a result of this library is wrong; nothing is recorded then.
"""

import argparse
import json
import os
import pathlib
import re
import sys

sys.dont_write_bytecode = True  # no __pycache__ in the source tree

from results import add_record_arguments, write

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=pathlib.Path, default=ROOT / "build/native/bench/libattune_peers.so")
    parser.add_argument("--only", type=re.compile, default="", metavar="REGEX", help="which cells, such as 'decode|causal'")
    parser.add_argument("--list", action="store_true", help="the names of the cells")
    parser.add_argument("--peers", metavar="NAMES", help="of torch,onnxruntime,openvino,llama_cpp; default: all")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="for the report and every round, such as build/bench")
    add_record_arguments(parser)
    args = parser.parse_args()
    if args.record and (args.only.pattern or args.peers):
        parser.error("--record takes a run of all cells and peers, without --only and --peers")
    return args


def main():
    args = parse()
    import cells_additive
    import cells_attention
    import cells_backward
    import cells_dense
    import cells_layers
    import cells_ragged
    import cells_serving
    import cells_users

    modules = (cells_dense, cells_backward, cells_ragged, cells_serving, cells_additive, cells_layers, cells_attention,
               cells_users)
    makers = {n: f for module in modules for n, f in module.cells()}
    makers = {n: f for n, f in makers.items() if re.search(args.only, n)}
    if args.list:
        print("\n".join(makers))
        return 0
    if not makers:
        sys.exit(f"compare: no cell matches {args.only.pattern} (see --list)")
    if args.rounds < 1:
        sys.exit("compare: --rounds: at least 1")

    # Before this library, so that the environment is set when they start their threads.
    from other_libraries import Peers

    peers = Peers(args.threads, args.peers.split(",") if args.peers else None)
    from attune_library import Attune
    from measure import measure
    from report import document, every_round, failures, lost, markdown
    from targets import targets

    for missing in peers.missing:
        print(f"missing: {missing}", file=sys.stderr)
    attune = Attune(args.library, args.threads)
    results, broken = {}, 0
    for number, (name, make) in enumerate(makers.items(), 1):
        print(f"[{number}/{len(makers)}] {name}", file=sys.stderr, flush=True)
        try:
            cell = make(attune, peers, name)
        except Exception as error:  # a peer that cannot even be built; the other cells go on
            broken += not isinstance(error, ImportError)  # that is a package which may be missing
            print(f"  not measured: {error}", file=sys.stderr)
            peers.missing.append(f"the cell {name}: {str(error).splitlines()[0][:160]}")
            continue
        results[name] = measure(cell, attune, args.rounds)
    if not results:
        return 1
    rows = targets(results)
    given = (attune.machine, peers.versions, peers.missing, args.rounds, args.threads)
    text = markdown(results, rows, *given)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "peers.md").write_text(text)
        (args.out / "peers-rounds.json").write_text(json.dumps(every_round(results)) + "\n")
        print(f"written: {args.out}/peers.md and peers-rounds.json")
        for row in lost(results):
            print("lost     {}: {} takes {:.2f} of our time".format(*row))
        for figure, value, target, held in rows:
            if held is not None:
                print(f"{'held' if held else 'NOT HELD':8} {figure}: {value}, target {target}")
    elif not args.record:
        print(text)
    wrong = [f for f in failures(results) if f[1] == "attune"]
    for cell, _, why in wrong:
        print(f"compare: {cell}: {why}", file=sys.stderr)
    if wrong or broken:
        return 1
    if args.record:
        print(f"recorded: {write(document(results, *given, args.record, args.title))}; now scripts/performance_page")
    return 0


if __name__ == "__main__":
    sys.exit(main())
