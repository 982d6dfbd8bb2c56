# SPDX-License-Identifier: MIT
"""`attune tune` on three ranks, as mpirun starts them: rank 0 alone measures, and others build candidates for it.

check_ranks.py PROGRAM BUILD: a run of three ranks ends well on all of them, and measures no candidate twice; a rank that is
killed does not stop the others; and where rank 0 is killed, the others end. With mpirun, a run that it starts, too.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

program, build = sys.argv[1:3]
SHAPES = "name,op,dtype,b,h,q,k\nsmall,masked_softmax,f32,1,4,64,256\n"
SILENCE = 5
MPIRUN = shutil.which("mpirun")


def command(folder):
    return [program, "tune", "masked_softmax", "--build", build, "--time", "0.2", "--shapes", folder + "/shapes.csv",
            "--records", folder + "/records.jsonl", "--out", folder + "/parameters", "--jobs", "1", "--silence", str(SILENCE)]


def start(folder, rank, size=3):
    """A rank, with a cache of its own, as on a host of its own."""
    launcher = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(size)}
    environment = {**os.environ, **launcher, "XDG_CACHE_HOME": f"{folder}/cache{rank}"}
    return subprocess.Popen(command(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                            start_new_session=True)


def end(process, limit=240):
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise SystemExit(f"a rank hangs: {process.communicate()}") from None
    return process.returncode, out, err


def built_by_others(out):
    return int(re.search(r"candidates built by other ranks: (\d+)", out)[1])


def with_folder(check):
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/shapes.csv", "w") as file:
            file.write(SHAPES)
        check(folder)
        left = [name for name in os.listdir("/proc") if name.isdigit() and folder in command_line(name)]
        assert not left, f"still running: {left}"


def command_line(process):
    try:
        with open(f"/proc/{process}/cmdline") as file:
            return file.read()
    except OSError:
        return ""


def all_ranks(folder):
    ranks = [start(folder, rank) for rank in range(3)]
    results = [end(rank) for rank in ranks]
    assert [code for code, _, _ in results] == [0, 0, 0], results
    assert "masked_softmax_f32" in results[0][1] and not results[1][1] and not results[2][1], results
    built = sum(int(re.search(r"rank \d: (\d+) candidates built", err)[1]) for _, _, err in results[1:])
    assert built_by_others(results[0][1]) == built > 0, results
    assert not os.path.exists(folder + "/records.jsonl.ranks")
    with open(folder + "/records.jsonl") as file:
        keys = [json.dumps([record["key"], record["parameters"]], sort_keys=True) for record in map(json.loads, file)]
    assert len(keys) == len(set(keys)), "a candidate was measured twice"
    print(f"three ranks: {built} candidates built by two of them, {len(keys)} records")


def killed_builder(folder):
    ranks = [start(folder, rank) for rank in range(3)]
    claims = folder + "/records.jsonl.ranks/claims"
    until = time.monotonic() + 120
    while time.monotonic() < until and ranks[0].poll() is None:
        if os.path.isdir(claims) and any(name.endswith(".1") for name in os.listdir(claims)):
            break
        time.sleep(0.002)
    os.killpg(ranks[1].pid, signal.SIGKILL)
    ranks[1].communicate()
    results = [end(ranks[0]), end(ranks[2])]
    assert [code for code, _, _ in results] == [0, 0], results
    assert "the search had nothing more to ask" in results[0][2] or "time is up" in results[0][2], results
    print("a rank was killed: the others ended well")


def killed_leader(folder):
    ranks = [start(folder, rank) for rank in range(3)]
    beats = [f"{folder}/records.jsonl.ranks/beats/{rank}" for rank in (1, 2)]  # written by a rank that has seen rank 0
    until = time.monotonic() + 120
    while not all(map(os.path.exists, beats)) and time.monotonic() < until:
        time.sleep(0.01)
    os.killpg(ranks[0].pid, signal.SIGKILL)
    ranks[0].communicate()
    for rank in ranks[1:]:
        code, _, err = end(rank, 60)
        assert code == 1 and "rank 0 is silent" in err, err
    print("rank 0 was killed: the others said so")


def by_mpirun(folder):
    version = subprocess.run([MPIRUN, "--version"], capture_output=True, text=True).stdout
    options = ["--allow-run-as-root", "--oversubscribe"] if "Open MPI" in version else []
    done = subprocess.run([MPIRUN, *options, "-n", "2", *command(folder)], capture_output=True, text=True, timeout=240,
                          env={**os.environ, "XDG_CACHE_HOME": folder + "/cache"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "candidates built by other ranks" in done.stdout and "rank 1: " in done.stderr, done.stdout + done.stderr
    print("by mpirun:", re.search(r"rank 1: .*", done.stderr)[0])


def main():
    for name in list(os.environ):
        if name.startswith(("OMPI_", "PMI_", "PMIX_")):
            del os.environ[name]
    for check in (all_ranks, killed_builder, killed_leader, *([by_mpirun] if MPIRUN else [])):
        with_folder(check)


main()
