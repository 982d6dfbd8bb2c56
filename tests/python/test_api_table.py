# SPDX-License-Identifier: MIT
"""The package is what the table of the API says (runtime/api/attune_api.json): every function, argument, option and default of
the table is in Python under its name, and Python has nothing that the table lacks. What differs is named here, with the reason.
"""
import ast
import json
import pathlib
import re

import attune
import attune.context_parallel
import pytest

TABLE = json.loads((pathlib.Path(__file__).resolve().parents[2] / "runtime" / "api" / "attune_api.json").read_text())
STRUCTS = {s["name"]: s["fields"] for s in TABLE["structs"]}
ENUMS = {e["name"]: [value[0] for value in e["values"]] for e in TABLE["enums"]}
FUNCTIONS = {f["name"]: f["arguments"] for f in TABLE["functions"]}

# Functions of the table that Python has otherwise.
NO_FUNCTIONS = {
    "merge_attentions": "merge_attention() takes any number of parts",
    "user_attention": "functions that define() returns",
    "user_attention_backward": "their method backward",
    "user_attention_over_ranks": "their methods ring_attention, gathered_attention, head_parallel_attention, sharded_decode",
    "user_attention_backward_over_ranks": "their method ring_attention_backward",
    "with_band": "plan_sdpa() takes causal and window",
    "packed_weight_extents": "the shape of what pack_linear_weight() returns",
    "variant": "an element of variants()",
    "target": "an element of targets()",
}
NAMES = set(attune.__all__) | set(attune.context_parallel.__all__)
# Functions and types of Python that the table lacks.
OWN = {
    "Attention": "result of several arrays",
    "BuildError": "a mistake in the source of define()",
    "Communicator": "the struct communicator, with functions of Python",
    "Context": "the class of context_create()",
    "DefinedAttention": "the functions that define() returns",
    "Heatmap": "the picture of heatmap()",
    "ParallelPlan": "the class of parallel_plan_create()",
    "UnsupportedError": "the status unsupported",
    "default_context": "the Context of calls that name none",
    "define": "attune_add_attention() of CMake",
    "doctor": "facts of several functions, as the program prints them",
    "heatmap": "the drawing of the program",
    "mpi_communicator": "the adapter of mpi4py",
    "rows_of": "the ranges of a plan as an index of NumPy",
    "version": "linked_version_string()",
}

# Fields of a struct have these names as arguments of Python, where several structs are arguments of one function.
RENAMED = {
    ("dropout", "probability"): "dropout_p",  # as in PyTorch
    ("dropout", "offset"): "dropout_offset",
    **{("dropout", name): f"dropout_{name}" for name in ("first_query", "first_key", "first_head", "heads")},
    **{("multi_head_weights", name): f"w_{name}" for name in ("query", "key", "value", "out")},
    **{("multi_head_weights", f"{name}_bias"): f"b_{name}" for name in ("query", "key", "value", "out")},
    **{("multi_head_weight_gradients", name): f"w_{name}" for name in ("query", "key", "value", "out")},
    **{("multi_head_weight_gradients", f"{name}_bias"): f"b_{name}" for name in ("query", "key", "value", "out")},
    **{("rope", field["name"]): f"rope_{field['name']}" for field in STRUCTS["rope"]},
    **{("shared_prefix", field["name"]): f"prefix_{field['name']}" for field in STRUCTS["shared_prefix"]},
}
# (function, argument or field of the table): why Python has no argument of this name.
MISSING = {
    ("dropout_mask", "mask"): "the argument out",
    ("masked_softmax_backward", "grad_scores"): "the argument out",
    ("masked_softmax_backward", "out"): "result, because out is what is written",
    ("merge_attention", "out_a"): "parts",
    ("merge_attention", "lse_a"): "parts",
    ("merge_attention", "out_b"): "parts",
    ("merge_attention", "lse_b"): "parts",
    ("pack_linear_weight", "packed"): "the argument out",
    ("plan_sdpa", "window_keys"): "of causal and window",
    ("plan_positions", "plan"): "the result",
    ("ring_attention_backward", "score_weight"): "no gradient: refused",
    ("rope_tables", "cos"): "a result, of positions and dim",
    ("rope_tables", "sin"): "a result, of positions and dim",
    ("alibi_slopes", "slopes"): "the result, a list",
    ("missing_variants", "line"): "the result, a text",
    ("variants", "count"): "the length of the result",
    ("targets", "count"): "the length of the result",
    ("variable_length_attention_backward", "bias"): "no gradient: refused",
    ("variable_length_attention_backward", "score_weight"): "no gradient: refused",
    ("transform_rows_backward", "grad_x"): "gradients, x",
    ("transform_rows_backward", "grad_weight"): "gradients, norm_weight",
}
# (function, argument of Python): why the table lacks it.
MORE = {
    ("dropout_mask", "shape"): "extents of mask",
    ("linear", "columns"): "an extent of out, which a packed weight does not say",
    ("masked_softmax_backward", "result"): "out of the forward pass",
    ("merge_attention", "parts"): "parts of merge_attentions()",
    ("plan_sdpa", "window"): "with_band()",
    ("rope_tables", "dim"): "an extent of the tables, times 2",
    ("rope_tables", "positions"): "an extent of the tables",
}
# Options of the forward pass that its gradients do not take: outputs, which must not be given, and what they hold.
FORWARD_ALONE = ("lse", "weights", "weights_mode", "average_weights")
# Structs of sizes, whose fields say by their names what they are.
PROBLEMS = ("sdpa_problem", "product_problem", "parallel_problem")
# Structs that are one argument of Python.
WHOLE = ("struct:window", "struct:pages", "struct:communicator")
COMMON = {"layout": "memory of results that are made", "detached": "tensors of autograd", "context": "argument of C and C++",
          "report": "a result, a dict that is filled"}
