# SPDX-License-Identifier: MIT
"""Failures of the machine: one line, exit code 1, and no file half written or left behind."""
import os
import resource
import signal
import subprocess

import numpy as np
import pytest


def fails(problem, argument, limit, *more, **files):
    before = problem.files()
    done = problem.run(*more, limit=limit, **files)
    assert (done.returncode, done.stdout) == (1, ""), done
    assert done.stderr.startswith(f"attune: {argument}: ") and done.stderr.count("\n") == 1, done.stderr
    assert problem.files() == before


def no_files_beyond(size):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that writing answers an error, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return limit


def test_disk_full(problem):
    (problem.folder / "o.npy").write_bytes(b"old")
    fails(problem, "--out", no_files_beyond(64))
    # The arrays fit, the picture does not: none is kept.
    fails(problem, "--heatmap", no_files_beyond(2000), "--lse", "lse.npy", "--weights", "w.npy", "--heatmap", "w.svg")
    assert (problem.folder / "o.npy").read_bytes() == b"old"


def test_stopped_by_a_limit(problem):
    """A signal in the middle of a file, which nobody has told the program to ignore."""
    (problem.folder / "o.npy").write_bytes(b"old")
    before = problem.files()
    done = problem.run("--heatmap", "w.svg", "--weights", "w.npy",
                       limit=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)))
    assert done.returncode == -signal.SIGXFSZ and problem.files() == before


def half_written(folder):
    try:
        return any(p.stat().st_size > 1 << 20 for p in folder.glob(".attune-*"))
    except FileNotFoundError:  # whole by now
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(attune, tmp_path, number):
    """In the middle of writing: no output, and no temporary file."""
    command = [attune.path, "run", "dropout-mask", "--shape", "1,1,8192,16384", "--dropout", "0.1", "--out", "mask.npy"]
    for _ in range(20):
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE,
                                   preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
        while process.poll() is None and not half_written(tmp_path):
            pass
        process.send_signal(number)
        process.communicate()
        if process.returncode == -number:
            assert list(tmp_path.iterdir()) == []
            return
        (tmp_path / "mask.npy").unlink()
    pytest.fail("no signal came while the file was written")


def test_no_memory(problem):
    if os.environ.get("ATTUNE_SANITIZED") == "1":
        pytest.skip("the address sanitizer cannot run in limited address space")
    problem.save(q=np.ones((1, 1, 20000, 1), np.float32), k=np.ones((1, 1, 1, 1), np.float32),
                 v=np.ones((1, 1, 1, 20000), np.float32))
    size = 1 << 30
    fails(problem, "memory", lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)))


def test_nobody_listens(attune):
    with open("/dev/full", "w") as full:
        for command in (["variants"], ["variants", "--json"], ["doctor"]):
            done = attune(*command, stdout=full)
            assert done.returncode == 1 and done.stderr == "attune: standard output: cannot be written\n"
