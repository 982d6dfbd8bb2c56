# SPDX-License-Identifier: MIT
"""Compares the loop nests of variants with the stored ones, or stores them.

usage: check_loop_nests.py nests PROGRAM GENERATOR LIST FOLDER [--accept]
         the variants of a list have the nests that are stored in the folder
       check_loop_nests.py files LISTS FOLDER [--accept]
         each variant of the lists <op>_<target>.txt has a nest in FOLDER/<op>, and there is nothing else
"""
import difflib
import pathlib
import re
import subprocess
import sys

import loop_nests


def names_of(variants):
    return [line.split()[0] for line in pathlib.Path(variants).read_text().splitlines() if line.strip()]


def some(names):
    """The first of the names, and how many there are."""
    return names[0] + (f" and {len(names) - 1} more" if names[1:] else "")


def stored_nests(folder):
    """{variant: nest} and {file: its variants}; a file that is none of ours has no variants."""
    nests, variants_of = {}, {}
    for file in sorted(folder.glob("*")):
        try:
            of_file = loop_nests.read(file.read_text())
        except (AttributeError, ValueError, IndexError):
            of_file = {}
        nests |= of_file
        variants_of[file] = list(of_file)
    return nests, variants_of


def store(folder, nests):
    folder.mkdir(parents=True, exist_ok=True)
    files = loop_nests.grouped(nests)
    for file in folder.glob("*"):
        if file.name not in files:
            file.unlink()
    for name, text in files.items():
        if not (folder / name).exists() or (folder / name).read_text() != text:
            (folder / name).write_text(text)


def printed_nests(program, generator, variants):
    text = subprocess.run([program, generator, variants], check=True, capture_output=True, text=True).stdout
    return {name: loop_nests.nest_of(nest) for name, nest in re.findall(r"^== (\S+)\n(.*?)(?=^== |\Z)", text, re.M | re.S)}


def difference(name, before, now):
    """Extents, where they alone have changed; else lines of the nests."""
    if before[0] == now[0]:
        loops = zip(loop_nests.loops_of(now[0]), before[1], now[1])
        return list(dict.fromkeys(f"  {loop}: {old} -> {new}" for loop, old, new in loops if old != new))
    before, now = [loop_nests.with_extents(nest).splitlines() for nest in (before, now)]
    return list(difflib.unified_diff(before, now, name, "now", lineterm="", n=2))


def check_nests(program, generator, variants, folder, accept):
    now = printed_nests(program, generator, variants)
    stored, _ = stored_nests(folder)
    if accept:
        store(folder, stored | now)
        return []
    missing = [name for name in now if name not in stored]
    wrong = [f"no loop nest in {folder} of {some(missing)}"] if missing else []
    for name in now:
        if name in stored and now[name] != stored[name]:
            wrong += [f"the loop nest of {name} has changed:", *difference(name, stored[name], now[name])]
    return wrong


def check_files(lists, folder, accept):
    listed = {op.name: [] for op in folder.iterdir() if op.is_dir() and op.name != "__pycache__"}
    for variants in lists.glob("*_*.txt"):
        op, _ = variants.stem.rsplit("_", 1)
        listed.setdefault(op, []).extend(names_of(variants))
    return [line for op, names in sorted(listed.items()) for line in check_files_of_op(folder / op, set(names), accept)]


def check_files_of_op(folder, listed, accept):
    stored, variants_of = stored_nests(folder)
    if accept:
        store(folder, {name: nest for name, nest in stored.items() if name in listed})
    missing = sorted(listed - stored.keys())
    wrong = [f"no loop nest in {folder} of {some(missing)}"] if missing else []
    if accept:
        return wrong
    files = loop_nests.grouped(stored)
    for file, variants in variants_of.items():
        gone = [name for name in variants if name not in listed]
        if not variants:
            wrong.append(f"{file} is no loop nest")
        elif gone:
            wrong.append(f"{file} is the loop nest of what is no variant: {some(gone)}")
        elif file.read_text() != files.get(file.name):
            wrong.append(f"{file} is not as it is written where it is accepted")
    return wrong


def main():
    arguments = [word for word in sys.argv[1:] if word != "--accept"]
    what, folder, accept = arguments[0], pathlib.Path(arguments[-1]), "--accept" in sys.argv
    if what == "nests":
        wrong = check_nests(*arguments[1:4], folder, accept)
    else:
        wrong = check_files(pathlib.Path(arguments[1]), folder, accept)
    if not wrong:
        return 0
    print("\n".join(wrong[:200]))
    print("To accept it: build the target accept_loop_nests, or, of these alone,", *sys.orig_argv, "--accept")
    return 1


sys.exit(main())
