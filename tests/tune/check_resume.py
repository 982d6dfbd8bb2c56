# SPDX-License-Identifier: MIT
"""A run of the tuner that is killed at random moments goes on where it was, and ends as one that is not killed does.

check_resume.py PROGRAM BUILD: kills `attune tune` 12 times. After each kill every finished candidate is in the file of records,
and in the end none was measured twice.
"""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

program, build = sys.argv[1:3]
SHAPES = "name,op,dtype,b,h,q,k\nsmall,masked_softmax,f32,1,4,64,256\n"


def command(folder, minutes):
    return [program, "tune", "masked_softmax", "--build", build, "--time", str(minutes), "--shapes", folder + "/shapes.csv",
            "--records", folder + "/records.jsonl", "--out", folder + "/parameters", "--jobs", "1"]


def complete_records(folder):
    try:
        with open(folder + "/records.jsonl") as file:
            lines = file.read().split("\n")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines[:-1] if complete(line)]  # after the last newline: nothing, or what was cut off


def complete(line):
    try:
        json.loads(line)
        return True
    except json.JSONDecodeError:
        return False


def main():
    seed = random.SystemRandom().randrange(1 << 31)
    print("seed", seed)
    random.seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/shapes.csv", "w") as file:
            file.write(SHAPES)
        environment = dict(os.environ, XDG_CACHE_HOME=folder + "/cache")
        finished, killed = 0, 0
        while killed < 12:
            run = subprocess.Popen(command(folder, 5), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env=environment, start_new_session=True)
            try:
                _, said = run.communicate(timeout=random.uniform(0.05, 2.5))
                assert run.returncode == 0, said
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)
                _, said = run.communicate()
                killed += 1
            told = sum(": timed" not in line and (" of the start" in line or "rejected" in line) and
                       "known before" not in line and "earlier one" not in line for line in said.splitlines())
            now = len(complete_records(folder))
            assert now >= finished + told, f"{finished} records, {told} candidates were finished, then {now} records"
            finished = now
            if run.returncode == 0:
                killed += 1  # it was quicker than the kill
        last = subprocess.run(command(folder, 5), capture_output=True, text=True, env=environment)
        assert last.returncode == 0, last.stderr
        assert "masked_softmax_f32" in last.stdout, last.stdout
        records = complete_records(folder)
        keys = [json.dumps([record["key"], record["parameters"]], sort_keys=True) for record in records]
        assert len(keys) == len(set(keys)), "a candidate was measured twice"
        time.sleep(0.5)
        left = [name for name in os.listdir("/proc") if name.isdigit() and folder in command_line(name)]
        assert not left, f"still running: {left}"
        print(f"killed {killed} times, {len(records)} candidates")
        print(last.stdout)


def command_line(process):
    try:
        with open(f"/proc/{process}/cmdline") as file:
            return file.read()
    except OSError:
        return ""


main()
