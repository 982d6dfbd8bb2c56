# SPDX-License-Identifier: MIT
"""Loop nests that a page shows are those of tests/golden: check_nests.py SOURCE_DIR [--accept]

A block of a page that begins with ```nest FILE VARIANT LINES shows lines of the nest of the variant, as tests/golden/FILE
stores it, with the extents of its loops. LINES is a list such as 1-20,34-40; a line `...` stands between two ranges. An
annotation is the text from "  # " to the end of a line, or a line of its own that begins with "#". A line that ends with a
comma goes on in the next one. --accept writes the lines of the golden files into the pages, each with the annotations of the
line that was in its place.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
sys.dont_write_bytecode = True
sys.path.insert(0, str(root / "tests/golden"))
import loop_nests  # noqa: E402

BLOCK = re.compile(r"^(```nest (\S+) (\S+) ([\d,-]+)\n)(.*?)(?=^```$)", re.S | re.M)
GAP, COLUMN, WIDTH, COMMENT = "...", 44, 128, "  # "


def golden_lines(file, variant, ranges):
    path = root / "tests/golden" / file
    if not path.exists():
        raise ValueError(f"there is no tests/golden/{file}")
    nests = loop_nests.read(path.read_text())
    if variant not in nests:
        raise ValueError(f"tests/golden/{file} has no variant {variant}")
    nest = loop_nests.with_extents(nests[variant]).splitlines()
    lines = []
    for part in ranges.split(","):
        first, last = (int(number) for number in part.split("-"))
        if not 1 <= first <= last <= len(nest):
            raise ValueError(f"tests/golden/{file}: a nest of {len(nest)} lines has no lines {part}")
        lines += [GAP] * bool(lines) + nest[first - 1:last]
    return lines


def annotated_lines(text):
    """[line of the nest, its annotation, lines of annotation before it]"""
    lines, before, goes_on = [], [], False
    for line in text.splitlines():
        if line.startswith("#"):
            before.append(line)
            continue
        line, _, annotation = line.partition(COMMENT)
        line, annotation = line.rstrip(), annotation.strip()
        if goes_on:
            lines[-1][0] += " " + line.strip()
            lines[-1][1] = f"{lines[-1][1]} {annotation}".strip()
        else:
            lines.append([line, annotation, before])
            before = []
        goes_on = line.endswith(",")
    return lines


def written(line, annotation, before):
    text = "".join(f"{comment}\n" for comment in before)
    indentation = " " * (len(line) - len(line.lstrip()) + 4)
    while len(line) > WIDTH and (at := line.rfind(", ", 0, WIDTH) + 1):
        text, line = f"{text}{line[:at]}\n", indentation + line[at + 1:]
    return f"{text}{line:{COLUMN}}{COMMENT}{annotation}\n" if annotation else f"{text}{line}\n"


def check_block(block, where):
    """The block as it is to be, its mistakes, and whether --accept mends them."""
    head, file, variant, ranges, text = block.groups()
    shown = annotated_lines(text)
    try:
        golden = golden_lines(file, variant, ranges)
    except ValueError as error:
        return block[0], [f"{where}: {error}"], False
    if [line for line, _, _ in shown] == golden:
        return block[0], [], True
    if len(shown) != len(golden):
        lengths = f"{len(shown)} lines are shown, lines {ranges} of tests/golden/{file} are {len(golden)}"
        return block[0], [f"{where}: {variant}: {lengths}"], False
    wrong = [f"{where}: {variant}:\n  shown:        {line}\n  tests/golden: {is_now}"
             for (line, _, _), is_now in zip(shown, golden) if line != is_now]
    text = "".join(written(line, *annotations) for line, (_, *annotations) in zip(golden, shown))
    return head + text, wrong, True


def main():
    accept, blocks, failed = "--accept" in sys.argv, 0, False
    for page in [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]:
        text, mended = page.read_text(), ""
        end = 0
        for block in BLOCK.finditer(text):
            now, wrong, mends = check_block(block, page.relative_to(root))
            mended += text[end:block.start()] + now
            end = block.end()
            blocks += 1
            failed = failed or bool(wrong) and not (accept and mends)
            print("\n".join(wrong), end="\n" * bool(wrong))
        if accept and mended + text[end:] != text:
            page.write_text(mended + text[end:])
    print(f"{blocks} loop nests are shown")
    if failed:
        print("To write the lines of tests/golden into the pages, with their annotations:", *sys.orig_argv, "--accept")
    return 1 if failed or blocks < 3 else 0


sys.exit(main())
