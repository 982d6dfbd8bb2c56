#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table of the API is what the C++ headers declare, and tests call each function of C: check_api.py SOURCE_DIR.

Compared are, of each struct and enum, members, their types and defaults; of each function, arguments, their types and names;
and that no struct, enum or function of the headers is missing. Some mistakes are tried, each of which must be found.
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
TYPES = {"ConstView": "tensor read", "View": "tensor write", "V": "tensor write", "double": "double", "bool": "bool",
         "int": "int32", "std::int64_t": "int64", "std::uint64_t": "uint64", "std::uint32_t": "uint32", "std::size_t": "size",
         "std::string_view": "string", "std::string": "string", "const char *": "string", "void *": "pointer",
         "std::optional<double>": "optional double", "std::optional<std::int64_t>": "optional int64"}
# Structs that are views, templates, results of calls or elements, and no arguments of functions.
NO_STRUCTS = {"bfloat16", "float16", "BasicView", "BasicPages", "State"}


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text).replace("<<", "SHIFT")  # no brackets


def body_at(text, at):
    """The text between the brace at `at` and its end."""
    depth = 0
    for end in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[at + 1:end]
    sys.exit("a brace is not closed")


def split(text, by):
    """Parts of a text, divided outside brackets."""
    parts, depth, part = [], 0, ""
    for c in text:
        depth += {"(": 1, "{": 1, "<": 1, ")": -1, "}": -1, ">": -1}.get(c, 0)
        if c == by and depth == 0:
            parts, part = parts + [part], ""
        else:
            part += c
    return [p.strip() for p in parts + [part] if p.strip()]


def members_of(body):
    """Name, type and default of each data member of a struct."""
    for statement in split(re.sub(r"\)\s*(const)?\s*(:[^{;]*)?\{[^{}]*\}", ");", body), ";"):
        if pointer := re.search(r"\(\*(\w+)\)\(", statement):
            yield pointer[1], "function", "nullptr"
            continue
        if "(" in statement.split("=")[0] or statement.startswith(("private", "friend", "using", "template", "struct")):
            continue
        first, *others = split(statement, ",")
        kind, name = re.match(r"(.*?)(\w+)$", first.split("=")[0].strip()).groups()
        for declarator in [first.replace(kind, "", 1), *others]:
            name, _, default = declarator.partition("=")
            yield name.strip(), kind.strip(), default.strip() or None


class Headers:
    def __init__(self, folder):
        self.folder, self.structs, self.enums, self.functions = folder, {}, {}, []
        for path in sorted(folder.glob("*.h")) + [folder / "detail/user_attention.h", folder / "detail/cost.h",
                                                  folder / "detail/registration.h", folder / "version.h.in"]:
            if path.name == "attune_c.h":
                continue
            header = str(path.relative_to(folder)).removesuffix(".in")
            space = "detail::" if header.startswith("detail/") else ""
            text = without_comments(path.read_text())
            for found in re.finditer(r"^enum class (\w+)(?: : [\w:]+)? (\{)", text, re.M):
                if header != "detail/registration.h":
                    self.enums[found[1]] = (header, split(body_at(text, found.start(2)), ","))
            for found in re.finditer(r"^(?:template<[^>]*> )?struct (\w+) (\{)", text, re.M):
                if header != "detail/registration.h" and found[1] not in NO_STRUCTS - {"BasicPages"}:
                    self.structs[space + found[1]] = (header, list(members_of(body_at(text, found.start(2)))))
            for found in re.finditer(r"^class (?:ATTUNE_API )?(Context|BlockMask) (\{)", text, re.M):
                public = body_at(text, found.start(2)).split("private:")[0]
                names = {n for n in re.findall(r"(~?\w+)\(", re.sub(r"\{[^}]*\}", "", public)) if n != "tables_"}
                self.functions += [(header, f"{found[1]}::{name}", None) for name in sorted(names | {found[1], f"~{found[1]}"})]
            for found in re.finditer(r"^ATTUNE_API [^;(]*?(\w+)\(([^;]*?)\)(?: noexcept)?;", text, re.M):
                self.functions.append((header, space + found[1], split(found[2], ",")))
            for found in re.finditer(r"^class ATTUNE_API (\w+Registration) ", text, re.M):
                self.functions.append((header, space + found[1], None))
            for found in re.finditer(r"^(?:template<.*> )?constexpr [\w:<>, ]+ (\w+)\(", text, re.M):
                if header != "detail/registration.h":
                    self.functions.append((header, found[1], None))


