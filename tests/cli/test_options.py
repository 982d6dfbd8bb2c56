# SPDX-License-Identifier: MIT
"""Every option of `attune run sdpa` does what it says, against the NumPy computation."""
import os
import stat

import numpy as np
import pytest
from attention_numpy import Options, sdpa
from judging import judge_attention


def check(problem, *options, expected=Options(), dtype=np.float32, query="q", key="k", value="v"):
    q, k, v = (problem.load(n) for n in (query, key, value))
    problem.succeeds(*options, "--lse", "lse.npy", "--weights", "weights.npy", query=f"{query}.npy", key=f"{key}.npy",
                     value=f"{value}.npy")
    judge_attention(lambda name: problem.load("o" if name == "out" else name),
                    lambda dtype, order: sdpa(q, k, v, expected, dtype, order), dtype, ("out", "lse", "weights"))


def test_plain(problem):
    check(problem)


def test_textbook_example(problem):
    # Queries of ones against equal keys: the mean of the first 2 and of the first 6 values.
    problem.save(q=np.ones((2, 1, 2), np.float32), k=np.ones((2, 10, 2), np.float32),
                 v=np.tile(np.arange(40, dtype=np.float32).reshape(1, 10, 4), (2, 1, 1)), lens=np.array([2, 6], np.int32))
    out = problem.succeeds("--valid-lens", "lens.npy")
    assert np.allclose(out[:, 0], [[2, 3, 4, 5], [10, 11, 12, 13]], rtol=1e-6)


@pytest.mark.parametrize("scale", ["0.5", "-2", "0", "1e-3"])
def test_scale(problem, scale):
    check(problem, "--scale", scale, expected=Options(scale=float(scale)))


@pytest.mark.parametrize("causal", ["top-left", "bottom-right"])
def test_causal(problem, causal):
    check(problem, "--causal", causal, expected=Options(causal=causal))


@pytest.mark.parametrize("offset", [0, 2, -1, -7, 100, 2**40, -(2**40)])
def test_offset(problem, offset):
    check(problem, "--causal", "offset", "--offset", str(offset), expected=Options(causal="offset", offset=offset))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_offset_per_batch(problem, dtype):
    off = np.array([2, -1], dtype)
    problem.save(off=off)
    check(problem, "--causal", "offset", "--offset", "off.npy", expected=Options(causal="offset", offset=off))


@pytest.mark.parametrize("window", [(1, 0), (-1, 1), (0, -1), (0, 0), (-1, -1), (2**40, 2**40)])
def test_window(problem, window):
    check(problem, "--window", "{},{}".format(*window), expected=Options(window=window))
    check(problem, "--window", "{},{}".format(*window), "--offset", "1", expected=Options(window=window, offset=1))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("lens", [[3, 0], [[5, 0, 1], [2, 3, 4]]])
def test_valid_lens(problem, lens, dtype):
    problem.save(lens=np.array(lens, dtype))
    check(problem, "--valid-lens", "lens.npy", expected=Options(valid_lens=np.array(lens)))


def test_masks_compose(problem):
    problem.save(lens=np.array([3, 5], np.int32))
    check(problem, "--valid-lens", "lens.npy", "--causal", "bottom-right", "--window", "1,0", "--threads", "3",
          expected=Options(causal="bottom-right", window=(1, 0), valid_lens=np.array([3, 5])))


def test_rank_3(problem):
    problem.save(**{n: problem.load(n)[:, 0] for n in "qkv"})
    check(problem, "--causal", "top-left", expected=Options(causal="top-left"))
    assert problem.load("o").shape == (2, 3, 6) and problem.load("lse").shape == (2, 3)
    assert problem.load("weights").shape == (2, 3, 5)


def test_float64(problem):
    problem.save(**{n: problem.load(n).astype(np.float64) for n in "qkv"})
    check(problem, dtype=np.float64)


def test_dtype_converts(problem):
    problem.save(k64=problem.load("k").astype(np.float64))
    check(problem, "--dtype", "f64", dtype=np.float64, key="k64")
    check(problem, "--dtype", "f32", dtype=np.float32, key="k64")


@pytest.mark.parametrize("n", ["0", "1", "2", "5"])
def test_threads_give_equal_bits(problem, n):
    expected = problem.succeeds("--threads", "1")
    assert np.array_equal(problem.succeeds("--threads", n), expected)


def test_fortran_order(problem):
    expected = problem.succeeds()
    problem.save(**{n: np.asfortranarray(problem.load(n)) for n in "qkv"})
    assert b"'fortran_order': True" in (problem.folder / "q.npy").read_bytes()
    assert np.array_equal(problem.succeeds(), expected)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions_of_the_format(problem, version):
    expected = problem.succeeds()
    q = problem.load("q")
    with open(problem.folder / "q.npy", "wb") as f:
        np.lib.format.write_array(f, q, version=version)
    assert np.array_equal(problem.succeeds(), expected)


