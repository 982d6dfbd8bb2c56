# SPDX-License-Identifier: MIT
"""docs/program.md names every command and option that --help lists, and no other."""
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "program.md").read_text()


def rows_of(text, title):
    """The first words of the lines behind such a title."""
    found = re.search(rf"^{title}:?\n((?:[ \t]+.*\n|\n)+)", text, re.M | re.I)
    return re.findall(r"^ {1,4}(\S+)", found[1], re.M) if found else []


def commands_of(attune, *words):
    text = attune(*words, "--help").stdout
    yield words, sorted(set(re.findall(r"^ +(?:-\w,)?(--[\w-]+)", text, re.M)) - {"--help"})
    for name in rows_of(text, "Subcommands"):
        yield from commands_of(attune, *words, name)


@pytest.fixture(scope="module")
def commands(attune):
    found = dict(commands_of(attune))
    assert len(found) >= 20 and "--picture" in found["compare",] and "--grad-x" in found["run", "linear-backward"]
    return found


def test_every_command(commands):
    named = PAGE[:PAGE.index("\n## ")]
    missing = [words for words in commands if words and words != ("run",)
               and not re.search(rf"`(attune {' '.join(words)}|{words[-1]})[` ]", named)]
    assert not missing


def section_of(words):
    """The page's text on a command: behind its heading, and in rows of tables that begin with it."""
    name = re.escape(f"attune {' '.join(words)}")
    heading = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    return (heading[1] if heading else "") + "".join(re.findall(rf"^\| `{name}[` ].*$", PAGE, re.M))


def test_every_option(commands):
    """Where its command is, where the options of attention are, or where the function is of which the command gives
    gradients."""
    shared = section_of(("run", "sdpa"))
    missing = []
    for words, options in commands.items():
        text = section_of(words) if words else PAGE
        if "the steps below" in text:
            text += re.search(r"\*\*Steps of rows\*\*.*?(?=^## )", PAGE, re.M | re.S)[0]
        if words[:1] == ("run",):
            text += shared + section_of((*words[:-1], words[-1].removesuffix("-backward")))
        missing += [(*words, option) for option in options if not re.search(rf"{option}(?![\w-])", text)]
    assert not missing


def test_no_other_option(commands):
    known = {option for options in commands.values() for option in options} | {"--help"}
    code = re.sub(r"```sh\n(?!attune).*?```", "", PAGE, flags=re.S)  # of other programs
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", code)) <= known