# (function, argument): why the default of the table is not Python's.
OTHER_DEFAULTS = {
    ("linear_backward", "x"): "None is taken, but stands before grad_out",
    ("linear_backward", "weight"): "None is taken, but stands before grad_out",
    ("plan_sdpa", "causal"): "of with_band(): a word",
    ("rope_tables", "scaling"): "1, as of RoPE within a call",
    ("transform_rows_backward", "positions"): "None is taken, but stands before grad_out",
}
# Arguments that may be positional in Python though they have defaults in the table or are fields of options.
REQUIRED = {("dropout_mask", "dropout_p"): "a mask without dropout is all True"}


def signature(name):
    """The arguments of a function of Python: {name: default}, ... where there is none; and its docstring."""
    text, doc = getattr(attune._attune, name).__nb_signature__[0][:2]
    arguments = ast.parse(text + ": ...").body[0].args
    all_of = [*arguments.posonlyargs, *arguments.args]
    values = [...] * (len(all_of) - len(arguments.defaults)) + [ast.literal_eval(d) for d in arguments.defaults]
    return {**dict(zip((a.arg for a in all_of), values)),
            **{a.arg: ast.literal_eval(d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults)}}, doc


def default_of(entry):
    """The default of a table's argument in Python."""
    kind, value = entry["type"], entry.get("default", ...)
    if kind.startswith("enum:"):
        return None if value == "none" else value
    if kind in ("string", "struct:window"):
        return None if value in ("", {}) else value
    return float(value) if kind == "double" and value is not ... else value


def flat(entries, struct=None):
    """The arguments of Python that those of a table become: (name, default, entry). Structs become their fields."""
    for entry in entries:
        kind, name = entry["type"], entry["name"]
        if kind.startswith("struct:") and kind not in WHOLE and entry.get("access") != "write":
            inner = kind.removeprefix("struct:")
            yield from flat(STRUCTS[inner], inner)
        elif kind.startswith("struct:") and entry.get("access") == "write" and kind != "struct:pages":
            continue  # the result, a dict: test_results
        elif kind not in ("reserved", "function", "pointer"):
            yield RENAMED.get((struct, name), name), default_of(entry), {**entry, "struct": struct}


def is_gradient(entry):
    return (entry["struct"] or "").endswith("_gradients")