@pytest.mark.parametrize("queries, keys, batch", [(0, 5, 2), (3, 0, 2), (3, 5, 0), (0, 0, 0)])
def test_no_elements(problem, queries, keys, batch):
    problem.save(q=np.ones((batch, 4, queries, 8), np.float32), k=np.ones((batch, 2, keys, 8), np.float32),
                 v=np.ones((batch, 2, keys, 6), np.float32))
    out = problem.succeeds("--lse", "lse.npy", "--weights", "w.npy", "--heatmap", "w.svg")
    assert out.shape == (batch, 4, queries, 6) and np.all(out == 0)
    assert problem.load("lse").shape == (batch, 4, queries) and np.all(np.isneginf(problem.load("lse")))
    assert problem.load("w").shape == (batch, 4, queries, keys)


def test_masked_garbage_has_no_effect(problem):
    problem.save(lens=np.array([3, 4], np.int32))
    expected = problem.succeeds("--valid-lens", "lens.npy", "--weights", "w.npy")
    weights = problem.load("w")
    k, v = problem.load("k"), problem.load("v")
    for b, n in enumerate((3, 4)):
        k[b, :, n:], v[b, :, n:] = np.nan, np.inf
    problem.save(k=k, v=v)
    assert np.array_equal(problem.succeeds("--valid-lens", "lens.npy", "--weights", "w.npy"), expected)
    assert np.array_equal(problem.load("w"), weights)


def test_forced_variants(problem, variants):
    forced = [x for x in variants if x["op"] == "sdpa" and x["dtype"] == "f32" and x["head_dim"] == 0 and x["runs_here"]]
    assert {"plain", "weights"} <= {x["kind"] for x in forced}
    for name, kind in ((x["name"], x["kind"]) for x in forced):
        check(problem, "--variant", name)
        if kind == "weights":  # runs beside the one of the output, which is the one that is logged
            continue
        done = problem.run("--variant", name, env={"ATTUNE_VERBOSE": "1"})
        assert done.returncode == 0 and name in done.stderr
        assert name in problem.run(env={"ATTUNE_FORCE_VARIANT": name, "ATTUNE_VERBOSE": "1"}).stderr


def test_weights_where_a_variant_has_a_head_size(problem, variants):
    fixed = [x for x in variants if x["op"] == "sdpa" and x["dtype"] == "f32" and x["head_dim"] and x["runs_here"]]
    if not fixed:
        pytest.skip("no variant for one head size runs here")
    d = fixed[0]["head_dim"]
    rng = np.random.default_rng(2)
    problem.save(q=rng.standard_normal((1, 2, 3, d), np.float32), k=rng.standard_normal((1, 2, 7, d), np.float32),
                 v=rng.standard_normal((1, 2, 7, d), np.float32))
    check(problem, "--variant", fixed[0]["name"])


def test_overwrites_and_follows_links(problem):
    (problem.folder / "real").mkdir()
    (problem.folder / "real" / "o.npy").write_bytes(b"old")
    (problem.folder / "o.npy").symlink_to("real/o.npy")
    assert problem.succeeds().shape == (2, 4, 3, 6)
    assert (problem.folder / "o.npy").is_symlink() and np.load(problem.folder / "real" / "o.npy").shape == (2, 4, 3, 6)


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.parametrize("umask", [0o022, 0o077])
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_outputs_keep_their_permissions(problem, mode, umask):
    for name in ("real.npy", "lse.npy", "w.svg"):
        (problem.folder / name).write_bytes(b"old")
        os.chmod(problem.folder / name, mode)
    (problem.folder / "o.npy").symlink_to("real.npy")
    done = problem.run("--lse", "lse.npy", "--heatmap", "w.svg", "--weights", "new.npy", limit=lambda: os.umask(umask))
    assert done.returncode == 0, done
    assert {mode_of(problem.folder / name) for name in ("real.npy", "lse.npy", "w.svg")} == {mode}
    assert mode_of(problem.folder / "new.npy") == 0o666 & ~umask and (problem.folder / "o.npy").is_symlink()


def test_leaves_no_temporary_files(problem):
    problem.succeeds("--lse", "lse.npy", "--weights", "w.npy", "--heatmap", "w.svg")
    assert {str(p) for p in problem.files()} == {"q.npy", "k.npy", "v.npy", "o.npy", "lse.npy", "w.npy", "w.svg"}
