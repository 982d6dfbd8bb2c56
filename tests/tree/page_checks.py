# SPDX-License-Identifier: MIT
"""Checks of what pages refer to, each a function from a Tree to lines FILE:LINE: what is wrong."""
import fnmatch
import functools
import pathlib
import posixpath
import re

from text_checks import lines_without_code, prose_lines
from tree import TRIALS

ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//")  # an address


def code_spans_blanked(line):
    return re.sub(r"(`+)(.+?)\1", lambda span: " " * len(span[0]), line)


def anchors_of(tree, page):
    """The names under which the host shows headings: in small letters, without punctuation, hyphens for spaces."""
    found = {}
    for _, line in prose_lines(tree, page):
        if heading := re.match(r"#+\s+(.*?)\s*#*$", line):
            text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[1]).replace("`", "")
            anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            found[anchor] = found.get(anchor, -1) + 1
    return {f"{anchor}-{n}" if n else anchor for anchor, times in found.items() for n in range(times + 1)}


def links(tree):
    """Each relative link of a page leads to a file or folder of the tree, its #anchor to a heading."""
    anchors = functools.cache(lambda page: anchors_of(tree, page))
    known = set(tree.files) | tree.folders
    pages = [name for name in tree.files if name.endswith(".md")]
    for page in pages:
        for number, line in lines_without_code(tree, page):
            line = code_spans_blanked(line)
            targets = re.findall(r"\]\(\s*<?([^)\s>]+)", line) + re.findall(r"^\s*\[[^]]+\]:\s+(\S+)", line)
            for target in targets + re.findall(r"(?:href|src)=\"([^\"]+)\"", line):
                if ELSEWHERE.match(target):
                    continue
                path, _, anchor = target.partition("#")
                file = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
                if file not in known:
                    yield f"{page}:{number}: the link {target} leads to no file of the tree"
                elif anchor and (not file.endswith(".md") or anchor not in anchors(file)):
                    yield f"{page}:{number}: {file} has no heading #{anchor}"


def code_of(tree, page):
    """Inline code, and the commands of blocks of shell: pairs of a line's number and the code. A command may go over lines."""
    text = re.sub(r"\\\n\s*", lambda more: " " * len(more[0]), tree.text(page))
    number_at = lambda at: tree.text(page).count("\n", 0, at) + 1
    prose = re.sub(r"^\s*```.*?^\s*```", lambda block: re.sub(r"[^\n]", " ", block[0]), text, flags=re.S | re.M)
    for span in re.finditer(r"(?<!`)`([^`]+)`(?!`)", prose):
        yield number_at(span.start()), " ".join(span[1].split())
    for block in re.finditer(r"^```(?:sh|bash)\n(.*?)^```", text, re.S | re.M):
        for line in re.finditer(r"[^\n]+", block[1]):
            yield number_at(block.start(1) + line.start()), line[0].split(" #")[0].strip()


def pages_for_readers(tree):
    """Decisions and the changelog speak of what was."""
    return [page for page in tree.pages if not page.startswith("docs/adr/") and page != "CHANGELOG.md"]


def paths(tree):
    """Each path of the tree in the code of a page, and each page of docs/ that a source names, exists; <x>, * and {a,b} stand
    for any name."""
    tops = {name.split("/")[0] for name in tree.files if "/" in name}
    known = sorted(set(tree.files) | tree.folders)

    def exists(path):
        path = re.sub(r"<[^>]*>|\{[^}]*\}|\.\.\.|\*+", "*", path).rstrip("/")
        return path in known or ("*" in path and bool(fnmatch.filter(known, path)))

    for page in pages_for_readers(tree):
        for number, code in code_of(tree, page):
            for word in re.findall(r"[^\s,;=:'\"()]+", code):
                path = word.removeprefix("./").rstrip(".,")
                if "/" in path and path.split("/")[0] in tops and not exists(path):
                    yield f"{page}:{number}: {path} is no file or folder of the tree"
    for name in tree.sources:
        for number, line in tree.lines(name) if name != TRIALS else ():
            for path in re.findall(r"(?<![\w/<>.-])docs/[\w/.-]+\.md\b", line):
                if path not in known:
                    yield f"{name}:{number}: {path} is no file of the tree"


OPTION = r"(?<![\w-])--[a-z][\w-]*"


def options(tree):
    """Each --option of the program, of a script and of no command in the code of a page is one that they have."""
    quoted = lambda names: {option for name in names for option in re.findall(rf'"(?:-\w,)?({OPTION})', tree.text(name))}
    programs = [name for name in tree.files if name.startswith("tools/command_line/") or name == "tools/main.cpp"]
    of_program = quoted(programs) | {"--help"}
    scripts = [name for name in tree.files if name.startswith("scripts/") and name in tree.sources]
    others = [name for name in tree.sources if name.startswith(("bench/", "tools/", "tests/golden/"))]

    @functools.cache
    def of_script(name):
        text = tree.text(name)
        passed_to = [other for other in others + scripts if other.endswith(".py") and other != name and other in text]
        return {"--help"} | set(re.findall(OPTION, "\n".join([text, *map(tree.text, passed_to)])))

    of_any = of_program.union(*map(of_script, scripts)) | quoted(others)
    for page in pages_for_readers(tree):
        for number, code in code_of(tree, page):
            for command in re.split(r"\s(?:&&|\|\|?|;)\s", code):
                words = [word for word in command.split() if not re.match(r"\w+=", word)] or [""]
                program = words[0].removeprefix("./")
                if pathlib.PurePath(program).name == "attune":
                    legal, of = of_program, "attune"
                elif program in scripts:
                    legal, of = of_script(program), program
                elif program.startswith("--"):
                    legal, of = of_any, "the program or a script"
                else:
                    continue
                for option in re.findall(OPTION, command):
                    if option not in legal:
                        yield f"{page}:{number}: {option} is no option of {of}"


PROMISES = "docs/promises.md"


def promises(tree):
    """Each promise names tests in its last cell, and each of them is a test of CTest or Catch2, or a function of a Python
    test."""
    if PROMISES not in tree.files:
        return
    patterns, titles = [], set()
    for name in tree.files:
        if not name.startswith("tests/") or name.startswith(TRIALS):
            continue
        if name.endswith("CMakeLists.txt"):
            for test in re.findall(r"add_test\(NAME (\S+)", tree.text(name)):
                patterns.append(re.sub(r"\\\$\\\{\w+\\\}", r"\\w+", re.escape(test)))
        elif name.endswith(".cpp"):
            titles |= set(re.findall(r"TEST_CASE\(\s*\"([^\"]+)\"", tree.text(name)))
        elif name.endswith(".py"):
            file = pathlib.PurePath(name).name
            titles |= {f"{file}::{test}" for test in re.findall(r"^def (test_\w+)", tree.text(name), re.M)}
    for number, line in tree.lines(PROMISES):
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("| ") else []
        if len(cells) != 2 or cells == ["promised", "held by"]:
            continue
        tests = re.findall(r"`([^`]+)`", cells[1])
        if not tests:
            yield f"{PROMISES}:{number}: a promise without a test"
        for test in tests:
            if test not in titles and not any(re.fullmatch(pattern, test) for pattern in patterns):
                yield f"{PROMISES}:{number}: there is no test {test}"
