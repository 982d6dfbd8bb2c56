#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records that a user writes are checked when they are read, with a line for each mistake; each record of this tree has a time
or says that there is none: check_records.py CMAKE SOURCE_DIR."""
import json
import pathlib
import subprocess
import sys
import tempfile

cmake, source = sys.argv[1], pathlib.Path(sys.argv[2])
PROJECT = f"""cmake_minimum_required(VERSION 3.28)
project(records NONE)
set(ATTUNE_SOURCE_DIR {source})
set(ATTUNE_OP_ATTENTION_mine TRUE)
include({source}/cmake/attune_parameters.cmake)
attune_read_targets()
foreach(op masked_softmax mine)
  foreach(target IN LISTS ATTUNE_KNOWN_TARGETS)
    attune_list_variants(${{op}} ${{target}})
  endforeach()
endforeach()
"""
PREFILL = {"dtype": "f32", "head_dim": 64, "schedule": "prefill", "class": "long",
           "parameters": {"kv_block": 128, "tile_q": 64, "key_tile": 4, "channel_tile": 4}, "provenance": {"how": "by hand"}}
ROWS = {"dtype": "f64", "head_dim": 0, "schedule": "rows", "class": "", "parameters": {"block": 32, "task_rows": 8}}


def changed(record, parameters=None, without=None, **fields):
    record = {**record, "parameters": {**record["parameters"], **(parameters or {})}, **fields}
    record["parameters"].pop(without, None)
    return record


def configure(work, files, path=None):
    """CMake's exit code and errors for the files, given by their place in a folder."""
    with tempfile.TemporaryDirectory(dir=work) as name:
        folder = pathlib.Path(name)
        (folder / "CMakeLists.txt").write_text(PROJECT)
        for place, records in files.items():
            file = folder / "parameters" / place
            file.parent.mkdir(parents=True, exist_ok=True)
            op, target = file.parent.name, file.stem
            file.write_text(json.dumps({"schema": 1, "op": op, "target": target, "records": records}))
        done = subprocess.run([cmake, "-S", folder, "-B", folder / "build", 
                               f"-DATTUNE_SCHEDULE_PATH={path or folder / 'parameters'}"], capture_output=True, text=True)
        return done.returncode, done.stderr


def refuses(work, words, files, path=None):
    code, said = configure(work, files, path)
    assert code != 0, f"taken: {files}"
    assert any(words in line for line in said.splitlines()), f"{words} is in no line of\n{said}"


def check(work, op, target, records):
    """The lines of check_parameters.py for a file."""
    file = pathlib.Path(work, f"{op}_{target}.json")
    file.write_text(json.dumps({"schema": 1, "op": op, "target": target, "records": records}))
    like = "sdpa" if op == "mine" else op
    done = subprocess.run([sys.executable, source / "cmake/check_parameters.py", source / "schedules", f"{op}={like}:{file}"],
                          capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert done.returncode == bool(lines) and not done.stderr, done
    return lines


def without_figures(source):
    """Records of this tree with parameters and neither a time nor "measured": false and a reason; coefficients likewise."""
    for file in sorted((source / "schedules").glob("*/tuned/*.json")):
        for n, record in enumerate(json.loads(file.read_text())["records"]):
            of = record.get("provenance", {})
            fields = {"how"} if of.get("measured") is False else {"us", "shape", "command", "hardware", "date", "how"}
            share = of.get("percent_of_peak", 100)
            if record.get("parameters") and not (all(of.get(f) for f in fields) and 0 < share <= 100):
                yield f"{file}: record {n}: neither a time nor \"measured\": false with a reason: {of}"
    for file in sorted((source / "schedules").glob("*/costs/*.json")):
        costs = json.loads(file.read_text())
        if not all(costs["provenance"].get(field) for field in ("command", "hardware", "date")):
            yield f"{file}: provenance {costs['provenance']}"
        yield from (f"{file}: {key}" for key, cost in costs["costs"].items() if not (cost.get("us") and cost.get("shape")))


WRONG = [
    ('class "lnog" is none of "keys2048", "long", "medium"', changed(PREFILL, **{"class": "lnog"})),
    ('schedule "prefetch" is none of "amx", "bf16_dot", "decode"', changed(PREFILL, schedule="prefetch")),
    ('dtype "float32" is none of "bf16", "bool", "f16", "f32", "f64"', changed(PREFILL, dtype="float32")),
    ('kind "score" is none of', changed(PREFILL, kinds=["plain", "score"])),
    ('field "kind" is none of', changed(PREFILL, kind="scored")),
    ('head_dim is "64"', changed(PREFILL, head_dim="64")),
    ("key_tile is missing", changed(PREFILL, without="key_tile")),
    ("tile_k is no parameter of prefill", changed(PREFILL, {"tile_k": 4})),
    ("kv_block is 64.5, no whole number", changed(PREFILL, {"kv_block": 64.5})),
    ("tile_q 1024 is none of 16, 32, 48", changed(PREFILL, {"tile_q": 1024})),
    ("kv_block 32 is no multiple of key_tile 12", changed(PREFILL, {"kv_block": 32, "key_tile": 12})),
    ("scores and their operands: 137 of 32 registers", changed(PREFILL, {"tile_q": 128, "key_tile": 16})),
    ("channel_tile 12 does not divide the head size 64", changed(PREFILL, {"tile_q": 16, "channel_tile": 12})),
    ("root depends on no target", {"dtype": "f32", "head_dim": 0, "schedule": "root", "class": ""}),
]
RIGHT = [PREFILL, changed(PREFILL, {"kv_block": 96}, head_dim=0, dtype="bf16", kinds=["scored", "training"])]
with tempfile.TemporaryDirectory() as work:
    assert check(work, "sdpa", "zen4", RIGHT) == []
    said = check(work, "sdpa", "zen4", RIGHT + [record for _, record in WRONG])
    assert len(said) == len(WRONG), said
    for n, (words, _) in enumerate(WRONG):
        assert f"zen4.json: record {n + 2}: {words}" in said[n], f"{words}: {said[n]}"
    untimed = list(without_figures(source))
    assert not untimed, "\n".join(untimed)
    # check_parameters.py takes the files of this tree, too; tests of the tuner check more of them.
    tuned = [(f.parent.parent.name, f) for f in sorted((source / "schedules").glob("*/tuned/*.json"))]
    done = subprocess.run([sys.executable, source / "cmake/check_parameters.py", source / "schedules",
                           *(f"{op}:{file}" for op, file in tuned)], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done

    own = changed(PREFILL, {"tile_q": 8, "channel_tile": 2}, head_dim=0)
    code, said = configure(work, {"masked_softmax/avx2.json": [ROWS], "mine/generic.json": [own]})
    assert code == 0, said
    refuses(work, "generic.json: record 1: task_rows is missing",
            {"masked_softmax/generic.json": [ROWS, changed(ROWS, without="task_rows")]})
    refuses(work, 'mine/avx2.json: record 0: class "" is none of', {"mine/avx2.json": [changed(own, **{"class": ""})]})
    refuses(work, "masked_sofmax/avx2.json: no parameters are read from there", {"masked_sofmax/avx2.json": [ROWS]})
    refuses(work, "parameters/avx2.json: no parameters are read from there", {"avx2.json": [ROWS]})
    refuses(work, "masked_softmax/avx3.json: there is no target avx3", {"masked_softmax/avx3.json": [ROWS]})
    refuses(work, "ATTUNE_SCHEDULE_PATH: there is no folder", {"masked_softmax/avx2.json": [ROWS]}, path="nowhere")
print("records: taken and refused as they should be")
