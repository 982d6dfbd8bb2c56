"""The program under test, as a function, and a folder with a small problem in it."""
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

NOTES = []


def note(text):
    """A line for the end of the report, also where every test passes."""
    NOTES.append(text)


def pytest_terminal_summary(terminalreporter):
    for text in NOTES:
        terminalreporter.write_line(text)


class Program:
    def __init__(self, path):
        self.path = path

    def __call__(self, *arguments, cwd=None, env=None, limit=None, stdout=subprocess.PIPE):
        """limit: a function that runs in the new process before the program does."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ATTUNE_")}
        return subprocess.run([self.path, *map(str, arguments)], cwd=cwd, env={**clean, **(env or {})}, stdout=stdout,
                              stderr=subprocess.PIPE, timeout=300, encoding="utf-8", preexec_fn=limit)


@pytest.fixture(scope="session")
def attune():
    path = os.environ.get("ATTUNE_PROGRAM")
    assert path, "ATTUNE_PROGRAM must name the program to test"
    return Program(path)


class Problem:
    """q.npy, k.npy and v.npy in a folder; run() runs `attune run sdpa` on them."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def save(self, **arrays):
        for name, array in arrays.items():
            np.save(self.folder / f"{name}.npy", array)

    def load(self, name):
        return np.load(self.folder / f"{name}.npy", allow_pickle=False)

    def files(self):
        """Every file with its contents."""
        return {p.relative_to(self.folder): p.read_bytes() for p in sorted(self.folder.rglob("*")) if p.is_file()}

    def run(self, *more, query="q.npy", key="k.npy", value="v.npy", out="o.npy", env=None, limit=None):
        return self.program("run", "sdpa", "--query", query, "--key", key, "--value", value, "--out", out, *more,
                            cwd=self.folder, env=env, limit=limit)

    def succeeds(self, *more, **files):
        done = self.run(*more, **files)
        assert (done.returncode, done.stderr, done.stdout) == (0, "", ""), done.stderr
        return self.load("o")

    def fails(self, argument, *more, says="", **files):
        """One line on stderr that names the argument, exit code 2, nothing written."""
        before = self.files()
        done = self.run(*more, **files)
        assert done.returncode == 2, (done.returncode, done.stderr)
        assert done.stdout == ""
        assert done.stderr.startswith(f"attune: {argument}: ") and says in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1 and done.stderr.endswith("\n"), done.stderr
        assert self.files() == before, "something was written"
        return done.stderr


@pytest.fixture
def problem(attune, tmp_path):
    p = Problem(attune, tmp_path)
    rng = np.random.default_rng(1)
    p.save(q=rng.standard_normal((2, 4, 3, 8), np.float32), k=rng.standard_normal((2, 2, 5, 8), np.float32),
           v=rng.standard_normal((2, 2, 5, 6), np.float32))
    return p
