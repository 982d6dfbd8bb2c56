"""Compares the loop nests that a generator prints with a golden file.

usage: check_loop_nests.py PROGRAM GENERATOR LIST GOLDEN [--update]
"""
import difflib
import pathlib
import re
import subprocess
import sys


def loop_nests(program, generator, variants):
    text = subprocess.run([program, generator, variants], check=True, capture_output=True, text=True).stdout
    text = re.sub(r"\.([vr])\d+", r".\1", text)  # numbers that count up over a process
    return re.sub(r"^( +)", lambda m: " " * (len(m[1]) // 2), text, flags=re.M)


def main():
    program, generator, variants, golden = sys.argv[1:5]
    golden = pathlib.Path(golden)
    now = loop_nests(program, generator, variants)
    if "--update" in sys.argv:
        golden.write_text(now)
        return 0
    before = golden.read_text() if golden.exists() else ""
    if now == before:
        print(f"{now.count('== ')} loop nests agree with {golden.name}")
        return 0
    diff = list(difflib.unified_diff(before.splitlines(), now.splitlines(), golden.name, "now", lineterm="", n=6))
    print("\n".join(diff[:200]))
    print(f"{len(diff)} lines of difference. If they are meant: {' '.join(sys.argv)} --update")
    return 1


sys.exit(main())
