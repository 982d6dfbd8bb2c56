#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Results and the pages made of them: check_performance.py SOURCE_DIR.

Results are of the schema and small; docs/performance.md, its charts and the README's block are what scripts/performance_page
makes of them; cells that another library wins stand first in all of them; only a run of all cells is recorded.
"""
import copy
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
root = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(root / "bench/peers"))
import results

FILE_BYTES, ALL_BYTES = 100_000, 1_000_000
checks, failures = 0, []


def check(held, words):
    global checks
    checks += 1
    if not held:
        failures.append(words)


def run(*command):
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def page(*options):
    return run(root / "scripts/performance_page", *options)


def check_files():
    files = sorted((root / "bench/results").iterdir())
    check(files and all(f.suffix == ".json" for f in files), f"bench/results has more than JSON: {[f.name for f in files]}")
    check(sum(f.stat().st_size for f in files) <= ALL_BYTES, f"bench/results is larger than {ALL_BYTES} bytes")
    for file in files:
        check(file.stat().st_size < FILE_BYTES, f"{file.name} is not smaller than {FILE_BYTES} bytes")
        check(results.text_of(results.load(file)) == file.read_text(), f"{file.name} is not what results.py writes")


def check_pages():
    code, words = page("--check")
    check(code == 0, f"run scripts/performance_page and commit what it writes:\n{words}")
    block = (root / "README.md").read_text().split("<!-- performance: begin -->")[1].split("<!-- performance: end -->")[0]
    shown = re.findall(r"^\| [^|]* \| [\d.]+ \|", block, re.M)
    check(len(shown) == 10, f"the README shows {len(shown)} cells: cells that scripts/performance_page names are missing")


def check_losses(folder):
    """A run in which one cell is made to lose by far, another by a little, and one that no peer has won."""
    made = copy.deepcopy(results.load(root / "bench/results/zen5.json"))
    names = [name for name, cell in made["cells"].items() if len(results.competitors(cell)) > 1][:3]
    made["cells"] = {name: made["cells"][name] for name in names}
    for name, speed in zip(names, (0.96, 1.3, 0.5)):
        for number, peer in enumerate(p for p in made["cells"][name]["peers"].values() if "ratio" in p):
            peer["ratio"] = [speed + number, speed, speed + number]
    (folder / "README.md").write_text("before\n<!-- performance: begin -->\nold\n<!-- performance: end -->\nafter\n")
    (folder / "results").mkdir()
    results.write(made, folder / "results")
    options = "--results", folder / "results", "--root", folder
    check(page("--check", *options)[0] == 1, "pages that are missing pass the check")
    check(page(*options)[0] == 0 and page("--check", *options)[0] == 0, "pages that were just written fail the check")
    rows = lambda text: re.findall(r"^\| ([^|]*) \| ([\d.]+) \|", text, re.M)
    worst_first = [(names[2], "0.50"), (names[0], "0.96")]
    text = (folder / "docs/performance.md").read_text()
    check(rows(text)[:2] == worst_first, f"losses do not come first in performance.md: {rows(text)[:3]}")
    check(text.index("### Losses") < min(text.index(f"| {name} |") for name in names), "a cell stands before the losses")
    check("3 cells: 1 won or equal, 2 lost" in text, "performance.md does not count what is won and lost")
    readme = (folder / "README.md").read_text()
    check(rows(readme)[:2] == worst_first, f"losses do not come first in the README: {rows(readme)}")
    check(readme.startswith("before\n") and readme.endswith("after\n"), "the README around its block differs")
    check("old" not in readme, "the README's old block stays")
    chart = folder / "docs/pictures/performance-zen5.svg"
    red = re.findall(r'fill="#b23a48"><title>(.*?): ', chart.read_text())
    check(sorted(red) == sorted(name for name, _ in worst_first), f"not the losses have their colour: {red}")
    gone = chart.with_name("performance-old.svg")  # of a machine without results
    for path, text in ((chart, "<svg/>"), (folder / "docs/performance.md", "edited"), (gone, "")):
        path.write_text(text)
        code, words = page("--check", *options)
        check(code == 1 and path.name in words, f"{path.name} differs, and the check passes")
        page(*options)
    check(not gone.exists(), "the chart of a machine that is gone stays")
    (folder / "README.md").write_text("no block\n")
    check(page(*options)[0] == 1, "a README without its block passes")


def check_writer(folder):
    ours, peer = {0: 1e-3, 1: 2e-3, 2: 3e-3}, {0: 2e-3, 2: 3.3e-3}
    programs = {"attune": results.program_record(ours, ours, best=9e-4, error=0.5, of=3, subject=True),
                "peer": results.program_record(peer, ours, of=3),
                "wrong": results.program_record(peer, ours, error=float("nan"), of=3),
                "other": results.program_record({0: 1e-4}, ours, error=5.0, of=3),
                "bound": results.program_record(peer, ours, of=3)}
    check(programs["attune"] == {"ms": [2, 0.9, 1.2, 2.8], "error": 0.5}, f"times of ours: {programs['attune']}")
    check(programs["peer"] == {"ms": [2.65, 2], "ratio": [1.55, 1.19, 1.91], "rounds": 2}, f"of a peer: {programs['peer']}")
    check("failure" in programs["wrong"], "a result that is not a number is no failure")
    cell = results.cell_record(programs, ("bound",), variant="v", work=3.0, others=None)
    check(results.best_peer(cell) == ("peer", 1.55), f"the fastest is {results.best_peer(cell)}")
    check(results.behind(0.994) and not results.behind(0.996), "a loss is not what pages show as less than 1.00")
    head = dict(date="2026-01-01", command="c", rounds=3, threads=1, hardware={"cpu": "X"}, versions={}, missing=[], peaks={})
    path = results.write(results.document(machine="new", **head, cells={"b": cell, "a": cell}), folder)
    check(list(results.load(path)["cells"]) == ["a", "b"] and results.load(path)["title"] == "X", "cells are not in order")
    text = path.read_text()
    for broken, words in ((path.with_name("else.json"), text), (path, text.replace('"work"', '"wrong"'))):
        broken.write_text(words)
        try:
            results.load(broken)
            check(False, f"{broken.name} is read although it is not of the schema")
        except ValueError:
            check(True, "")
    for options in (("--record", "zen5", "--only", "decode"), ("--record", "zen5", "--peers", "torch"), ("--record", "Zen 5")):
        check(run(root / "bench/peers/compare.py", *options)[0] == 2, f"compare.py {' '.join(options)} is not refused")


check_files()
check_pages()
for part in (check_losses, check_writer):
    with tempfile.TemporaryDirectory() as made:
        part(pathlib.Path(made))
print("\n".join(failures))
print(f"{checks} checks, {len(failures)} failed")
sys.exit(1 if failures else 0)
