# SPDX-License-Identifier: MIT
"""Checks of text, each a function from a Tree to lines FILE:LINE: what is wrong."""
import re
import shutil
import subprocess
import sys

from tree import CXX, GENERATED, TRIALS

LICENCE = "SPDX-License-Identifier: MIT"
COLUMNS = 128
IGNORED = "tests/tree/spelling_ignored.txt"


def licence(tree):
    """Source files begin with the line that names the licence, behind a #! line where there is one."""
    for name, mark in tree.sources.items():
        lines = tree.text(name).split("\n")
        at = 1 if lines[0].startswith("#!") else 0
        if lines[at:at + 1] != [f"{mark} {LICENCE}"]:
            yield f"{name}:{at + 1}: expected {mark} {LICENCE}"


def pipes(tree):
    """Scripts with pipefail pipe into no command that ends before its input does: the writer may die of SIGPIPE, or not."""
    for name, mark in tree.sources.items():
        if mark == "#" and name != TRIALS and re.search(r"^set -\S*o pipefail", tree.text(name), re.M):
            for number, line in tree.lines(name):
                if found := re.search(r"(?<!\|)\|\s*(head|grep\s(-\S+\s)*-\w*[qm]\w*)\b", line):
                    yield f"{name}:{number}: {found[1]} may end before the command that it reads from"


def subjects(tree):
    """A comment, and a docstring of Python, begins with its subject: not with "What ...", "Of ..." or "Those that ..."."""
    for name, mark in tree.sources.items():
        if name == TRIALS:
            continue
        comment = re.compile(rf"\s*{re.escape(mark)}+\s?(.*)")
        before = False
        for number, line in tree.lines(name):
            found = comment.match(line)
            text = found[1] if found else line.split('"""', 1)[1] if name.endswith(".py") and '"""' in line else ""
            # The line behind that of the licence begins a comment, too.
            if not (before and found) and (word := re.match(r"(What|Of|Those that)(?= |$)", text)):
                yield f"{name}:{number}: a comment begins with its subject, not with {word[0]}"
            before = bool(found) and LICENCE not in line


def lines_without_code(tree, page):
    """The lines of a page outside code blocks."""
    fence = None
    for number, line in tree.lines(page):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if fence:
            if mark and mark[1].startswith(fence):
                fence = None
        elif mark:
            fence = mark[1]
        else:
            yield number, line


def prose_lines(tree, page):
    """The lines of a page outside code blocks and tables."""
    return ((number, line) for number, line in lines_without_code(tree, page) if not re.match(r"\s*\|", line))


def columns(tree):
    """Lines of sources and of prose end at column 128, unless they are one word, such as a link."""
    for name, mark in tree.sources.items():
        if not name.startswith(GENERATED):
            for number, line in tree.lines(name):
                if len(line) > COLUMNS and (mark != ";" or line.startswith(";")):  # of LLVM's text the comments
                    yield f"{name}:{number}: {len(line)} columns, at most {COLUMNS}"
    for page in tree.pages:
        for number, line in prose_lines(tree, page):
            words = re.sub(r"^\s*([*+-]|\d+\.|#+|>)?\s*", "", line).split()
            if len(line) > COLUMNS and len(words) > 1:
                yield f"{page}:{number}: {len(line)} columns, at most {COLUMNS}"


def find_clang_format():
    for program in ("clang-format-14", "clang-format"):
        if path := shutil.which(program):
            if re.search(r"\bversion 14\.", subprocess.run([path, "--version"], capture_output=True, text=True).stdout):
                return path
    sys.exit("clang-format 14 is not on PATH; Debian: apt-get install clang-format-14")


def form(tree):
    """C++ is as clang-format 14 leaves it, by .clang-format."""
    program = find_clang_format()
    names = [name for name in tree.files if name.endswith(CXX) and not name.startswith(GENERATED)]
    for begin in range(0, len(names), 100):
        done = subprocess.run([program, "--dry-run", *names[begin:begin + 100]], cwd=tree.root, capture_output=True, text=True)
        places = re.findall(r"^(\S+?:\d+):\d+: warning: code should be clang-formatted", done.stderr, re.M)
        if done.returncode or (done.stderr and not places):
            sys.exit(done.stderr)
        yield from (f"{place}: clang-format -i would change it" for place in dict.fromkeys(places))


def spelling(tree):
    """Words are no misspellings that codespell knows, but for those of IGNORED."""
    names = [name for name in tree.files if not name.startswith(GENERATED) and not name.endswith((".svg", ".npy"))
             and name not in (IGNORED, TRIALS)]
    command = [sys.executable, "-m", "codespell_lib", "--disable-colors"]
    if IGNORED in tree.files:
        command += ["--ignore-words", IGNORED]
    done = subprocess.run([*command, *names], cwd=tree.root, capture_output=True, text=True)
    if done.returncode not in (0, 65):
        sys.exit(f"codespell of requirements.txt: {done.stderr or done.stdout}")
    for line in done.stdout.splitlines():
        place, words = line.split(": ", 1)
        yield f"{place.removeprefix('./')}: {words}"
