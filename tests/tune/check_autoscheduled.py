#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Schedules by Halide's autoschedulers still make right kernels of today's algorithm: check_autoscheduled.py PROGRAM BUILD.
A baseline that cannot be made would leave the benchmarks unseen."""
import os
import pathlib
import subprocess
import sys
import tempfile

program, build = sys.argv[1:3]
CONTENDERS = ["in use=prefill", "Mullapudi2016=mullapudi2016 kv_block=128", "Adams2019=adams2019 kv_block=128"]


def compare(folder, contenders):
    done = subprocess.run([program, "compare", "sdpa", "--build", build, "--shapes", folder / "shapes.csv", "--processes", "1",
                           *(word for c in contenders for word in ("--contender", c))],
                          capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")})
    rows = {line.split("|")[1].strip(): line for line in done.stdout.splitlines() if line.startswith("|")}
    return done, rows


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    # Queries as many as Adams2019 was asked for: it refuses fewer.
    (folder / "shapes.csv").write_text("name,op,dtype,b,h,kv,q,k,d,dv\n1024x64,sdpa,f32,1,8,8,1024,256,64,64\n")
    done, rows = compare(folder, CONTENDERS)
    assert done.returncode == 0, done.stdout + done.stderr
    for contender in CONTENDERS:
        label = contender.split("=")[0]
        assert " to " in rows[label], f"{label} was not timed: {rows[label]}"
    # One that cannot be made is a failure of the command, which prints the others all the same.
    done, rows = compare(folder, [CONTENDERS[0], "stale=prefill kv_block=100 tile_q=64 key_tile=8 channel_tile=4"])
    assert done.returncode == 1 and "stale: kv_block is 100, must be a multiple" in done.stderr, done
    assert " to " in rows["in use"], done.stdout
print("autoschedulers' baselines: made, right and timed")