class Check:
    def __init__(self, table, headers):
        self.table, self.headers, self.wrong = table, headers, []
        self.kinds = dict(TYPES)
        self.kinds |= {e["cpp"]: f"enum:{e['name']}" for e in table["enums"]}
        self.kinds |= {s["cpp"]: f"struct:{s['name']}" for s in table["structs"] if s["cpp"]}
        self.kinds |= {f"std::vector<{s['cpp']}>": f"array:{s['name']}" for s in table["structs"]}
        self.kinds |= {"ConstPages": "struct:pages"}
        self.kinds |= {"std::vector<std::int64_t>": "array:int64", "std::vector<double>": "array:double"}
        self.kinds |= {f"{s['cpp']} *": f"struct:{s['name']}" for s in table["structs"] if s["role"] == "out"}
        self.kinds |= {cpp: f"opaque:{name}" for name, cpp in table["opaque"].items()}

    def say(self, header, what):
        self.wrong.append(f"runtime/include/attune/{header}: {what}")

    def kind_of(self, entry):
        return f"{entry['type']} {entry['access']}" if entry["type"] == "tensor" else entry["type"]

    def default_of(self, field):
        """The table's default as C++ has it."""
        default = field.get("default")
        if field["type"].startswith("struct:"):
            return "nullptr" if field.get("access") == "write" else "{}"
        if field["type"].startswith("enum:") and default is not None:
            enum = next(e for e in self.table["enums"] if e["name"] == field["type"][5:])
            return f"{enum['cpp']}::{default}"
        if field["type"] == "string" and default == "":
            return "{}"
        if field["type"] == "string" and default:
            return json.dumps(default)
        if "default" not in field:
            return None
        if default is None:
            return "nullptr" if field["type"] in ("pointer", "function") else "{}"
        return {True: "true", False: "false"}[default] if isinstance(default, bool) else default

    def struct(self, struct):
        header, members = self.headers.structs.get("BasicPages" if struct["cpp"] == "Pages" else struct["cpp"], (None, []))
        if header != struct["header"]:
            return self.say(struct["header"], f"has no struct {struct['cpp']} of the table")
        fields = {f.get("cpp", f["name"]): f for f in struct["fields"] if f["type"] != "reserved" and not f.get("c_only")}
        for name, kind, default in members:
            field = fields.pop(name, None)
            where = f"{struct['cpp']}::{name}"
            if not field:
                self.say(header, f"{where} is not in the table")
                continue
            expected = self.kinds.get(kind, kind)
            if self.kind_of(field) != expected:
                self.say(header, f"{where} is {expected}, in the table {self.kind_of(field)}")
            in_table = self.default_of(field)
            # A function may need a tensor that its struct need not have: the table then has no default.
            if struct["role"] != "in" or in_table is None and default == "{}" and field["type"] == "tensor":
                continue
            if isinstance(in_table, (int, float)) and default is not None:
                number = re.sub(r"std::size_t\((\d+)\)", r"\1", default).replace("SHIFT", "<<")
                default = eval(number)  # of the tree's own headers
            if in_table != default:
                self.say(header, f"{where} has the default {default}, in the table {in_table}")
        for name in fields:
            self.say(header, f"has no {struct['cpp']}::{name} of the table")

    def enum(self, enum):
        header, values = self.headers.enums.get(enum["cpp"], (None, []))
        in_table = [v[2] if len(v) > 2 else v[0] for v in enum["values"]]
        if header != enum["header"] or values != in_table:
            self.say(enum["header"], f"enum {enum['cpp']} has {values}, in the table {in_table}")

    def arguments(self, function, given):
        """Arguments of a generated function, which are those of C++."""
        given = [re.sub(r"\s*=.*", "", a) for a in given]
        if given[:1] != ["Context &"]:
            return self.say(function["header"], f"{function['name']} takes no Context")
        if len(given) - 1 != len(function["arguments"]):
            return self.say(function["header"], f"{function['name']} has {len(given) - 1} arguments beside the Context, in the "
                                                f"table {len(function['arguments'])}")
        for argument, in_table in zip(given[1:], function["arguments"]):
            kind, name = re.match(r"(?:const )?([\w:]+)\s*[&*]?\s*(\w*)$", argument).groups()
            expected = self.kinds.get(kind, kind)
            if name and name != in_table["name"] or self.kind_of(in_table) != expected:
                self.say(function["header"], f"{function['name']} takes {argument}, in the table {in_table['name']}, "
                                             f"{self.kind_of(in_table)}")

    def all(self):
        for struct in self.table["structs"]:
            if struct["cpp"]:
                self.struct(struct)
        for enum in self.table["enums"]:
            self.enum(enum)
        known = {s["cpp"] for s in self.table["structs"]} | NO_STRUCTS | set(self.table["opaque"].values())
        self.wrong += [f"runtime/api/attune_api.json: {header} is no header" for header in self.table["headers_not_in_c"]
                       if not (self.headers.folder / header).exists()]
        for name, (header, _) in self.headers.structs.items():
            if header in self.table["headers_not_in_c"]:
                continue
            if name not in known and name.removeprefix("detail::") not in known:
                self.say(header, f"struct {name} is not in the table")
        for name, (header, _) in self.headers.enums.items():
            if header not in self.table["headers_not_in_c"] and name not in {e["cpp"] for e in self.table["enums"]}:
                self.say(header, f"enum {name} is not in the table")
        of_table = {}
        for function in self.table["functions"]:
            of_table.setdefault(function.get("cpp", function["name"]), []).append(function)
        covered = {cpp for _, cpp in self.table["c_only"]} | set(self.table["not_in_c"])
        declared = set()
        for header, name, given in self.headers.functions:
            declared.add(name)
            if name in of_table:
                for function in of_table[name]:
                    if not function.get("by_hand") and not (given and "PartialAttention" in given[1]):
                        self.arguments(function, given)
            elif name not in covered and header not in self.table["headers_not_in_c"]:
                self.say(header, f"{name}() is not in the table")
        for name in (set(of_table) | covered) - {None} - declared:
            self.wrong.append(f"runtime/api/attune_api.json: {name} is no function of the headers")
        return self.wrong


