# SPDX-License-Identifier: MIT
"""The check of the loop nests that pages show, tried: each difference is named, and --accept mends those of lines alone."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = """variants
op_f32_a
op_f32_b

extents
k.r    4   16

nest
produce out:
 parallel i.task:
  produce x:
   x = ...
  for k.r: out = ...
"""
BLOCK = "```nest op/op_f32_a.txt op_f32_b {}\n{}```\n"
LONG = """# a line of its own
produce out:
 parallel i.task:  # tasks
  produce x:
   x = ...
  for k.r < 16: out = ...  # k
"""
SHORT = "produce out:\n...\n  for k.r < 16: out = ...\n"


def check(root, *options):
    done = subprocess.run([sys.executable, HERE / "check_nests.py", root, *options], capture_output=True, text=True)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def expect(root, *words):
    code, text = check(root)
    assert code == 1 and all(word in text for word in words), text


with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    golden, page = root / "tests/golden/op/op_f32_a.txt", root / "docs" / "page.md"
    golden.parent.mkdir(parents=True), page.parent.mkdir()
    shutil.copy(HERE.parent / "golden/loop_nests.py", root / "tests/golden")
    for name in ("README.md", "CONTRIBUTING.md"):
        (root / name).write_text("# A page\n")
    blocks = {"1-5": LONG, "1-1,5-5": SHORT, "2-2": " parallel i.task:\n"}
    text = "# Nests\n\n" + "".join(BLOCK.format(*block) for block in blocks.items())
    page.write_text(text), golden.write_text(GOLDEN)
    assert check(root) == (0, "3 loop nests are shown\n"), check(root)
    page.write_text(text.replace("```nest", "```text", 1))
    expect(root, "2 loop nests are shown")

    # Other names: --accept keeps the annotations, and breaks long lines behind a comma.
    page.write_text(text)
    golden.write_text(GOLDEN.replace("i.task", "j.task").replace("for k.r: out", f"for k.r, for {'m' * 110}: out"))
    expect(root, "shown:         parallel i.task:", "tests/golden:  parallel j.task:")
    assert check(root, "--accept")[0] == 0 and check(root)[0] == 0
    assert "# a line of its own\nproduce out:\n parallel j.task:" in page.read_text() and "  # tasks\n" in page.read_text()
    assert f"  for k.r < 16,\n      for {'m' * 110}: out = ...  # k\n" in page.read_text(), page.read_text()

    # Mistakes that --accept cannot mend.
    page.write_text(text), golden.write_text(GOLDEN.replace("  produce x:\n   x = ...\n", ""))
    expect(root, "a nest of 3 lines has no lines 1-5")
    assert check(root, "--accept")[0] == 1
    golden.write_text(GOLDEN)
    page.write_text(text.replace("   x = ...\n", ""))
    expect(root, "4 lines are shown, lines 1-5 of tests/golden/op/op_f32_a.txt are 5")
    page.write_text(text.replace("op_f32_b", "op_f32_c"))
    expect(root, "tests/golden/op/op_f32_a.txt has no variant op_f32_c")
    golden.unlink()
    expect(root, "there is no tests/golden/op/op_f32_a.txt")
