# SPDX-License-Identifier: MIT
"""The checks of the tree, tried: on a small tree that is as it should be none says anything, and each names the place of its
mistake."""
import pathlib
import sys
import tempfile

from check_tree import CHECKS
from tree import Tree

SPDX = "SPDX-License-Identifier: MIT"
RIGHT = {
    ".clang-format": "BasedOnStyle: LLVM\nColumnLimit: 128\n",
    "CMakeLists.txt": f"# {SPDX}\nproject(some VERSION 1.2.3)\n",
    "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.3\n",
    "runtime/a.h": f"// {SPDX}\n// Says more: docs/page.md, and not <folder>/docs/other.md.\nint f(int x);\n",
    "tests/CMakeLists.txt": f"# {SPDX}\nadd_test(NAME t.one COMMAND a)\nadd_test(NAME some.${{x}} COMMAND a)\n",
    "tests/a.cpp": f"// {SPDX}\nTEST_CASE(\"case: right\", \"[a]\") {{}}\n",
    "tests/test_a.py": f"# {SPDX}\ndef test_x():\n    pass\n",
    "runtime/version.h.in": f"// {SPDX}\n",
    "lowering/a.ll": f"; {SPDX}\ndefine {'x' * 130}\n",
    "scripts/do": f"#!/usr/bin/env bash\n# {SPDX}\n[ \"$1\" = --all ] || exec python bench/run.py \"$@\"\n",
    "bench/run.py": f"# {SPDX}\nparser.add_argument(\"--rounds\")\n",
    "tools/command_line/run.cpp": f"// {SPDX}\nauto a = option(\"--out\", \"-v,--verbose\");\n",
    "bench/results/old.md": "x " * 100,
    "docs/page.md": "# The `page`, at last\n\n## Twice\n\n## Twice\n\n"
                    f"<https://example.org/{'x' * 130}>\n\n| {'x ' * 100} |\n\n```\n{'x ' * 100}\n[no](link.md)\n```\n\n"
                    "[a](../runtime/a.h), [b](#the-page-at-last), [c](page.md#twice-1), [d](../scripts)\n"
                    "[e](https://example.org), `[f](none.md)`\n",
    "README.md": "[page](docs/page.md#twice) `runtime/<name>.h` `runtime/*.in` `none/such` `build/x` `a --wrong`\n"
                 "`attune run --out FILE` `--verbose` `scripts/do --all --rounds 3` `cmake --install`\n\n"
                 "```sh\nX=1 build/tools/attune run \\\n  --verbose 1 && scripts/do --all  # not --this\n```\n",
}
NO_FILE = "leads to no file of the tree"
NO_PATH = "is no file or folder of the tree"
# By check: a file, its text in place of the right one, and the words of the check.
WRONG = {
    "licence": [
        ("runtime/a.h", "#pragma once\n", [f"runtime/a.h:1: expected // {SPDX}"]),
        ("scripts/do", "#!/bin/sh\necho\n", [f"scripts/do:2: expected # {SPDX}"]),
        ("runtime/version.h.in", f"# {SPDX}\n", [f"runtime/version.h.in:1: expected // {SPDX}"]),
        ("lowering/a.ll", "", [f"lowering/a.ll:1: expected ; {SPDX}"]),
        ("CMakeLists.txt", f"\n# {SPDX}\n", [f"CMakeLists.txt:1: expected # {SPDX}"])],
    "columns": [
        ("runtime/a.h", f"//{'x' * 126}\n\n//{'ä' * 127}\n", ["runtime/a.h:3: 129 columns, at most 128"]),
        ("lowering/a.ll", f"; {'x' * 127}\n", ["lowering/a.ll:1: 129 columns, at most 128"]),
        ("README.md", f"```\n{'x ' * 65}\n```\n{'x ' * 65}\n| {'x ' * 65}|\n", ["README.md:4: 130 columns, at most 128"]),
        ("README.md", f"* {'x' * 130}\n* {'x' * 130} y\n", ["README.md:2: 134 columns, at most 128"])],
    "format": [
        ("runtime/a.h", f"// {SPDX}\nint f(int x);\n\nint  g( );\n", ["runtime/a.h:4: clang-format -i would change it"])],
    "pipes": [
        ("scripts/do", f"#!/bin/bash\n# {SPDX}\nset -euo pipefail\na | head -n 1\na || head b | sed -n 1p\na | grep -iqF b\n"
                       "a | grep -i -m 1 b\ngrep -q b c || grep -iE 'q' | wc\n",
         [f"scripts/do:{n}: {command} may end before the command that it reads from"
          for n, command in ((4, "head"), (6, "grep -iqF"), (7, "grep -i -m"))]),
        ("scripts/do", f"#!/bin/sh\n# {SPDX}\na | head -n 1\n", [])],
    "subjects": [
        ("runtime/a.h", f"// {SPDX}\n// Of a thing.\n\n// Offers\n// Of two\nint x;  // What\n    // What it does\n",
         ["runtime/a.h:2: a comment begins with its subject, not with Of",
          "runtime/a.h:7: a comment begins with its subject, not with What"]),
        ("scripts/do", f"#!/bin/sh\n# {SPDX}\necho\n# Those that do.\n",
         ["scripts/do:4: a comment begins with its subject, not with Those that"])],
    "spelling": [
        ("runtime/a.h", "// right\n// teh tiles\n", ["runtime/a.h:2: teh ==> the"]),
        ("docs/page.md", "occured\n", ["docs/page.md:1: occured ==> occurred"])],
    "links": [
        ("docs/page.md", "\n[a](none.md)\n",
         [f"docs/page.md:2: the link none.md {NO_FILE}", "README.md:1: docs/page.md has no heading #twice"]),
        ("README.md", "[a](docs/page.md#thrice) ![b](b.svg)",
         ["README.md:1: docs/page.md has no heading #thrice", f"README.md:1: the link b.svg {NO_FILE}"]),
        ("README.md", "[a](runtime/a.h#x) [b](../../etc/passwd) [c](docs/Page.md)\n[d]: ./none",
         ["README.md:1: runtime/a.h has no heading #x", f"README.md:1: the link docs/Page.md {NO_FILE}",
          f"README.md:1: the link ../../etc/passwd {NO_FILE}", f"README.md:2: the link ./none {NO_FILE}"]),
        ("README.md", "# Twice\n[a](#twice-1)", ["README.md:2: README.md has no heading #twice-1"])],
    "paths": [
        ("README.md", "\n`runtime/b.h` `scripts/<x>.sh`\n```sh\n\ncp docs/none.md x\n```\n",
         [f"README.md:2: runtime/b.h {NO_PATH}", f"README.md:2: scripts/<x>.sh {NO_PATH}",
          f"README.md:5: docs/none.md {NO_PATH}"]),
        ("docs/page.md", "`lowering/a.ll`, `lowering/b/`", [f"docs/page.md:1: lowering/b/ {NO_PATH}"]),
        ("runtime/a.h", "//\n// As docs/none.md says.\n", ["runtime/a.h:2: docs/none.md is no file of the tree"])],
    "options": [
        ("README.md", "\n`--outt`", ["README.md:2: --outt is no option of the program or a script"]),
        ("README.md", "`attune run --rounds 1` `scripts/do --out x`",
         ["README.md:1: --rounds is no option of attune", "README.md:1: --out is no option of scripts/do"]),
        ("docs/page.md", "```sh\nattune run \\\n  --out x\nattune run --out x \\\n  --none | tee --none\n```\n",
         ["docs/page.md:4: --none is no option of attune"])],
    "promises": [
        ("docs/promises.md",
         "| promised | held by |\n|---|---|\n| a | `case: right` |\n| b | `t.one`, `t.two` |\n| c | none |\n"
         "| d | `test_a.py::test_x`, `case: wrong`, `some.any` |\n",
         ["docs/promises.md:4: there is no test t.two", "docs/promises.md:5: a promise without a test",
          "docs/promises.md:6: there is no test case: wrong"])],
    "version": [("CITATION.cff", "\nversion: 1.2.4\n", ["CITATION.cff:2: CMakeLists.txt has version 1.2.3"])],
}


def said(check, texts):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            file = pathlib.Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return sorted(CHECKS[check](Tree(folder)))


def main():
    failures = [f"{check} of a tree that is right: {line}" for check in CHECKS for line in said(check, RIGHT)]
    for check, cases in WRONG.items():
        for name, text, expected in cases:
            found = said(check, {**RIGHT, name: text})
            if found != sorted(expected):
                failures.append(f"{check} of {name}, {text!r}:\n  expected {sorted(expected)}\n  said {found}")
    failures += [f"no mistake is tried for {check}" for check in CHECKS if check not in WRONG]
    print("\n".join([*failures, f"{sum(map(len, WRONG.values()))} mistakes tried, {len(failures)} failures"]))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
