#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mutants of the library's checks and dispatch, or of its kernels: a fault is planted in a copy, which the tests must find.

Mutation testing (DeMillo et al., 1978): a mutant that no test kills shows a check that nothing holds, or code that makes no
difference. The tree is not touched. A changed copy of the runtime is compiled by the command of the build, and linked before
the library. With --kernels a changed copy of a generator is compiled into the program that makes kernels, which makes a few
again (KERNELS), and these are linked before the library. A mutant that leaves the object as it is, or these kernels' objects,
is no mutant.

usage: mutants.py BUILD [--kernels] [--count N] [--seed S] [--only TEXT] [--list]
"""
import argparse
import json
import os
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
COMPARISONS = [
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
# Operators of equations of kernels.
ARITHMETIC = [
    ("+ becomes -", r" \+ ", " - "),
    ("- becomes +", r" - ", " + "),
    ("a factor is dropped", r" \* (?:\w+|\w+\([\w, ]*\))(?=[;,)])", ""),
    ("min becomes max", r"(?<!std::)\bmin\(", "max("),
    ("max becomes min", r"(?<!std::)\bmax\(", "min("),
]
# Runs of tests: program, arguments, beginnings of the sources that they are for (none: all). The quickest come first, and the
# first that fails kills the mutant. Tests of one folder run for the mutants of that folder alone.
TESTS = [
    ("tests/attune_tests", ["large tensors: any view of any function*", "--abort"], ()),
    ("tests/context_parallel/attune_context_parallel_tests", ["--abort"], ("context_parallel/",)),
    ("tests/attune_tests", ["[bad_input]", "--abort"], ()),
    ("tests/attune_tests", ["[packed],[paged],[quantised],[rows],[append],[kv_cache],[varlen]~[per_variant]", "--abort"], ()),
    ("tests/attune_tests", ["[semantics]~[magnitudes]~[bad_input]", "--abort"], ()),
    ("tests/attune_tests", ["[runtime]~[per_variant]~[semantics]~[bad_input]", "--abort"], ()),
    ("tests/fuzz/attune_fuzz", ["--cases", "3000", "--seed", "1"], ()),
]
TESTS_OF_KERNELS = [
    ("tests/attune_tests", ["[per_variant][sdpa]", "--abort"], ("attention/forward/", "attention/equations/", "math/")),
    ("tests/attune_tests", ["[per_variant][sdpa_backward]", "--abort"],
     ("attention/backward/", "attention/equations/", "math/")),
    ("tests/attune_tests", ["[per_variant][linear],[per_variant][linear_backward]", "--abort"], ("linear/",)),
    ("tests/attune_tests", ["[per_variant][masked_softmax],[per_variant][masked_softmax_backward]", "--abort"],
     ("masked_softmax",)),
    ("tests/attune_tests", ["[per_variant][merge]", "--abort"], ("merge/",)),
    ("tests/attune_tests", ["[per_variant][rows],[per_variant][append]", "--abort"], ("rows/",)),
    ("tests/attune_tests", ["[semantics]~[per_variant]", "--abort"], ()),
    ("tests/fuzz/attune_fuzz", ["--cases", "3000", "--seed", "1"], ()),
]
# Code that changes no result, only time: which of two right variants runs, and how.
LEFT_OUT = ("dispatch/cost", "attention/attention_cost", "layers/product_cost", "dispatch/cpu_features", "c_api/",
            "user_attention/")
# Code for tensors on a device, by the file or the function: its tests need another runtime (tests/cuda).
DEVICE_FILE = re.compile(r"\bdevice/|_device\.\w+$")
DEVICE_FUNCTION = re.compile(r"\w[^;]* \w*on_device\([^;]*$")
NAME = re.compile(r'\b(?:Func|RDom|RVar|Var)\([^()]*"$')
# Sources of kernels: beginning of the name; kernels, as patterns, that are made again. Forms that this machine may not run
# (AMX, GPUs) have none.
FORWARD = [r"sdpa_f32_dany_\w+_root_training", r"sdpa_f32_dany_(?!avx2|generic)\w+_prefill_short_training",
           r"sdpa_f32_dany_(?!avx2|generic)\w+_decode_rows4_training"]
BACKWARD = [r"sdpa_backward_f32_dany_\w+_root_training", r"sdpa_backward_f32_dany_(?!avx2|generic)\w+_blocked_training"]
KERNELS = [
    ("attention/forward/blocked_stages", FORWARD),
    ("attention/forward/builder", FORWARD),
    ("attention/forward/weights_stages", [r"sdpa_f32_dany_\w+_(root|rows)_weights"]),
    ("attention/forward/bf16_dot_stages", [r"sdpa_bf16_d64_\w+_bf16_dot_long_scored"]),
    ("attention/equations/blocked_softmax", FORWARD),
    ("attention/equations/masked", FORWARD),
    ("attention/equations/intervals", FORWARD + BACKWARD),
    ("attention/equations/score", FORWARD + BACKWARD),
    ("attention/equations/softmax_gradient", BACKWARD),
    ("attention/backward/blocked_stages", BACKWARD),
    ("attention/backward/builder", BACKWARD),
    ("attention/backward/row_stages", [r"backward_rows_f32_\w+"]),
    ("attention/backward/scores", BACKWARD),
    ("attention/backward/terms", BACKWARD),
    ("linear/linear_parts", [r"linear_f32_generic_root", r"linear_f32_\w+_panels_(rows4|many_rows)"]),
    ("linear/panel_stages", [r"linear_f32_\w+_panels_(rows4|many_rows)"]),
    ("linear/row_stages", [r"linear_f32_generic_root", r"linear_f32_\w+_panels_rows[14]"]),
    ("masked_softmax/masked_softmax_stages", [r"masked_softmax_f32_\w+_(root|rows)"]),
    ("masked_softmax_backward/", [r"masked_softmax_backward_f32_\w+"]),
    ("math/exp2", FORWARD + BACKWARD),
    ("math/philox", FORWARD),
    ("math/tanh", FORWARD + BACKWARD),
    ("merge/", [r"merge_f32_\w+"]),
    ("rows/transform_rows_stages", [r"transform_rows_f32_\w+"]),
    ("rows/row_stages", [r"(quantise|dequantise)_rows_f32_\w+"]),
]
SECONDS = 240  # of CPU time of one run of tests, ten times what they take; a mutant that takes longer is killed


def places(sources, operators):
    """All mutants: file, line number, operator, changed line."""
    for path, name in sources:
        of_device = False
        for number, line in enumerate(path.read_text().splitlines()):
            of_device = bool(DEVICE_FUNCTION.match(line)) or of_device and line != "}"
            if of_device:
                continue
            code = line.split("//")[0]
            if not code.strip() or code.lstrip().startswith(("#", "template", "using", "static_assert")):
                continue
            for operator, pattern, replacement in operators:
                for match in re.finditer(pattern, code):
                    if code[: match.start()].count('"') % 2 or NAME.search(code[: match.start()]):
                        continue  # within a text, or the end of a name in Halide's code
                    changed = line[: match.start()] + replacement + line[match.end():]
                    yield path, name, number, operator, changed


def limited():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def tried(words, folder):
    """Whether a command succeeds."""
    return subprocess.run(words, cwd=folder, shell=isinstance(words, str), capture_output=True,
                          preexec_fn=limited).returncode == 0


class Build:
    """Commands of a build folder."""

    def __init__(self, folder):
        self.folder = folder
        self.units = {}  # object: command as words, and text of its unit of sources
        for entry in json.loads(self.ninja("-t", "compdb")):
            if "/Unity/" in entry["file"] and entry["output"].endswith(".o"):
                self.units[entry["output"]] = (entry["command"].split(), pathlib.Path(entry["file"]))
        self.links = {}

    def ninja(self, *words):
        return subprocess.run(["ninja", "-C", self.folder, *words], capture_output=True, text=True, check=True).stdout

    def command(self, target, part):
        """The last command of a target that has a part."""
        if (target, part) not in self.links:
            commands = self.ninja("-t", "commands", target).splitlines()
            self.links[target, part] = next(c for c in reversed(commands) if part in c)
        return self.links[target, part]

    def link(self, program, objects, work):
        """Links a program of the tests with objects before the library."""
        to = work / pathlib.Path(program).name
        command = self.command(program, f" -o {program} ").split("&&")[1].strip()
        before = " ".join(map(str, objects))
        subprocess.run(command.replace(f"-o {program}", f"-o {to} {before}"), shell=True, cwd=self.folder, check=True,
                       capture_output=True)
        return to

    def compiled(self, unit, to, replaced, include=None):
        """Compiles a unit of sources, of which `replaced` maps paths to copies; False where it is no C++."""
        command, file = self.units[unit]
        text = file.read_text()
        for path, copy in replaced.items():
            text = text.replace(f'"{path}"', f'"{copy}"')
        mutated = to.with_suffix(".cxx")
        mutated.write_text(text)
        words = list(command)
        for option in ("-MT", "-MF"):
            if option in words:
                del words[words.index(option):words.index(option) + 2]
        words = [w for w in words if w not in ("-MD", "-O3")] + ["-O1"]
        words[words.index("-o") + 1] = str(to)
        words[words.index(str(file))] = str(mutated)
        if include:
            words.insert(1, f"-I{include}")
        return tried(words, self.folder)


class Runtime:
    """Mutants of the runtime."""
    tests = TESTS

    def __init__(self, build, root):
        self.build = build
        self.unit_of = {}
        for unit, (_, file) in build.units.items():
            if "/attune.dir/" in str(file):
                for source in re.findall(r'#include "(.*)"', file.read_text()):
                    self.unit_of[source] = unit
        self.where = "runtime/src"
        sources = [(pathlib.Path(s), s.split("/runtime/src/")[-1]) for s in sorted(self.unit_of) if "/runtime/src/" in s]
        tested = [s for s in sources if not s[1].startswith(LEFT_OUT) and not DEVICE_FILE.search(s[1])]
        self.places = list(places(tested, COMPARISONS))

    def make(self, mutant, work):
        path, _, number, _, changed = mutant
        copy = work / path.name
        copy.write_text(with_line(path, number, changed))
        made = work / "unit.o"
        return [made] if self.build.compiled(self.unit_of[str(path)], made, {path: copy}) else None

    def changes(self, mutant, objects, work):
        """Whether the object differs from that of the source as it is, which is compiled for survivors alone."""
        same = work / "source" / "unit.o"  # of the same name, which objects hold
        same.parent.mkdir()
        assert self.build.compiled(self.unit_of[str(mutant[0])], same, {})
        return same.read_bytes() != objects[0].read_bytes()


class Generators:
    """Mutants of kernels."""
    tests = TESTS_OF_KERNELS

    def __init__(self, build, root):
        self.build, self.root, self.where = build, root, "generators"
        self.objects = [p.stem for p in sorted((build.folder / "kernels").glob("*.o"))]
        self.patterns = {}  # of kernels, by the name of the source
        sources = []
        for path in sorted((root / "generators").rglob("*")):
            name = str(path.relative_to(root / "generators"))
            patterns = [p for start, some in KERNELS if name.startswith(start) for p in some]
            if path.suffix in (".h", ".cpp") and patterns and "simt" not in name:
                self.patterns[name] = patterns
                sources.append((path, name))
        self.places = list(places(sources, COMPARISONS + ARITHMETIC))
        self.reads = {}  # object: sources

    def readers(self, path, objects):
        """Objects, of those given, whose units read a source."""
        for unit in objects:
            if unit not in self.reads:
                self.reads[unit] = set(re.findall(r"^    (\S+)$", self.build.ninja("-t", "deps", unit), re.M))
        return [unit for unit in objects if str(path) in self.reads[unit]]

    def make(self, mutant, work):
        path, name, number, _, changed = mutant
        copy = work / "include" / "generators" / name  # found before the tree's own
        copy.parent.mkdir(parents=True)
        copy.write_text(with_line(path, number, changed))
        kernels = [k for k in self.objects if any(re.fullmatch(p, k) for p in self.patterns[name])]
        programs, made = {}, []
        for kernel in kernels:
            command = self.build.command(f"kernels/{kernel}.o", f" -n {kernel} ")
            program = re.search(r"(\S+)/(\S+\.generator) ", command).group(2)
            if program not in programs:
                programs[program] = self.program(program, path, copy, work)
            if not programs[program]:
                return None
            command = command.replace(f"{self.build.folder}/{program} ", f"{programs[program]} ")
            command = command.replace(f"-o {self.build.folder}/kernels ", f"-o {work} ")
            if not tried(command, self.build.folder):
                return None  # Halide refuses it
            new, old = work / f"{kernel}.o", self.build.folder / "kernels" / f"{kernel}.o"
            if new.read_bytes() != old.read_bytes():
                made.append(new)
        return made or None

    def changes(self, mutant, objects, work):
        """Whether an object differs: make() gives no other."""
        return True

    def program(self, program, path, copy, work):
        """The program that makes kernels, with the copy; None where it is no C++."""
        link = self.build.command(program, f" -o {program} ").split("&&")[1].strip()
        units = [w for w in link.split() if w in self.build.units]
        for n, unit in enumerate(self.readers(path, units)):
            to = work / f"{program}.{n}.o"
            if not to.exists() and not self.build.compiled(unit, to, {path: copy}, work / "include"):
                return None
            link = link.replace(f" {unit} ", f" {to} ")
        subprocess.run(link.replace(f"-o {program} ", f"-o {work / program} "), shell=True, cwd=self.build.folder, check=True,
                       capture_output=True)
        return work / program


def with_line(path, number, changed):
    lines = path.read_text().splitlines()
    lines[number] = changed
    return "\n".join(lines) + "\n"


def killed_by(build, tests, name, objects, work):
    """The tests of a source, or without a name all tests, that fail, or None."""
    programs = {}
    environment = {**os.environ, "ATTUNE_TEST_OWN_TARGET": "1"}
    for program, arguments, of in tests:
        if of and name and not name.startswith(of):
            continue
        if program not in programs:
            programs[program] = build.link(program, objects, work)
        done = subprocess.run([programs[program], *arguments], capture_output=True, text=True, errors="replace",
                              preexec_fn=limited,
                              env=environment if tests is TESTS_OF_KERNELS else None)
        label = f"{programs[program].name} {arguments[0]}"
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return f"{label}: no end within {SECONDS} seconds of CPU time"
        if done.returncode:
            failed = re.findall(r"^-{10,}\n(.+)\n", done.stdout, re.M)
            return f"{label}: {failed[0] if failed else f'exit {done.returncode}'}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--kernels", action="store_true", help="mutants of generators/, not of runtime/src")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="part of a file's name, or of name:line")
    parser.add_argument("--list", action="store_true", help="print all mutants, and make none")
    options = parser.parse_args()
    build = Build(options.build.resolve())
    kind = (Generators if options.kernels else Runtime)(build, pathlib.Path(__file__).resolve().parents[2])
    mutants = [m for m in kind.places if options.only in f"{m[1]}:{m[2] + 1}"]
    if options.list:
        for _, name, number, operator, changed in mutants:
            print(f"{name}:{number + 1}: {operator}: {changed.strip()}")
        print(len(mutants), "mutants")
        return 0
    with tempfile.TemporaryDirectory() as work:
        failed = killed_by(build, kind.tests, None, [], pathlib.Path(work))
    if failed:
        print(f"tests fail without a mutant: {failed}", file=sys.stderr)
        return 1
    random.Random(options.seed).shuffle(mutants)
    killed = invalid = 0
    survivors = []
    for mutant in mutants:
        if killed + len(survivors) == options.count:
            break
        _, name, number, operator, changed = mutant
        where = f"{kind.where}/{name}:{number + 1}: {operator}: {changed.strip()}"
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as work:
            objects = kind.make(mutant, pathlib.Path(work))
            if not objects:
                invalid += 1
                continue
            killer = killed_by(build, kind.tests, name, objects, pathlib.Path(work))
            if not killer and not kind.changes(mutant, objects, pathlib.Path(work)):
                invalid += 1
                continue
        if killer:
            killed += 1
        else:
            survivors.append(where)
        print(f"{'killed' if killer else 'SURVIVED'} {where}  ({killer}, {time.monotonic() - start:.0f} s)", flush=True)
    print(f"seed {options.seed}: {killed} of {killed + len(survivors)} mutants killed, {invalid} were no C++ or changed no "
          "object; survivors:")
    for where in survivors:
        print("  " + where)
    return 0


if __name__ == "__main__":
    sys.exit(main())