def untested(table):
    """Functions of C that no test calls."""
    texts = "".join(p.read_text() for folder in ("tests/c_api", "tests/user_attention")
                    for p in (ROOT / folder).glob("*.c*"))
    names = [f["name"] for f in table["functions"]] + [name for name, _ in table["c_only"]]
    return [f"tests/c_api: no test calls attune_{n}()" for n in names if not re.search(rf"\battune_{n}\(", texts)]


def undocumented(table):
    """Entries whose shapes, types or words are missing, from which docstrings are made."""
    for owner in table["structs"] + table["functions"]:
        for entry in owner.get("fields", []) + owner.get("arguments", []):
            needed = ["doc"] + (["shape", "dtypes", "access"] if entry["type"] == "tensor" else [])
            for key in needed:
                if not entry.get(key):
                    yield f"runtime/api/attune_api.json: {owner['name']}.{entry['name']} has no {key}"


def try_mistakes(table, headers):
    """Changes of the headers that must be found."""
    def with_field(h): h.structs["SdpaOptions"][1].append(("sparsity", "double", "0"))
    def without_field(h): h.structs["Dropout"][1].pop()
    def with_default(h): h.structs["RowSteps"][1][1] = ("norm_eps", "double", "1e-5")
    def with_type(h): h.structs["RowSteps"][1][1] = ("norm_eps", "std::int64_t", "1e-6")
    def with_struct(h): h.structs["SparseOptions"] = ("sdpa.h", [])
    def with_function(h): h.functions.append(("sdpa.h", "sparse_attention", ["Context &"]))
    def with_argument(h): h.functions[:] = [(a, n, (g or []) + ["const View &extra"] if n == "linear" else g)
                                            for a, n, g in h.functions]
    def with_value(h): h.enums["Causal"][1].append("tree")
    failures = []
    for change in (with_field, without_field, with_default, with_type, with_struct, with_function, with_argument, with_value):
        changed = Headers(ROOT / "runtime/include/attune")
        change(changed)
        found = Check(table, changed).all()
        if len(found) != 1:
            failures.append(f"tried {change.__name__}: found {found}")
    return failures


def main():
    table = json.loads((ROOT / "runtime/api/attune_api.json").read_text())
    headers = Headers(ROOT / "runtime/include/attune")
    wrong = Check(table, headers).all() + untested(table) + list(undocumented(table))
    if not wrong:
        wrong = try_mistakes(table, headers)
    print("\n".join([*wrong, f"{len(headers.structs)} structs, {len(headers.enums)} enums, {len(headers.functions)} functions, "
                             f"{len(wrong)} wrong"]))
    sys.exit(1 if wrong or len(headers.functions) < 30 else 0)


if __name__ == "__main__":
    main()