def compare(function, entries, arguments, doc):
    """All that differs between the table and Python."""
    found, known = [], set(COMMON)
    for name, default, entry in flat(entries):
        if is_gradient(entry):
            known.add("gradients")
            if (function, name) in MISSING:
                continue
            listed = re.search(r"gradients wanted by name: ([^.]*)", doc.replace("\n", " "))
            if not listed or not re.search(rf"\b{name}\b", listed[1]):
                found.append(f"{function}: the docstring has no gradient {name}")
            continue
        of_forward = function.endswith("_backward") and entry["struct"] == "sdpa_options" and name in FORWARD_ALONE
        if of_forward or (function, name) in MISSING and entry["struct"] != "sdpa_options":
            continue
        known.add(name)
        if name not in arguments:
            found.append(f"{function}: {name} is not in Python")
            continue
        if entry.get("access") == "write" and entry["type"] == "tensor" and default is ...:
            default = None if name == "out" else ...  # a new array
        if (function, name) not in OTHER_DEFAULTS and (function, name) not in REQUIRED and arguments[name] != default:
            found.append(f"{function}: default of {name} is {arguments[name]!r}, in the table {default!r}")
        for word in ENUMS.get(entry["type"].removeprefix("enum:"), ()):
            if default_of(entry) is not ... and word != "none" and f'"{word}"' not in doc and entry["struct"] not in PROBLEMS:
                found.append(f"{function}: the docstring has no {word} of {name}")
        if "doc" in entry and entry["struct"] not in PROBLEMS and not re.search(rf"^    {name}: \S", doc, re.M):
            if "Args:" in doc:
                found.append(f"{function}: {name} is not described")
    for name in arguments:
        if name not in known and (function, name) not in MORE and not (name == "out" and writes_alone(function)) and not (
                name == "gradients" and function == "transform_rows_backward"):
            found.append(f"{function}: {name} is not in the table")
    return found


def writes_alone(function):
    """Whether out is the one output that the table calls otherwise."""
    return any(f == function and reason == "the argument out" for (f, _), reason in MISSING.items())


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in NO_FUNCTIONS])
def test_function(name):
    arguments, doc = signature(name)
    assert not (found := compare(name, FUNCTIONS[name], arguments, doc)), "\n".join(found)


def test_names():
    assert set(FUNCTIONS) - set(NO_FUNCTIONS) <= NAMES
    assert NAMES - set(FUNCTIONS) == set(OWN)
    listed = {name for table in (MISSING, MORE, OTHER_DEFAULTS, REQUIRED) for name, _ in table}
    assert listed | set(NO_FUNCTIONS) <= set(FUNCTIONS), "an exception names no function"
    for table in (MORE, OTHER_DEFAULTS, REQUIRED):
        for function, argument in table:
            assert argument in signature(function)[0], f"{function}, {argument}: no exception is needed"
    for function, argument in MISSING:
        names = set(signature(function)[0]) - {"out"} - ({"bias", "score_weight"} if function.endswith("_backward") else set())
        assert argument not in names, f"{function}, {argument}: is in Python"


def test_context():
    text = attune.Context.__init__.__nb_signature__[0]
    names = re.findall(r"(\w+): [\w |]+ = ", text[0])
    fields = {f["name"]: f for f in (*STRUCTS["context_options"], *STRUCTS["device_options"])}
    assert dict(zip(names, text[2])) == {name: fields[name]["default"] for name in names}
    # No functions of Python as an allocator; the device is that of the arrays, its CUDA context the primary one.
    missing = {"allocator", "device", "cuda_context", "cuda_device", "cpu_instead", "workspace", "workspace_bytes", "reserved"}
    assert set(fields) - set(names) == missing


@pytest.mark.parametrize("struct, made", [
    ("variant_info", lambda: attune.variants()[0]), ("target_info", lambda: attune.targets()[0]),
    ("parallel_forecast", lambda: attune.context_parallel.forecast_parallel(
        attune.context_parallel.plan_positions(8, 2, "striped"), "ring")),
    ("thread_defaults", attune.default_threads), ("plan", attune.plan_sdpa), ("product_plan", attune.plan_product),
    ("plan_candidate", lambda: attune.plan_sdpa(keys=64, head_dim=64, value_dim=64)["candidates"][0]),
])
def test_results(struct, made):
    assert set(made()) == {f["name"] for f in STRUCTS[struct] if f["type"] != "reserved"}


@pytest.mark.parametrize("change, said", [
    (lambda a, f: a.pop("softcap"), "softcap is not in Python"),
    (lambda a, f: a.update(softcap=1.0), "default of softcap is 1.0, in the table 0.0"),
    (lambda a, f: a.update(extra=None), "extra is not in the table"),
    (lambda a, f: f.append({"name": "more", "type": "tensor", "access": "read", "doc": "-"}), "more is not in Python"),
])
def test_mistakes_are_found(change, said):
    name = "scaled_dot_product_attention"
    arguments, doc = signature(name)
    entries = list(FUNCTIONS[name])
    change(arguments, entries)
    assert compare(name, entries, arguments, doc) == [f"{name}: {said}"]
