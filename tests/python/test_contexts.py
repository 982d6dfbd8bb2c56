# SPDX-License-Identifier: MIT
"""Contexts, threads, fork, memory of arrays that others let go."""
import gc
import os
import subprocess
import sys
import threading
import time

import attune
import numpy as np
import pytest
from arrays import normal

sdpa = attune.scaled_dot_product_attention


def test_context(qkv):
    context = attune.Context(threads=2)
    assert context.threads == 2 and context.last_variant == ""
    out = sdpa(*qkv, context=context)
    assert context.last_variant.startswith("sdpa_f32")
    assert np.array_equal(out, sdpa(*qkv, context=attune.Context(threads=1)))
    context.release_scratch()
    assert context.scratch_bytes == 0
    assert attune.default_context().threads == attune.default_threads()["threads"]
    forced = next(v["name"] for v in attune.variants() if v["op"] == "sdpa" and v["schedule"] == "root" and v["dtype"] == "f32"
                  and v["runs_here"] and v["kind"] in ("plain", ""))
    sdpa(*qkv, context=context, variant=forced)
    assert context.last_variant == forced
    for threads in (-2, 2000):
        with pytest.raises(ValueError, match="^threads: "):
            attune.Context(threads=threads)


@pytest.mark.parametrize("own", [False, True])
def test_64_threads(rng, own):
    """One Context for all, or the default one: every result is that of a call alone."""
    context = attune.Context(threads=2) if own else None
    problems = [(normal(rng, 1, 2, 16 + n, 32), normal(rng, 1, 2, 40, 32), normal(rng, 1, 2, 40, 32)) for n in range(64)]
    expected = [sdpa(*p) for p in problems]
    wrong, start = [], threading.Barrier(64)

    def work(n):
        start.wait()
        for _ in range(20):
            if not np.array_equal(sdpa(*problems[n], context=context), expected[n]):
                wrong.append(n)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_lock_is_released(rng):
    """Another thread of Python runs while the library computes."""
    big = [normal(rng, 8, 8, 512, 64) for _ in range(3)]
    ticks, done = [], threading.Event()

    def count():
        while not done.is_set():
            ticks.append(None)
            time.sleep(0)
    thread = threading.Thread(target=count)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # the lock changes hands where it is released, and nowhere else
    try:
        thread.start()
        before = len(ticks)
        sdpa(*big)
        during = len(ticks) - before
    finally:
        sys.setswitchinterval(interval)
        done.set()
        thread.join()
    assert during > 0


def test_arrays_freed_meanwhile(rng):
    """The caller's names, and all but the call's own references, go while the call runs."""
    box = {"arrays": [normal(rng, 8, 8, 512, 64) for _ in range(3)], "out": np.empty((8, 8, 512, 64), np.float32)}
    expected, started = sdpa(*box["arrays"]), threading.Event()

    def call():
        arguments = [*box["arrays"], box["out"]]
        started.set()
        box["result"] = sdpa(arguments.pop(0), arguments.pop(0), arguments.pop(0), out=arguments.pop(0))
    thread = threading.Thread(target=call)
    thread.start()
    started.wait()
    del box["arrays"], box["out"]
    for _ in range(50):
        gc.collect()
        normal(rng, 8, 8, 512, 64)  # takes memory that would have been freed
        if "result" in box:
            break
    thread.join()
    assert np.array_equal(box["result"], expected)


def test_fork_after_use(qkv, rng):
    """A child computes, with the default Context and its own, also where other threads of the parent were calling."""
    expected, context = sdpa(*qkv), attune.Context(threads=2)
    sdpa(*qkv, context=context)
    stop, big = threading.Event(), [normal(rng, 2, 8, 256, 64) for _ in range(3)]

    def keep_calling():
        while not stop.is_set():
            sdpa(*big)
    thread = threading.Thread(target=keep_calling)
    thread.start()
    try:
        for given in (None, context):
            child = os.fork()
            if child == 0:
                same = np.array_equal(sdpa(*qkv, context=given), expected)
                os._exit(0 if same else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


def test_exit_while_calling():
    """A process that ends while daemon threads call ends in order."""
    code = """
import threading, time, numpy as np, attune
a = np.ones((4, 8, 256, 64), np.float32)
def work():
    while True: attune.scaled_dot_product_attention(a, a, a)
for _ in range(4): threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_environment():
    """Variables that a Context reads."""
    code = ("import numpy as np, attune; a = np.ones((1, 1, 4, 8), np.float32); "
            "attune.scaled_dot_product_attention(a, a, a)")
    run = lambda **env: subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                                       env={**os.environ, **env})
    assert "sdpa" in run(ATTUNE_VERBOSE="1").stderr
    wrong = run(ATTUNE_FORCE_VARIANT="none_of_these")
    assert wrong.returncode == 1 and "ValueError" in wrong.stderr and "none_of_these" in wrong.stderr
