#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs that a page of the documents runs are built by the commands before: check_commands.py SOURCE_DIR.

A default build makes the library and the program `attune`. Benchmarks, tests and examples are built by name; run without that,
they are those of an earlier build, with other parameters.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
GROUPS = {"tests": "attune_all_tests", "examples": "attune_examples"}
PROGRAM = r"(?<![\w/.-])build/(?:native|portable|asan|cuda)/(\w+)(?:/\w+)*/(\w+)(?=\s|$)"
run, failures = 0, []
for page in [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]:
    built = set()
    for block in re.findall(r"```(?:sh|bash)\n(.*?)```", page.read_text(), re.S):
        for line in block.replace("\\\n", " ").splitlines():
            line = line.split(" #")[0]
            for folder, program in re.findall(PROGRAM, line):
                run += 1
                if folder != "tools" and not {program, GROUPS.get(folder)} & built:
                    failures.append(f"{page.relative_to(root)}: {program} is run, and no command before builds it: "
                                    f"{line.strip()}")
            if targets := re.search(r"cmake --build .*--target ([\w\s]+)", line):
                built.update(targets[1].split())
print("\n".join(failures))
print(f"{run} programs are run, {len(failures)} that may be of an earlier build")
sys.exit(1 if failures or run < 3 else 0)
