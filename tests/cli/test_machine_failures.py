"""What the machine refuses: one line, exit code 1, and no file half written or left behind."""
import os
import resource
import signal

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
