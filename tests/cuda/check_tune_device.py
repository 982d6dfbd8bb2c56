# SPDX-License-Identifier: MIT
"""`attune explain`, `tune --dispatch` and `compare --dispatch` with --device, of a program whose GPU is an interpreter of PTX.

check_tune_device.py PROGRAM BUILD. Its times are those of the interpreter: they are fitted, written and used, and say nothing
of a GPU.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

program, build = sys.argv[1:3]


def run(*words, driver=True):
    environment = dict(os.environ)
    if not driver:
        environment.pop("LD_LIBRARY_PATH", None)
    return subprocess.run([program, *words], capture_output=True, text=True, env=environment)


def candidates(text):
    return [(name, float(us)) for name, us in re.findall(r"^\| (\S+_cuda80_\S+) \| ([-+.e0-9]+) \|", text, re.M)]


# The variant that runs is the first of the candidates, which are in order.
for words, schedule in [(("sdpa", "h=8", "kv=2", "q=1", "k=4096", "d=64"), "split"),
                        (("sdpa", "h=8", "q=256", "k=256", "d=64"), ""), (("linear", "q=8", "d=512", "dv=512"), "rows15")]:
    said = run("explain", "--device", *words)
    assert said.returncode == 0, said.stderr
    listed = candidates(said.stdout)
    assert len(listed) > 2 and [us for _, us in listed] == sorted(us for _, us in listed), said.stdout
    assert said.stdout.split("\n")[1] == listed[0][0] + ": least predicted time", said.stdout
    assert schedule in listed[0][0] and (schedule or "split" not in listed[0][0]), said.stdout
    assert "by rule" in said.stdout, said.stdout

with tempfile.TemporaryDirectory() as folder:
    shapes = pathlib.Path(folder, "shapes.csv")
    # More than there is time for, so that none of the grid, which is made for a GPU, is interpreted.
    rows = [f"{q}x{k},sdpa,f32,1,2,1,{q},{k},64,64" for q in (1, 2, 5, 9) for k in range(8, 120, 2)]
    shapes.write_text("name,op,dtype,b,h,kv,q,k,d,dv\n" + "\n".join(rows) + "\n")
    out, log = f"{folder}/out", f"{folder}/times.jsonl"
    tune = ("tune", "sdpa", "--dispatch", "--device", "--build", build, "--shapes", str(shapes), "--time", "0.01", "--out", out,
            "--records", log)
    done = run(*tune)
    assert done.returncode == 0, done.stderr
    assert "written to sdpa/costs/cuda80_as_ptx.json" in done.stdout and "the time was over" in done.stdout, done.stdout
    costs = json.loads(pathlib.Path(out, "sdpa/costs/cuda80_as_ptx.json").read_text())
    assert costs["target"] == "cuda80_as_ptx" and costs["provenance"]["command"].endswith("--device"), costs
    for key, record in costs["costs"].items():
        assert key.startswith("f32/") and len(record["cost"]) == 7 and min(record["cost"]) >= 0, (key, record)
        assert 0 < sum(c != 0 for c in record["cost"]) <= 6, (key, record)
    assert {key.split("/")[2] for key in costs["costs"]} >= {"mma_split", "simt", "mma"}, list(costs["costs"])
    measured = len(pathlib.Path(log).read_text().split("\n"))
    assert run(*tune).returncode == 0
    assert len(pathlib.Path(log).read_text().split("\n")) > measured, "a second run does not go on"

    shapes.write_text("name,op,dtype,b,h,kv,q,k,d,dv\n" + "\n".join(rows[:2]) + "\n")
    regret = run("compare", "sdpa", "--dispatch", "--device", "--shapes", str(shapes))
    assert regret.returncode == 0 and "regret: median" in regret.stdout, regret.stdout + regret.stderr

for words, says in [(("explain", "cosine", "--device", "q=1"), "cosine: must be sdpa, additive or linear"),
                    (("tune", "batch_dot", "--dispatch", "--device"), "batch_dot: dispatch has no choice among variants of it"),
                    (("compare", "cosine", "--dispatch", "--device"), "cosine: has no tuned variants")]:
    wrong = run(*words)
    assert wrong.returncode == 2 and f"attune: {says}" in wrong.stderr, wrong.stderr
missing = run("explain", "sdpa", "--device", "q=1", driver=False)
assert missing.returncode == 1 and "attune: device: there is no CUDA driver" in missing.stderr, missing.stderr
