#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Parameters that `attune tune` writes run after the next build: check_retuned.py CMAKE BUILD_DIR PROGRAM PARAMETERS_DIR.

PROGRAM is `attune` with an archive of parameters of PARAMETERS_DIR (attune_add_variants), built here: first of parameters that
are slow beyond doubt, then of those that the tuner found instead.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy

cmake, build, program, folder = sys.argv[1], sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
SLOW = {"task_rows": 2, "block": 16}
SHAPES = "name,op,dtype,b,h,q,k\nshort,masked_softmax,f32,1,4,2048,16\n"  # a task of two such rows is next to no work


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout}"
    return done.stdout


def text_of(parameters):
    return " ".join(f"{name}={parameters[name]}" for name in sorted(parameters))


def parameters_of_a_call(work):
    """The lines of ATTUNE_VERBOSE=1 and of `attune variants` on the variant that a call takes."""
    numpy.save(work / "scores.npy", numpy.linspace(-1, 1, 200 * 300, dtype=numpy.float32).reshape(200, 300))
    said = run(program, "run", "masked-softmax", "--scores", work / "scores.npy", "--out", work / "out.npy",
               env={**os.environ, "ATTUNE_VERBOSE": "1"})
    name = re.search(r"masked_softmax_f32_\w+_rows", said).group()
    listed = [v for v in json.loads(run(program, "variants", "--json")) if v["name"] == name]
    assert len(listed) == 1 and listed[0]["parameters"] in said, f"{listed}\n{said}"
    return listed[0]


def main():
    for written in folder.glob("masked_softmax/*.json"):
        record = json.loads(written.read_text())
        record["records"][0]["parameters"] = SLOW
        record["records"][0]["provenance"] = {"how": "slow on purpose"}
        written.write_text(json.dumps(record))
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        environment = {**os.environ, "XDG_CACHE_HOME": str(work / "cache")}
        run(cmake, "--build", build, "--target", "attune_retuned")
        before = parameters_of_a_call(work)
        assert before["parameters"] == text_of(SLOW) and "slow on purpose" in before["provenance"], before

        (work / "shapes.csv").write_text(SHAPES)
        said = run(program, "tune", "masked_softmax", "--build", build, "--time", "0.4", "--shapes", work / "shapes.csv",
                   "--records", work / "records.jsonl", "--out", folder, env=environment)
        file = folder / "masked_softmax" / f"{before['target']}.json"
        found = [r for r in json.loads(file.read_text())["records"] if r["dtype"] == "f32" and r["schedule"] == "rows"]
        assert len(found) == 1 and found[0]["parameters"] != SLOW, f"nothing was found that is better\n{said}"

        run(cmake, "--build", build, "--target", "attune_retuned")
        after = parameters_of_a_call(work)
        assert after["name"] == before["name"] and after["dispatched"], after
        assert after["parameters"] == text_of(found[0]["parameters"]), after
        print(f"{after['name']}: {before['parameters']}, tuned to {after['parameters']}, which is what runs")


main()
