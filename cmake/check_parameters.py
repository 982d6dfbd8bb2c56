#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks records of tuned parameters against their spaces: check_parameters.py SCHEDULES OP[=LIKE]:FILE...

SCHEDULES is the folder schedules/ of a tree or a package. <op>/space.json (its form: tools/tune/space_file.h), or that of LIKE
for a user's attention, defines the legal parameters; a schedule without a space is legal if <op>/tuned has records of it. Each
wrong record is a line; then the exit code is 1. Constraints on cache sizes are left to the tuner, since the parameters may be
for another machine.
"""
import json
import pathlib
import re
import sys

DTYPES = ("f32", "f64", "bf16", "f16", "bool")
KINDS = ("plain", "scored", "training", "weights")
FIELDS = {"dtype", "head_dim", "schedule", "class", "kinds", "parameters", "provenance", "absent"}
TOKEN = re.compile(r"\s*(\d+(?:\.\d+)?|[A-Za-z_]\w*|&&|\|\||[<>=!]=|[-+*/%()<>?:])")


class Expression:
    """An expression of a space: arithmetic, comparisons, && and ||, and a ? b : c, over facts and parameters."""

    LEVELS = [["||"], ["&&"], ["==", "!="], ["<", ">", "<=", ">="], ["+", "-"], ["*", "/", "%"]]

    def __init__(self, text, values):
        self.tokens, self.values, at = [], values, 0
        while text[at:].strip():
            found = TOKEN.match(text, at)
            if not found:
                raise ValueError(f'"{text}" cannot be read at {text[at:]!r}')
            self.tokens.append(found[1])
            at = found.end()
        self.result = self.choice()

    def take(self, *tokens):
        return self.tokens.pop(0) if self.tokens and self.tokens[0] in tokens else None

    def choice(self):
        condition = self.level(0)
        if not self.take("?"):
            return condition
        yes = self.choice()
        self.take(":")
        no = self.choice()
        return yes if condition else no

    def level(self, n):
        if n == len(self.LEVELS):
            return self.operand()
        left = self.level(n + 1)
        while operator := self.take(*self.LEVELS[n]):
            left = self.apply(operator, left, self.level(n + 1))
        return left

    def operand(self):
        if self.take("("):
            inner = self.choice()
            self.take(")")
            return inner
        if self.take("-"):
            return -self.operand()
        token = self.tokens.pop(0)
        return float(token) if token[0].isdigit() else self.values[token]

    @staticmethod
    def apply(operator, a, b):
        if operator in "/%":
            return float("nan") if b == 0 else a / b if operator == "/" else a % b
        return {"||": lambda: a or b, "&&": lambda: a and b, "==": lambda: a == b, "!=": lambda: a != b, "<": lambda: a < b,
                ">": lambda: a > b, "<=": lambda: a <= b, ">=": lambda: a >= b, "+": lambda: a + b, "-": lambda: a - b,
                "*": lambda: a * b}[operator]()


def value_of(text, values):
    return Expression(str(text), values).result


def words(text, values):
    return re.sub(r"\{([^}]*)\}", lambda m: f"{value_of(m[1], values):.6g}", text)


def facts_of(halide, dtype, head_dim):
    """Facts as in tools/tune/facts.cpp, without caches."""
    vector = 64 if "avx512" in halide else 32 if "avx2" in halide else 16
    element = {"bool": 1, "f64": 8, "f32": 4}.get(dtype, 2)
    total = 8 if dtype == "f64" else 4
    return {"lanes": vector // total, "registers": 32 if "avx512" in halide or halide.startswith("arm-64") else 16,
            "element_bytes": element, "sum_bytes": total, "head_dim": head_dim, "channels": head_dim or 128,
            "bf16": int(dtype == "bf16")}


def spaces_of(schedules, op):
    """Spaces of the op, and of the ops that its file is like."""
    file = schedules / op / "space.json"
    if not file.exists():
        return []
    space = json.loads(file.read_text())
    return space.get("spaces", []) + (spaces_of(schedules, space["like"]) if "like" in space else [])


def shipped_classes(schedules, op):
    """Classes of the records of this tree by schedule: devices and small ops have no space."""
    classes = {"root": {""}}
    for file in (schedules / op / "tuned").glob("*.json"):
        for record in json.loads(file.read_text())["records"]:
            classes.setdefault(record["schedule"], set()).add(record["class"])
    return classes


def none_of(what, value, known):
    return f"{what} {json.dumps(value)} is none of {', '.join(json.dumps(k) for k in sorted(known))}"


def constraint_of(given):
    """Requirement of a constraint, and the words for a violation; nothing for constraints on caches."""
    if "multiple" in given:
        value, of = given["multiple"], given["of"]
        return f"({value}) % ({of}) == 0", f"{value} {{{value}}} is no multiple of {of} {{{of}}}"
    if "need" in given:
        if given["of"].endswith("_bytes"):
            return None
        return f"({given['need']}) <= {given['of']}", f"{given['for']}: {{{given['need']}}} of {{{given['of']}}} {given['of']}"
    return given["require"], given["else"]


def wrong_parameters(space, schedule, shape_class, parameters, facts):
    space_parameters = space["parameters"]
    for name, value in parameters.items():
        if name not in space_parameters:
            return f"{name} is no parameter of {schedule}, which has {', '.join(sorted(space_parameters))}"
        if not isinstance(value, int) or isinstance(value, bool):
            return f"{name} is {json.dumps(value)}, no whole number"
    for name, parameter in space_parameters.items():
        if name not in parameters and "default" not in parameter:
            return f"{name} is missing"
    values = {**facts, **{name: parameters.get(name, parameter.get("default")) for name, parameter in space_parameters.items()}}
    for name, parameter in space_parameters.items():
        legal = parameter["values"]
        if isinstance(legal, dict):
            legal = legal.get(shape_class, legal.get("other", []))
        legal = sorted({int(value_of(v, facts)) for v in legal})
        if values[name] not in legal:
            return f"{name} {values[name]} is none of {', '.join(map(str, legal))}"
    for given in space.get("constraints", []):
        constraint = constraint_of(given)
        if constraint and not value_of(constraint[0], values) == 1:
            return words(constraint[1], values)
    return ""


def wrong_record(schedules, like, target, halide, record):
    if unknown := set(record) - FIELDS:
        return none_of("field", sorted(unknown)[0], FIELDS)
    for field in ("dtype", "head_dim", "schedule", "class"):
        if field not in record:
            return f'"{field}" is missing'
    dtype, head_dim, schedule, shape_class = (record[f] for f in ("dtype", "head_dim", "schedule", "class"))
    if dtype not in DTYPES:
        return none_of("dtype", dtype, DTYPES)
    if not isinstance(head_dim, int) or isinstance(head_dim, bool) or head_dim < 0:
        return f"head_dim is {json.dumps(head_dim)}, no whole number from 0 on"
    for kind in record.get("kinds", []):
        if kind not in KINDS:
            return none_of("kind", kind, KINDS)
    of_op = [] if "cuda" in halide else spaces_of(schedules, like)  # parameters of devices have no space
    spaces = [s for s in of_op if schedule in s["schedules"]]
    shipped = shipped_classes(schedules, like)
    if not spaces and schedule not in shipped:
        return none_of("schedule", schedule, set(shipped).union(*(s["schedules"] for s in of_op)))
    if schedule == "root" and target != "generic":
        return "root depends on no target: its records belong to generic"
    spaces_of_class = [s for s in spaces if shape_class in s.get("classes", [shape_class])]
    classes = shipped.get(schedule, set()).union(*(s.get("classes", []) for s in spaces))
    if not spaces_of_class and shape_class not in classes:
        return none_of("class", shape_class, classes)
    if record.get("absent"):
        return ""
    if not isinstance(record.get("parameters", {}), dict):
        return '"parameters" is no object'
    if not spaces_of_class:
        return ""
    facts = facts_of(halide, dtype, head_dim)
    return wrong_parameters(spaces_of_class[0], schedule, shape_class, record.get("parameters", {}), facts)


def wrong_in_file(schedules, like, file):
    content = json.loads(file.read_text())
    target = content.get("target", file.stem)
    known = json.loads((schedules / "targets.json").read_text())
    halide = {**known["targets"], **known["device_targets"]}.get(target, {}).get("halide", "")
    for n, record in enumerate(content.get("records", [])):
        if not isinstance(record, dict):
            yield f"{file}: record {n} is no object"
        elif wrong := wrong_record(schedules, like, target, halide, record):
            yield f"{file}: record {n}: {wrong}"


def main():
    lines = []
    for given in sys.argv[2:]:
        op, file = given.split(":", 1)
        op, _, like = op.partition("=")
        try:
            lines += wrong_in_file(pathlib.Path(sys.argv[1]), like or op, pathlib.Path(file))
        except (json.JSONDecodeError, ValueError, KeyError, TypeError) as error:
            lines.append(f"{file}: {type(error).__name__}: {error}")
    print("\n".join(lines), end="")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
