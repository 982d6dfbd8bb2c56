#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compare_strategies.py over a recorded space that is made up here: check_comparison.py PROGRAM SOURCE_DIR."""
import itertools
import json
import math
import pathlib
import subprocess
import sys
import tempfile

program, source = sys.argv[1], pathlib.Path(sys.argv[2])
KEY = {"target": "zen4", "hardware": "made up", "algorithm": "", "halide": "21.0.0", "op": "masked_softmax", "dtype": "f32",
       "schedule": "rows", "class": "", "kind": "", "head_dim": 0, "threads": 2, "mask": "none", "group": "1",
       "log2_queries": 9, "log2_keys": 9, "shape": "512x512", "baseline": "block=16 task_rows=2", "cold": False}


def record(block, task_rows, prefetch_rows):
    ratio = 0.8 + 0.1 * abs(math.log2(task_rows / 16)) + 0.05 * abs(math.log2(block / 32)) + 0.02 * prefetch_rows
    parameters = {"block": block, "task_rows": task_rows, "prefetch_rows": prefetch_rows}
    return {"key": KEY, "parameters": parameters, "verdict": "timed", "reason": "",
            "ratios": [ratio], "seconds": 1e-3, "error_ratio": 0.5, "object": "", "foreign_load": 0.0, "when": ""}


with tempfile.TemporaryDirectory() as folder:
    records, page = pathlib.Path(folder, "records.jsonl"), pathlib.Path(folder, "page.md")
    points = itertools.product([16, 32, 64, 128], [2**n for n in range(1, 8)], [0, 1])
    records.write_text("".join(json.dumps(record(*point)) + "\n" for point in points))
    before = (source / "docs/tuning-strategies.md").read_text()
    page.write_text(before)
    command = [sys.executable, source / "tools/tune/compare_strategies.py", program, records, "--seeds", "3", "--page", page]
    for _ in range(2):  # the second time the tables are replaced by themselves
        subprocess.run(command, check=True)
        after = page.read_text()
        begin, end = after.index("<!-- tables"), after.index("<!-- end of tables -->")
        table = after[begin:end]
        assert after[:begin] == before[:before.index("<!-- tables")], "what stands before the tables has changed"
        assert table.count("### masked_softmax f32 rows at 512x512, zen4, 2 threads\n") == 1, table
        best = "56 points recorded; best: `block=32 prefetch_rows=0 task_rows=16`, 0.800 of the time of `block=16 task_rows=2`"
        assert best in table, table
        assert sum(line.startswith("| factored |") for line in table.splitlines()) == 2, table
        for line in table.splitlines():
            if line.startswith(("| factored", "| descent")):
                assert "0.0 / 0.0" in line and line.endswith(("(3 of 3) |", "(1 of 1) |")), line
    page.write_text("no markers\n")
    assert subprocess.run(command, capture_output=True).returncode == 1
print("comparison: tables as expected")
