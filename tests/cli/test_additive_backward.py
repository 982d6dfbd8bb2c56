# SPDX-License-Identifier: MIT
"""attune run additive-backward, against the NumPy computation; and what it refuses."""
import numpy as np
import pytest
from additive_backward_numpy import additive_backward as reference
from attention_numpy import Additive, Options
from conftest import normal
from judging import judge_gradients

ALL = ("query", "key", "value", "w_query", "w_key", "w_score")


def check(problem, *words, options=Options(), dtype=np.float32, wanted=ALL, grad_lse=None, b_score=0, **given):
    arrays = [problem.load(name) for name in ("q", "k", "v", "do")]
    load = lambda name, file: problem.load(file) if name in wanted else None
    layer = Additive(problem.load("wq"), problem.load("wk"), load("b_query", "bq"), load("b_key", "bk"), problem.load("w"),
                     b_score)
    got = problem.gradients(*words, wanted=wanted, **given)
    judge_gradients(got.get, lambda dtype, order, **how: reference(*arrays, layer, options, grad_lse, dtype, order, **how),
                    dtype, wanted)
    return got


def test_every_gradient(additive_backward):
    together = check(additive_backward, "--b-query", "bq.npy", "--b-key", "bk.npy", "--b-score", "0.5", b_score=0.5,
                     wanted=(*ALL, "b_query", "b_key"))
    for name in ALL:  # alone
        words = ("--b-query", "bq.npy", "--b-key", "bk.npy", "--b-score", "0.5")
        assert np.array_equal(additive_backward.gradients(*words, wanted=(name,))[name], together[name])


@pytest.mark.parametrize("causal", ["top-left", "bottom-right"])
def test_masks(additive_backward, causal):
    lens = np.array([4, 0], np.int32)
    mask = np.random.default_rng(2).random((3, 5)) < 0.7
    additive_backward.save(lens=lens, mask=mask)
    check(additive_backward, "--causal", causal, "--valid-lens", "lens.npy", "--mask", "mask.npy",
          options=Options(causal=causal, valid_lens=lens, mask=mask))


def test_sinks_scale_dropout_and_grad_lse(additive_backward):
    rng = np.random.default_rng(6)
    sinks, grad_lse = normal(rng, 4), normal(rng, 2, 4, 3)
    additive_backward.save(sinks=sinks, dl=grad_lse)
    words = ("--dropout", "0.3", "--seed", "7", "--dropout-offset", "2")
    check(additive_backward, *words, "--sinks", "sinks.npy", "--scale", "0.9", "--grad-lse", "dl.npy", grad_lse=grad_lse,
          wanted=(*ALL, "sinks"),
          options=Options(sinks=sinks, scale=0.9, dropout=0.3, survivors=additive_backward.dropout_mask((2, 4, 3, 5), *words)))


def test_f64(additive_backward):
    check(additive_backward, "--dtype", "f64", dtype=np.float64)


def test_what_is_refused(additive_backward):
    additive_backward.fails("--grad-query", says="must be asked for")
    additive_backward.fails("--grad-b-query", "--grad-b-query", "d.npy", says="--b-query")
    additive_backward.fails("--grad-bias", "--grad-bias", "d.npy", says="--bias")
    additive_backward.save(do=np.zeros((2, 4, 3, 7), np.float32))
    additive_backward.fails("--grad-out", "--grad-query", "d.npy")
