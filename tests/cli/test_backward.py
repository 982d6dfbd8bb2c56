# SPDX-License-Identifier: MIT
"""attune run sdpa-backward: every option does what it says, against the NumPy computation; and what it refuses."""
import numpy as np
import pytest
from attention_numpy import Options
from backward_numpy import sdpa_backward
from conftest import Problem, normal
from element_types import BF16, F16
from judging import judge_gradients

ALL = ("query", "key", "value")


def check(backward, *words, expected=Options(), grad_lse=None, dtype=np.float32, wanted=ALL, **given):
    arrays = [backward.load(name) for name in ("q", "k", "v", "do")]
    got = backward.gradients(*words, wanted=wanted, **given)
    judge_gradients(got.get, lambda dtype, order, **how: sdpa_backward(*arrays, grad_lse, expected, dtype, order, **how), dtype,
                    wanted)
    return got


def test_query_key_value(backward):
    together = check(backward)
    for name in ALL:  # alone, and nothing else is written
        for old in backward.folder.glob("d_*.npy"):
            old.unlink()
        assert np.array_equal(backward.gradients(wanted=(name,))[name], together[name])
        assert [p.name for p in backward.folder.glob("d_*.npy")] == [f"d_{name}.npy"]


@pytest.mark.parametrize("causal", ["top-left", "bottom-right"])
@pytest.mark.parametrize("window", [(-1, -1), (1, 0)])
def test_masks(backward, causal, window):
    lens = np.array([4, 0], np.int32)
    mask = np.random.default_rng(2).random((3, 5)) < 0.7
    backward.save(lens=lens, mask=mask)
    check(backward, "--causal", causal, "--window", "{},{}".format(*window), expected=Options(causal=causal, window=window))
    check(backward, "--causal", causal, "--valid-lens", "lens.npy", "--mask", "mask.npy",
          expected=Options(causal=causal, valid_lens=lens, mask=mask))


def test_grad_lse(backward):
    dl = normal(np.random.default_rng(3), 2, 4, 3)
    backward.save(dl=dl)
    check(backward, "--grad-lse", "dl.npy", grad_lse=dl)


@pytest.mark.parametrize("shape", [(2, 4, 3, 5), (4, 3, 5), (3, 5), (5,), (2, 1, 1, 5), (1, 4, 3, 1), (1, 1)])
def test_bias(backward, shape):
    bias = normal(np.random.default_rng(4), *shape)
    backward.save(bias=bias)
    check(backward, "--bias", "bias.npy", expected=Options(bias=bias), wanted=(*ALL, "bias"))


@pytest.mark.parametrize("slopes", ["auto", (4,), (2, 4)])
def test_slopes(backward, slopes):
    if slopes != "auto":
        slopes = np.random.default_rng(5).random(slopes).astype(np.float32)
        backward.save(slopes=slopes)
    check(backward, "--alibi", slopes if isinstance(slopes, str) else "slopes.npy", expected=Options(alibi=slopes),
          wanted=(*ALL, "slopes"))


def test_softcap_sinks_scale_and_dropout(backward):
    sinks = normal(np.random.default_rng(6), 4)
    backward.save(sinks=sinks)
    words = ("--dropout", "0.3", "--seed", "7", "--dropout-offset", "2")
    check(backward, *words, "--softcap", "2", "--sinks", "sinks.npy", "--scale", "0.9", wanted=(*ALL, "sinks"),
          expected=Options(softcap=2, sinks=sinks, scale=0.9, dropout=0.3,
                           survivors=backward.dropout_mask((2, 4, 3, 5), *words)))


def test_general_score(backward):
    weight = normal(np.random.default_rng(7), 7, 8) / 4
    backward.save(W=weight, q=normal(np.random.default_rng(8), 2, 4, 3, 7))
    check(backward, "--score", "general", "--score-weight", "W.npy", "--softcap", "2", wanted=(*ALL, "score_weight"),
          expected=Options(score="general", score_weight=weight, softcap=2))


@pytest.mark.parametrize("score", ["cosine", "gaussian"])
def test_other_scores(backward, score):
    check(backward, "--score", score, "--softcap", "2", expected=Options(score=score, softcap=2))


