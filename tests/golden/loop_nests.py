# SPDX-License-Identifier: MIT
"""Loop nests as golden files hold them: one file a nest, with the extents of every variant that has it.

A nest is what Halide prints, in fewer lines: loops with nothing between them and a statement are one line; what follows a
`produce` consumes it, as far as the block goes; the passes of a BlockTranspose are one line; and a loop whose extent is a
number is a name, whose extents stand in a table above the nest, a column a variant ("-" is no number, one number is that of
all).
"""
import re

KINDS = "for|parallel|vectorized|unrolled|gpu_block|gpu_thread"
LOOP = re.compile(rf"({KINDS}) (\S+?)(?: in \[0, (\d+)\])?(?:<Default_GPU>)?:$")
LOOP_NAME = re.compile(rf"\b((?:{KINDS}) )([\w.$]+(?:#\d+)?)(?=[,:])")  # in a shape
TRANSPOSED = "transpose {side}x{vectors} {name} in {passes} passes"


class Node:
    """A line of a nest and what stands in it; of a loop, its kind, name and extent ("-" where it is no number)."""

    def __init__(self, line):
        self.line, self.children = line, []
        loop = LOOP.match(line)
        self.loop = (loop[1], loop[2], str(int(loop[3]) + 1) if loop[3] else "-") if loop else None


def parse(text):
    root = Node("")
    path = [(-1, root)]
    for line in filter(str.strip, text.splitlines()):
        depth = len(line) - len(line.lstrip())
        while path[-1][0] >= depth:
            path.pop()
        node = Node(re.sub(r"\.([vr])\d+", r".\1", line.strip()))  # numbers that count up over a process
        path[-1][1].children.append(node)
        path.append((depth, node))
    return root


def transposition(name, side_bits, vectors, passes):
    """Lines of the passes of BlockTranspose (generators/math/transpose.cpp), up to the `consume` of its last."""
    lines = []
    for index in range(passes - 1):
        lines += [f"produce {name}_{index}:", f"unrolled vector in [0, {vectors - 1}]:"]
        lines += [f"vectorized bit{bit} in [0, 1]:" for bit in reversed(range(side_bits))]
        lines += [f"{name}_{index}(...) = ...", f"consume {name}_{index}:"]
    return lines + [f"produce {name}:", f"unrolled {name}_bits in [0, {vectors - 1}]:",
                    *[f"vectorized {name}_bits in [0, 1]:"] * side_bits, f"{name}(...) = ..."]


def lines_of(node):
    yield node.line
    for child in node.children:
        yield from lines_of(child)


def fold_transposition(first, rest):
    """The line of a transposition and the node that consumes it, where the nodes `produce x_0` and `consume x_0` are one."""
    name = re.match(r"produce (\w+)_0:$", first.line)
    if not name or not rest or not first.children or not first.children[0].loop:
        return None
    name, vectors = name[1], int(first.children[0].loop[2].replace("-", "0"))
    side_bits = sum(line.startswith("vectorized bit") for line in lines_of(first))
    lines, passes = list(lines_of(first)), 1
    while rest[-1].line == f"consume {name}_{passes - 1}:":
        lines.append(rest[-1].line)
        rest = rest[-1].children
        lines += lines_of(rest[0])
        passes += 1
    if lines != transposition(name, side_bits, vectors, passes) or rest[-1].line != f"consume {name}:":
        return None
    return Node(TRANSPOSED.format(side=2**side_bits, vectors=vectors, name=name, passes=passes)), rest[-1]


def written(nodes, depth=0):
    """Lines of a block: (depth, [loop], what follows the loops), with the block's own consumers in it."""
    while nodes:
        node, nodes = nodes[0], nodes[1:]
        if folded := fold_transposition(node, nodes):
            yield depth, [], folded[0].line
            nodes = folded[1].children
        elif node.line.startswith("consume ") and not nodes:
            nodes = node.children
        else:
            loops = []
            while node.loop and len(node.children) == 1 and (node.children[0].loop or not node.children[0].children):
                loops.append(node.loop)
                node = node.children[0]
            if node.loop:
                loops.append(node.loop)
            yield depth, loops, "" if node.loop else re.sub(r"\(\.\.\.\) = \.\.\.$", " = ...", node.line)
            yield from written(node.children, depth + 1)


def nest_of(text):
    """The nest that Halide printed, as (shape, extents of its loops)."""
    shape, extents = [], []
    for depth, loops, rest in written(parse(text).children):
        names = ", ".join(f"{kind} {name}" for kind, name, _ in loops)
        extents += [extent for _, _, extent in loops]
        shape.append(" " * depth + (f"{names}: {rest}".rstrip() if names else rest))
    return "\n".join(shape) + "\n", tuple(extents)


def loops_of(shape):
    return [name for _, name in LOOP_NAME.findall(shape)]


def grouped(nests):
    """{variant: (shape, extents)} as {file name: text}: of each shape a file, called as the first of its variants."""
    variants_of = {}
    for variant in sorted(nests):
        variants_of.setdefault(nests[variant][0], []).append(variant)
    return {f"{variants[0]}.txt": file_text(shape, variants, [nests[v][1] for v in variants])
            for shape, variants in variants_of.items()}


def numbered(name, number):
    return name if number == 0 else f"{name}#{number + 1}"


def file_text(shape, variants, extents):
    """Loops of one name with the same extents in every variant share a row of the table; further ones are name#2, name#3."""
    rows, names = {}, []
    for name, column in zip(loops_of(shape), zip(*extents), strict=True):
        of_name = rows.setdefault(name, [])
        if column not in of_name:
            of_name.append(column)
        names.append(numbered(name, of_name.index(column)))
    called = iter(names)
    nest = LOOP_NAME.sub(lambda loop: loop[1] + next(called), shape)
    table = []
    for name, columns in rows.items():
        if columns == [("-",) * len(variants)]:
            continue
        for number, column in enumerate(columns):
            table.append((numbered(name, number), column[:1] if len(set(column)) == 1 else column))
    width = max((len(name) for name, _ in table), default=0)
    lines = [f"{name:{width}}" + "".join(f"{number:>5}" for number in numbers) for name, numbers in table]
    return "\n".join(["variants", *variants, "", "extents", *lines, "", "nest", nest])


def read(text):
    """The argument of file_text(), as {variant: (shape, extents)}."""
    head, table, nest = re.fullmatch(r"variants\n(.*?)\n\nextents\n(.*?)\n?\nnest\n(.*)", text, re.S).groups()
    variants = head.split("\n")
    rows = {row.split()[0]: row.split()[1:] for row in table.splitlines()}
    columns = [rows.get(name, ["-"]) for _, name in LOOP_NAME.findall(nest)]
    columns = [column * len(variants) if len(column) == 1 else column for column in columns]
    shape = LOOP_NAME.sub(lambda loop: loop[1] + loop[2].split("#")[0], nest)
    return {variant: (shape, tuple(column[index] for column in columns)) for index, variant in enumerate(variants)}


def with_extents(nest):
    """A nest with its extents in it, for a difference that is read: `unrolled k < 4`."""
    shape, extents = nest
    numbers = iter(extents)
    return LOOP_NAME.sub(lambda loop: loop[0] if (number := next(numbers)) == "-" else f"{loop[0]} < {number}", shape)
