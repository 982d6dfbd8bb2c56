#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mutants of the library's checks and dispatch: a fault is planted in a copy of a source, and the tests must fail.

Mutation testing (DeMillo et al., 1978): a mutant that no test kills shows a check that nothing holds, or code that makes no
difference. The tree is not touched: the changed copy is compiled by the command of the build, and linked before the library.

usage: mutants.py BUILD [--count N] [--seed S] [--only TEXT] [--list]
"""
import argparse
import json
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

# Operators: name, pattern in a line of code, replacement. Operators of C++ stand between spaces, brackets of templates do not.
OPERATORS = [
    ("< becomes <=", r" < ", " <= "),
    ("<= becomes <", r" <= ", " < "),
    ("> becomes >=", r" > ", " >= "),
    (">= becomes >", r" >= ", " > "),
    ("== becomes !=", r" == ", " != "),
    ("!= becomes ==", r" != ", " == "),
    ("&& becomes ||", r" && ", " || "),
    ("|| becomes &&", r" \|\| ", " && "),
    ("a negation is dropped", r"\bif \(!", "if ("),
    ("the last term of a sum is dropped", r" \+ (?:\w+|\d+)(?=[;,)])", ""),
    ("+ 1 becomes + 2", r" \+ 1\b", " + 2"),
    ("- 1 is dropped", r" - 1\b", ""),
    ("min becomes max", r"\bstd::min\b", "std::max"),
    ("max becomes min", r"\bstd::max\b", "std::min"),
]
# Tests in the order of their time: the first that fails kills the mutant.
TESTS = [["[bad_input]"], ["[semantics]~[magnitudes]~[bad_input]"], ["[runtime]~[per_variant]~[semantics]~[bad_input]"],
         ["[packed],[paged],[quantised],[rows],[append],[kv_cache],[varlen]~[per_variant]"]]
# Code that changes no result, only time: which of two right variants runs, and how.
LEFT_OUT = ("device/", "dispatch/cost", "attention/attention_cost", "layers/product_cost", "dispatch/cpu_features", "c_api/",
            "user_attention/")
SECONDS = 240  # of CPU time of one run of tests, ten times what they take; a mutant that takes longer is killed


def places(sources):
    """All mutants: file, line number, operator, changed line."""
    for path, name in sources:
        for number, line in enumerate(path.read_text().splitlines()):
            code = line.split("//")[0]
            if not code.strip() or code.lstrip().startswith(("#", "template", "using", "static_assert")):
                continue
            for operator, pattern, replacement in OPERATORS:
                for match in re.finditer(pattern, code):
                    if code[: match.start()].count('"') % 2:
                        continue  # within a text
                    changed = line[: match.start()] + replacement + line[match.end():]
                    yield path, name, number, operator, changed


class Build:
    """Commands of a build folder."""

    def __init__(self, folder):
        self.folder = folder
        entries = json.loads(subprocess.run(["ninja", "-C", folder, "-t", "compdb"], capture_output=True, text=True,
                                            check=True).stdout)
        self.units = {}  # source: (unit, command)
        for entry in entries:
            if "/attune.dir/Unity/" not in entry["file"]:
                continue
            text = pathlib.Path(entry["file"]).read_text()
            for source in re.findall(r'#include "(.*)"', text):
                self.units[source] = (entry["file"], entry["command"], text)
        commands = subprocess.run(["ninja", "-C", folder, "-t", "commands", "attune_tests"], capture_output=True, text=True,
                                  check=True).stdout.splitlines()
        link = next(c for c in reversed(commands) if " -o tests/attune_tests " in c)
        self.link = link.split("&&")[1].strip()

    def sources(self):
        for source in sorted(self.units):
            name = source.split("/runtime/src/")[-1]
            if "/runtime/src/" in source and not name.startswith(LEFT_OUT):
                yield pathlib.Path(source), name

    def make(self, mutant, work):
        """Compiles and links a mutant; the tests' program, or None where it is no C++."""
        path, name, number, _, changed = mutant
        lines = path.read_text().splitlines()
        lines[number] = changed
        copy = work / path.name
        copy.write_text("\n".join(lines) + "\n")
        unit_file, command, text = self.units[str(path)]
        unit = work / "unit.cxx"
        unit.write_text(text.replace(f'"{path}"', f'"{copy}"'))
        words = command.split()
        for option in ("-MT", "-MF"):
            if option in words:
                del words[words.index(option):words.index(option) + 2]
        words = [w for w in words if w not in ("-MD", "-O3")] + ["-O1"]
        words[words.index("-o") + 1] = str(work / "unit.o")
        words[words.index(unit_file)] = str(unit)
        if subprocess.run(words, cwd=self.folder, capture_output=True).returncode:
            return None
        program = work / "mutant_tests"
        link = self.link.replace("-o tests/attune_tests", f"-o {program} {work / 'unit.o'}")
        subprocess.run(link, shell=True, cwd=self.folder, check=True, capture_output=True)
        return program


def killed_by(program):
    """The tests that fail, or None."""
    for tests in TESTS:
        done = subprocess.run([program, *tests, "--abort"], capture_output=True, text=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS)))
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return f"{tests[0]}: no end within {SECONDS} seconds of CPU time"
        if done.returncode:
            failed = re.findall(r"^-{10,}\n(.+)\n", done.stdout, re.M)
            return f"{tests[0]}: {failed[0] if failed else f'exit {done.returncode}'}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="part of a file's name")
    parser.add_argument("--list", action="store_true", help="print all mutants, and make none")
    options = parser.parse_args()
    build = Build(options.build.resolve())
    mutants = [m for m in places(build.sources()) if options.only in m[1]]
    if options.list:
        for _, name, number, operator, changed in mutants:
            print(f"{name}:{number + 1}: {operator}: {changed.strip()}")
        print(len(mutants), "mutants")
        return 0
    random.Random(options.seed).shuffle(mutants)
    killed = invalid = 0
    survivors = []
    for mutant in mutants:
        if killed + len(survivors) == options.count:
            break
        _, name, number, operator, changed = mutant
        where = f"runtime/src/{name}:{number + 1}: {operator}: {changed.strip()}"
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as work:
            program = build.make(mutant, pathlib.Path(work))
            if program is None:
                invalid += 1
                continue
            killer = killed_by(program)
        if killer:
            killed += 1
        else:
            survivors.append(where)
        print(f"{'killed' if killer else 'SURVIVED'} {where}  ({killer}, {time.monotonic() - start:.0f} s)", flush=True)
    print(f"seed {options.seed}: {killed} of {killed + len(survivors)} mutants killed, {invalid} were no C++; survivors:")
    for where in survivors:
        print("  " + where)
    return 0


if __name__ == "__main__":
    sys.exit(main())