def test_forward_from_files(backward, attune):
    forward = Problem(attune, backward.folder, "sdpa", query="q.npy", key="k.npy", value="v.npy", out="o.npy")
    forward.succeeds("--lse", "lse.npy", "--causal", "bottom-right")
    expected = backward.gradients("--causal", "bottom-right")
    got = backward.gradients("--causal", "bottom-right", in_out="o.npy", in_lse="lse.npy")
    for name in ALL:
        assert np.array_equal(got[name], expected[name])
    backward.save(lse2=np.zeros((2, 4, 4), np.float32), o2=np.zeros((2, 4, 3, 7), np.float32))
    backward.fails("--in-lse", "--grad-key", "d.npy", in_out="o.npy", in_lse="lse2.npy")
    backward.fails("--in-out", "--grad-key", "d.npy", in_out="o2.npy", in_lse="lse.npy")
    backward.fails("--in-out", "--grad-key", "d.npy", in_out="o.npy", says="needs --in-lse")
    backward.fails("--in-lse", "--grad-key", "d.npy", in_lse="lse.npy", says="needs --in-out")


@pytest.mark.parametrize("of", [F16, BF16], ids=lambda of: of.name)
def test_sixteen_bits(backward, of):
    backward.save(**{name: of.of(backward.load(name)) for name in ("q", "k", "v", "do")})
    check(backward, "--dtype", of.name, dtype=of)


def test_f64(backward):
    check(backward, "--dtype", "f64", dtype=np.float64)


def test_other_ranks(backward):
    rng = np.random.default_rng(8)
    bias = normal(rng, 3, 5)
    for leading in ((), (2,), (2, 3, 2)):
        heads = (2,) if len(leading) > 1 else ()
        backward.save(q=normal(rng, *leading, *heads, 3, 8), k=normal(rng, *leading, *heads, 5, 8), bias=bias,
                      v=normal(rng, *leading, *heads, 5, 6), do=normal(rng, *leading, *heads, 3, 6))
        dl = normal(rng, *leading, *heads, 3)
        backward.save(dl=dl)
        check(backward, "--bias", "bias.npy", "--grad-lse", "dl.npy", "--alibi", "auto", grad_lse=dl,
              expected=Options(bias=bias, alibi="auto"), wanted=(*ALL, "bias", "slopes"))


def test_bias_of_leading_extents(backward):
    rng = np.random.default_rng(9)
    backward.save(q=normal(rng, 2, 3, 2, 3, 8), k=normal(rng, 2, 3, 2, 5, 8), v=normal(rng, 2, 3, 2, 5, 6),
                  do=normal(rng, 2, 3, 2, 3, 6), bias=normal(rng, 3, 2, 3, 5))
    backward.fails("--grad-bias", "--bias", "bias.npy", "--grad-bias", "d.npy", says="repeated over leading extents")
    whole = normal(rng, 2, 3, 1, 3, 5)
    backward.save(bias=whole)
    check(backward, "--bias", "bias.npy", expected=Options(bias=whole), wanted=(*ALL, "bias"))


@pytest.mark.parametrize("queries, keys, batch", [(0, 5, 2), (3, 0, 2), (3, 5, 0), (0, 0, 0)])
def test_no_elements(backward, queries, keys, batch):
    ones = lambda *shape: np.ones(shape, np.float32)
    backward.save(q=ones(batch, 4, queries, 8), k=ones(batch, 2, keys, 8), v=ones(batch, 2, keys, 6), sinks=ones(4),
                  do=ones(batch, 4, queries, 6), bias=ones(1, 1))
    got = backward.gradients("--sinks", "sinks.npy", "--bias", "bias.npy", "--alibi", "auto",
                             wanted=(*ALL, "sinks", "bias", "slopes"))
    assert [got[name].shape for name in ALL] == [(batch, 4, queries, 8), (batch, 2, keys, 8), (batch, 2, keys, 6)]
    assert all(not array.any() for array in got.values())


