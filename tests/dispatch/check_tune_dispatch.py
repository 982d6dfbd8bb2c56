# SPDX-License-Identifier: MIT
"""`attune tune --dispatch`: goes on after kill -9, writes what the table says, and notices a machine that is busy.

check_tune_dispatch.py PROGRAM BUILD. Where others load the machine, it writes nothing, and what a quiet one shows is skipped.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

program, build = sys.argv[1:3]


def command(folder, minutes):
    return [program, "tune", "linear_packed", "--dispatch", "--build", build, "--time", str(minutes), "--out", f"{folder}/out",
            "--records", f"{folder}/times.jsonl"]


def shapes_in(file):
    measured = []
    for line in pathlib.Path(file).read_text().split("\n") if os.path.exists(file) else []:
        try:
            measured.append(json.loads(line)["shape"])
        except (json.JSONDecodeError, KeyError):
            pass
    return measured


def run(folder, minutes):
    return subprocess.run(command(folder, minutes), capture_output=True, text=True)


with tempfile.TemporaryDirectory() as folder:
    log = f"{folder}/times.jsonl"
    variants = json.loads(subprocess.run([program, "variants", "--json"], capture_output=True, text=True).stdout)
    if not any(v["op"] == "linear_packed" and v["runs_here"] and v["schedule"] != "root" for v in variants):
        print("SKIPPED: no tuned kernels of linear_packed run here")
        sys.exit(0)
    for _ in range(3):
        process = subprocess.Popen(command(folder, 5), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        time.sleep(1.5)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    before = shapes_in(log)
    for _ in range(3):
        done = run(folder, 0.15)
        if "other processes loaded the machine during" not in done.stderr:
            break
    else:
        assert done.returncode == 1 and not os.path.exists(f"{folder}/out"), done.stdout + done.stderr
        print("SKIPPED: other processes load this machine")
        sys.exit(0)
    assert done.returncode == 0, done.stderr
    after = shapes_in(log)
    assert before == after[:len(before)] and len(set(after)) == len(after), "a shape was measured twice"
    print(f"{len(before)} shapes before, {len(after)} after the last run")

    # Coefficients stay, or are written and the table says so. Which of the two, the times of this machine decide: fit_tests.cpp
    # has the decision itself, with made-up times.
    kept = "| kept: " in done.stdout
    assert kept != ("written to linear_packed/costs/" in done.stdout), done.stdout
    assert os.path.exists(f"{folder}/out") != kept, done.stdout
    measured = [v["cost_measured"] for v in variants
                if v["op"] == "linear_packed" and v["runs_here"] and v["schedule"] != "root"]
    assert not kept or all(measured), "coefficients by rule were kept"

    # All cores busy: times are not used.
    os.remove(log)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
    try:
        done = run(folder, 0.15)
    finally:
        for process in busy:
            process.kill()
    assert done.returncode == 1, done.stdout
    assert "other processes loaded the machine during" in done.stderr, done.stderr
    assert shapes_in(log) == [], "times of a busy machine are in the log"

    wrong = subprocess.run([program, "tune", "masked_softmax", "--dispatch"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "no choice among variants" in wrong.stderr, wrong.stderr
