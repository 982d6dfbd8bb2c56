# SPDX-License-Identifier: MIT
"""The checks of loop nests, tried: a missing, stale, extra or changed nest fails in one line, and accepting mends it."""
import pathlib
import subprocess
import sys
import tempfile

import loop_nests

HERE = pathlib.Path(__file__).resolve().parent
NEST = """produce out:
  parallel i.task:
    produce x_0:
      unrolled vector in [0, 1]:
        vectorized bit0 in [0, 1]:
          x_0(...) = ...
    consume x_0:
      produce x:
        unrolled x_bits in [0, 1]:
          vectorized x_bits in [0, 1]:
            x(...) = ...
      consume x:
        for k.r7 in [0, {last}]:
          vectorized v in [0, 7]:
            out(...) = ...
"""
STORED = """variants
op_f32_a_long
op_f32_b_long

extents
k.r    4   16
v      8

nest
produce out:
 parallel i.task:
  transpose 2x2 x in 2 passes
  for k.r, vectorized v: out = ...
"""


GPU = """produce out:
  gpu_block b<Default_GPU>:
    gpu_thread warp in [0, 3]<Default_GPU>:
      out(...) = ...
"""


def check(folder, what, *arguments):
    result = subprocess.run([sys.executable, HERE / "check_loop_nests.py", what, *arguments], cwd=folder, capture_output=True,
                            text=True)
    assert not result.stderr, result.stderr
    return result.returncode, result.stdout.splitlines()


def expect(result, *lines):
    assert result[0] == 1 and len(result[1]) == len(lines) + 1, result  # the last says how to accept it
    for line, expected in zip(result[1], lines):
        assert line == expected, (line, expected)


def main():
    assert loop_nests.nest_of(GPU) == ("produce out:\n gpu_block b, gpu_thread warp: out = ...\n", ("-", "4"))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        lists, golden, stored = folder / "lists", folder / "golden", folder / "golden/op/op_f32_a_long.txt"
        lists.mkdir(), (golden / "op").mkdir(parents=True)
        printer = folder / "print"  # of a list as print_loop_nests.cpp prints it: <name> <last k>
        printer.write_text(f"#!{sys.executable}\nimport sys\nfor line in open(sys.argv[2]):\n  name, last = line.split()\n"
                           f"  print('== ' + name + '\\n' + {NEST!r}.format(last=last))\n")
        printer.chmod(0o755)
        (lists / "op_a.txt").write_text("op_f32_a_long 3\n")
        (lists / "op_b.txt").write_text("op_f32_b_long 15\n")
        nests = {target: ("nests", printer, "op", lists / f"op_{target}.txt", "golden/op") for target in "ab"}
        files = "files", "lists", "golden"

        expect(check(folder, *files), "no loop nest in golden/op of op_f32_a_long and 1 more")
        expect(check(folder, *nests["b"]), "no loop nest in golden/op of op_f32_b_long")
        for command in (*nests.values(), files):
            assert check(folder, *command, "--accept") == (0, [])
        assert stored.read_text() == STORED, stored.read_text()
        for command in (*nests.values(), files):
            assert check(folder, *command) == (0, [])

        (golden / "op/notes.txt").write_text("?\n")
        expect(check(folder, *files), "golden/op/notes.txt is no loop nest")
        check(folder, *files, "--accept")
        (lists / "op_b.txt").write_text("op_f32_b_long 31\n")
        expect(check(folder, *nests["b"]), "the loop nest of op_f32_b_long has changed:", "  k.r: 16 -> 32")
        text = printer.read_text()
        printer.write_text(text.replace("vectorized v", "unrolled v"))
        expect(check(folder, *nests["b"]), "the loop nest of op_f32_b_long has changed:", "--- op_f32_b_long", "+++ now",
               "@@ -2,3 +2,3 @@", "  parallel i.task:", "   transpose 2x2 x in 2 passes",
               "-  for k.r < 16, vectorized v < 8: out = ...", "+  for k.r < 32, unrolled v < 8: out = ...")
        printer.write_text(text)
        check(folder, *nests["b"], "--accept")
        assert stored.read_text() == STORED.replace("   16\n", "   32\n"), stored.read_text()
        stored.write_text(stored.read_text().replace("v      8", "v      8    8"))
        expect(check(folder, *files), "golden/op/op_f32_a_long.txt is not as it is written where it is accepted")
        (lists / "op_b.txt").unlink()
        expect(check(folder, *files), "golden/op/op_f32_a_long.txt is the loop nest of what is no variant: op_f32_b_long")
        assert check(folder, *files, "--accept") == (0, [])
        assert "op_f32_b_long" not in stored.read_text()


main()