def test_masked_garbage_has_no_effect(backward):
    backward.save(lens=np.array([3, 0], np.int32))
    expected = backward.gradients("--valid-lens", "lens.npy")
    q, k, v = (backward.load(name) for name in "qkv")
    k[0, :, 3:], v[0, :, 3:], k[1], v[1], q[1] = np.nan, np.inf, np.nan, np.nan, np.nan
    backward.save(q=q, k=k, v=v)
    got = backward.gradients("--valid-lens", "lens.npy")
    for name in ALL:
        assert np.array_equal(got[name], expected[name]) and not got[name][1].any()
    assert not got["key"][0, :, 3:].any() and not got["value"][0, :, 3:].any()


def test_variants(backward, variants):
    names = [x["name"] for x in variants if x["op"] == "sdpa_backward" and x["dtype"] == "f32" and x["head_dim"] == 0
             and x["runs_here"] and x["kind"] in ("scored", "training")]
    assert names
    for name in names:
        check(backward, "--variant", name, "--softcap", "3", expected=Options(softcap=3))


def test_threads_change_no_bit(backward):
    rng = np.random.default_rng(10)
    backward.save(q=normal(rng, 1, 2, 150, 32), k=normal(rng, 1, 2, 200, 32), v=normal(rng, 1, 2, 200, 32),
                  do=normal(rng, 1, 2, 150, 32))
    expected = backward.gradients("--threads", "1")
    for threads in (2, 3, 7):
        got = backward.gradients("--threads", threads)
        assert all(np.array_equal(got[name], expected[name]) for name in ALL)


def test_nothing_is_asked_for(backward):
    backward.fails("--grad-query", says="or another gradient must be asked for")


@pytest.mark.parametrize("name, of", [("bias", "--bias"), ("slopes", "--alibi"), ("sinks", "--sinks"),
                                      ("score-weight", "--score general")])
def test_gradients_of_what_is_not_given(backward, name, of):
    backward.fails(f"--grad-{name}", f"--grad-{name}", "d.npy", says=f"is only for {of}")


@pytest.mark.parametrize("shape", [(2, 4, 3, 7), (2, 4, 4, 6), (2, 2, 3, 6), (1, 4, 3, 6), (4, 3, 6), (2, 3, 6)])
def test_bad_grad_out(backward, shape):
    backward.save(bad=np.ones(shape, np.float32))
    backward.fails("--grad-out", "--grad-query", "d.npy", grad_out="bad.npy")


@pytest.mark.parametrize("shape", [(2, 4, 4), (2, 2, 3), (1, 4, 3), (4, 3), (2, 4, 3, 1)])
def test_bad_grad_lse(backward, shape):
    backward.save(bad=np.ones(shape, np.float32))
    backward.fails("--grad-lse", "--grad-query", "d.npy", "--grad-lse", "bad.npy")


def test_bad_files(backward):
    for name in ("query", "key", "value", "grad_out"):
        backward.fails("--" + name.replace("_", "-"), "--grad-query", "d.npy", **{name: "none.npy"}, says="no such file")
    backward.fails("--grad-query", "--grad-query", "q.npy", says="is also the file of --query")
    backward.fails("--grad-key", "--grad-query", "d.npy", "--grad-key", "d.npy", says="is also the file of --grad-query")
    backward.fails("--grad-value", "--grad-value", "none/d.npy", says="folder does not exist")
    backward.save(do=backward.load("do").astype(np.float64))
    backward.fails("--grad-out", "--grad-query", "d.npy", says="--dtype converts")


def test_bad_arguments(backward):
    fails = lambda argument, *words, **how: backward.fails(argument, "--grad-query", "d.npy", *words, **how)
    fails("--scale", "--scale", "nan")
    fails("--dtype", "--dtype", "half")
    fails("--threads", "--threads", "-3", says="at least 1, or 0")
    fails("--variant", "--variant", "sdpa_f32_dany_generic_root", says="sdpa_f32_dany_generic_root")
    fails("--variant", "--variant", "nothing", says="nothing")
    fails("--causal", "--causal", "offset", says="--offset")
    for option in ("--out", "--lse", "--weights", "--heatmap"):  # of the forward
        fails(option, option, "o.npy")
