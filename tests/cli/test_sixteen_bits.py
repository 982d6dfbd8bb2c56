# SPDX-License-Identifier: MIT
"""float16 files, and bf16 computed from other floats: what is read, converted, computed in, written and refused."""
import numpy as np
import pytest
from attention_numpy import Options, sdpa
from element_types import BF16, F16
from judging import judge_attention


def check(problem, of, *words, options=Options()):
    q, k, v = (of.of(problem.load(name)) for name in "qkv")
    problem.succeeds("--lse", "lse.npy", "--weights", "w.npy", *words)
    judge_attention(lambda name: problem.load({"out": "o", "weights": "w"}.get(name, name)),
                    lambda dtype, order: sdpa(q, k, v, options, dtype, order), of, ("out", "lse", "weights"))


def results(problem):
    return {name: (problem.folder / name).read_bytes() for name in ("o.npy", "lse.npy", "w.npy")}


def results_of(problem, *words):
    problem.succeeds("--lse", "lse.npy", "--weights", "w.npy", *words)
    return results(problem)


@pytest.mark.parametrize("of", [F16, BF16], ids=lambda of: of.name)
def test_converted_on_load(problem, of):
    bias = np.random.default_rng(3).standard_normal((3, 5)).astype(np.float32)
    problem.save(bias=bias, sinks=np.float32([0.1, 0.2, 0.3, 0.4]))
    words = ["--dtype", of.name, "--bias", "bias.npy", "--sinks", "sinks.npy", "--causal", "bottom-right"]
    options = Options(bias=of.of(bias), sinks=np.float32([0.1, 0.2, 0.3, 0.4]), causal="bottom-right")
    check(problem, of, *words, options=options)
    before = results(problem)
    # Numbers that the type has, from files of either width, are the same problem.
    for name in ("q", "k", "v", "bias"):
        problem.save(**{name: of.of(problem.load(name)).astype(np.float64)})
    assert results_of(problem, *words) == before


def test_float16_files(problem):
    problem.save(**{name: problem.load(name).astype(np.float16) for name in "qkv"})
    check(problem, F16)
    before = results(problem)
    assert results_of(problem, "--dtype", "f16") == before
    problem.save(q=np.asfortranarray(problem.load("q")))
    assert results_of(problem) == before
    assert problem.succeeds("--dtype", "f32").dtype == np.float32


def test_float16_has_its_infinities_and_subnormals(linear):
    x = np.array([[65504, 2.0**-24, -2.0**-24, 1e-8, 0.0]], np.float32)
    linear.save(x=x, w=np.eye(5, dtype=np.float32))
    assert np.array_equal(linear.succeeds("--dtype", "f16", bias=None), np.float16(x))
    linear.save(x=np.array([[np.inf, -np.inf, np.nan, 1, 2]], np.float16), w=np.ones((5, 5), np.float16))
    assert np.all(np.isnan(linear.succeeds(bias=None)))
    # The sum is beyond float16.
    linear.save(x=np.full((1, 5), 6e4, np.float16), w=np.ones((2, 5), np.float16))
    assert np.all(np.isposinf(linear.succeeds(bias=None)))


def test_what_does_not_fit(problem):
    problem.save(bad=np.where(np.arange(5)[:, None] == 2, 65520, problem.load("k")))
    problem.fails("--key", "--dtype", "f16", key="bad.npy", says="65520, beyond the range of float16")
    problem.save(bad=problem.load("k").astype(np.float64) * 1e39)
    problem.fails("--key", "--dtype", "bf16", key="bad.npy", says="beyond the range of bfloat16")
    assert problem.succeeds("--dtype", "f64", key="bad.npy").dtype == np.float64


def test_types_that_differ(problem):
    problem.save(k=problem.load("k").astype(np.float16))
    problem.fails("--key", says="is float16 and --query is float32; --dtype converts")
    for dtype in ("half", "bfloat16", "float16", "f8"):
        problem.fails("--dtype", "--dtype", dtype, says="is not f32, f64, bf16 or f16")


def test_slopes_and_sinks_from_float16(problem):
    problem.save(**{name: problem.load(name).astype(np.float16) for name in "qkv"})
    slopes = np.float16([0.5, 0.25, 0.125, 0.1])
    problem.save(slopes=slopes)
    check(problem, F16, "--alibi", "slopes.npy", options=Options(alibi=slopes.astype(np.float32)))


@pytest.mark.parametrize("of", ["f16", "bf16"])
def test_scores_that_have_no_16_bits(problem, of):
    for score in ("cosine", "gaussian"):
        problem.fails("--query", "--dtype", of, "--score", score, says=f"Score::{score} takes f32 or f64, got {of}")


@pytest.mark.parametrize("of", ["f16", "bf16"])
def test_additive_has_no_16_bits(additive, of):
    additive.fails("--query", "--dtype", of, says=f"additive attention takes f32 or f64, got {of}")


@pytest.mark.parametrize("of", ["f16", "bf16"])
def test_masked_softmax_has_no_16_bits(softmax, of):
    softmax.fails("--scores", "--dtype", of, says=f"must be f32 or f64, got {of}")


@pytest.mark.parametrize("of", ["f16", "bf16"])
def test_picture(problem, of):
    problem.succeeds("--dtype", of, "--heatmap", "w.svg")
    problem.succeeds("--dtype", "f32", "--heatmap", "wide.svg")
    count = lambda name: (problem.folder / name).read_text().count("<rect")
    assert count("w.svg") == count("wide.svg")
