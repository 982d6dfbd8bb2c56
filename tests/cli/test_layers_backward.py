# SPDX-License-Identifier: MIT
"""attune run linear-backward, masked-softmax-backward and mha-backward against the NumPy computation; and what they refuse."""
import numpy as np
import pytest
from attention_numpy import MultiHead, Options
from conftest import Problem, normal
from element_types import BF16, F16
from judging import judge, judge_gradients, reference_and_plain
from layers_backward_numpy import linear_backward, masked_softmax_backward, multi_head_backward


class GradientProblem(Problem):
    """Gradients are asked for by name, and come back by name."""

    def gradients(self, *more, wanted, **given):
        words = [word for name in wanted for word in ("--grad-" + name.replace("_", "-"), f"d_{name}.npy")]
        done = self.run(*words, *more, **given)
        assert (done.returncode, done.stderr, done.stdout) == (0, "", ""), done.stderr
        return {name: self.load(f"d_{name}") for name in wanted}


@pytest.fixture
def layer(attune, tmp_path):
    p = GradientProblem(attune, tmp_path, "linear-backward", x="x.npy", weight="w.npy", grad_out="dy.npy")
    rng = np.random.default_rng(5)
    p.save(x=normal(rng, 2, 3, 8), w=normal(rng, 5, 8), dy=normal(rng, 2, 3, 5))
    return p


LINEAR = ("x", "weight", "bias")


def check_linear(layer, *words, wanted=LINEAR, dtype=np.float32, **given):
    x, w, dy = (layer.load(n) for n in ("x", "w", "dy"))
    got = layer.gradients(*words, wanted=wanted, **given)
    judge_gradients(got.get, lambda dtype, order, **how: linear_backward(x, w, dy, dtype, order, **how), dtype, wanted)
    return got


@pytest.mark.parametrize("shape", [(8,), (3, 8), (2, 3, 8), (2, 2, 3, 8), (2, 1, 2, 3, 8), (300, 8)])
def test_linear(layer, shape):
    rng = np.random.default_rng(6)
    layer.save(x=normal(rng, *shape), dy=normal(rng, *shape[:-1], 5))
    together = check_linear(layer)
    assert together["x"].shape == shape
    for name, other in (("x", {"x": None}), ("weight", {"weight": None}), ("bias", {"x": None, "weight": None})):
        assert np.array_equal(layer.gradients(wanted=(name,), **other)[name], together[name])


@pytest.mark.parametrize("name, dtype", [("f64", np.float64), ("bf16", BF16), ("f16", F16)])
def test_linear_in_other_types(layer, name, dtype):
    check_linear(layer, "--dtype", name, dtype=dtype)


def test_linear_of_no_rows(layer):
    layer.save(x=np.ones((2, 0, 8), np.float32), dy=np.ones((2, 0, 5), np.float32))
    got = layer.gradients(wanted=LINEAR)
    assert got["x"].shape == (2, 0, 8) and not got["weight"].any() and not got["bias"].any()


def test_linear_refuses(layer):
    ask = {"grad_x": "dx.npy"}
    layer.fails("--grad-x", says="another gradient")
    layer.fails("--grad-x", **ask, weight=None, says="needs --weight")
    layer.fails("--grad-weight", grad_weight="dw.npy", x=None, says="needs --x")
    layer.save(w2=np.ones((4, 8), np.float32), x2=np.ones((2, 2, 8), np.float32))
    layer.fails("--weight", **ask, weight="w2.npy", says="4")
    layer.fails("--x", **ask, x="x2.npy", says="(2, 2, 8)")
    layer.fails("--variant", "--variant", "transposed_dot_f32_generic_root", **ask, says="transposed_dot_f32_generic_root")


@pytest.fixture
def softmax(attune, tmp_path):
    p = Problem(attune, tmp_path, "masked-softmax-backward", scores="s.npy", grad_out="dw.npy", grad_scores="ds.npy")
    rng = np.random.default_rng(4)
    p.save(s=normal(rng, 2, 3, 5), dw=normal(rng, 2, 3, 5))
    return p


def check_softmax(softmax, *options, lens=None, fill="zero", dtype=np.float32):
    scores, grad = softmax.load("s"), softmax.load("dw")
    if lens is not None:
        softmax.save(lens=lens)
        options += ("--valid-lens", "lens.npy")
    done = softmax.run("--fill", fill, *options)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", ""), done.stderr
    compute = lambda dtype, order, **how: masked_softmax_backward(scores, grad, lens, fill, dtype, order, **how)
    exact, plain = reference_and_plain(compute, dtype)
    size = float(np.max(np.abs(compute(np.float64, None, parts=np.abs)), initial=0))
    judge("ds", softmax.load("ds"), plain, exact, dtype, 4 * float(np.finfo(dtype).eps) * size)
    return softmax.load("ds")


@pytest.mark.parametrize("fill", ["zero", "seed"])
@pytest.mark.parametrize("lens", [None, [2, 3], [0, 5], [[1, 2, 0], [5, 4, 3]]])
def test_masked_softmax(softmax, fill, lens):
    lens = None if lens is None else np.array(lens, np.int32)
    got = check_softmax(softmax, lens=lens, fill=fill)
    if lens is not None and lens.ndim == 1 and lens[0] == 0:
        assert not got[0].any()
    softmax.save(s=softmax.load("s").astype(np.float64), dw=softmax.load("dw").astype(np.float64))
    check_softmax(softmax, lens=lens, fill=fill, dtype=np.float64)


@pytest.mark.parametrize("shape, lens", [((4, 6), (4,)), ((2, 3, 4, 6), (2,)), ((2, 3, 4, 6), (2, 4)),
                                         ((2, 2, 3, 4, 6), (2, 2)), ((2, 2, 3, 4, 6), (2, 2, 4))])
def test_masked_softmax_of_other_ranks(softmax, shape, lens):
    rng = np.random.default_rng(2)
    softmax.save(s=normal(rng, *shape), dw=normal(rng, *shape))
    for fill in ("zero", "seed"):
        check_softmax(softmax, lens=rng.integers(0, 7, lens), fill=fill)


def test_masked_softmax_of_a_forward_in_files(softmax, attune):
    softmax.save(lens=np.array([2, 0], np.int32))
    done = attune("run", "masked-softmax", "--scores", "s.npy", "--valid-lens", "lens.npy", "--out", "p.npy",
                  cwd=softmax.folder)
    assert done.returncode == 0, done.stderr
    expected = check_softmax(softmax, lens=np.array([2, 0]))
    for words in ((), ("--valid-lens", "lens.npy")):  # the weights say what is masked
        done = softmax.run(*words, scores=None, in_out="p.npy")
        assert done.returncode == 0, done.stderr
        assert np.array_equal(softmax.load("ds"), expected)


def test_masked_softmax_refuses(softmax):
    softmax.save(other=np.ones((2, 3, 4), np.float32), lens=np.array([2, 6], np.int32))
    softmax.fails("--scores", scores=None, says="--in-out")
    softmax.fails("--in-out", in_out="s.npy", says="--scores")
    softmax.fails("--grad-out", grad_out="other.npy", says="(2, 3, 4)")
    softmax.fails("--valid-lens", valid_lens="lens.npy", says="6")
    softmax.fails("--fill", fill="x", says="zero or seed")
    softmax.fails("--scores", "--dtype", "bf16", says="f32 or f64")
    softmax.fails("--in-out", "--dtype", "bf16", scores=None, in_out="s.npy", says="f32 or f64")


@pytest.fixture
def heads(attune, tmp_path):
    """Cross-attention with four heads over two of the key, widths that differ, all biases."""
    p = GradientProblem(attune, tmp_path, "mha-backward", query="q.npy", key="k.npy", value="v.npy", grad_out="do.npy",
                        heads="4", kv_heads="2", w_query="wq.npy", w_key="wk.npy", w_value="wv.npy", w_out="wo.npy",
                        b_query="bq.npy", b_key="bk.npy", b_value="bv.npy", b_out="bo.npy")
    rng = np.random.default_rng(3)
    p.save(q=normal(rng, 2, 3, 8), k=normal(rng, 2, 5, 6), v=normal(rng, 2, 5, 7), do=normal(rng, 2, 3, 9))
    p.save(wq=normal(rng, 16, 8) / 3, wk=normal(rng, 8, 6) / 3, wv=normal(rng, 10, 7) / 3, wo=normal(rng, 9, 20) / 5)
    p.save(bq=normal(rng, 16), bk=normal(rng, 8), bv=normal(rng, 10), bo=normal(rng, 9))
    return p


INPUTS = ("query", "key", "value")
WEIGHTS = ("w_query", "w_key", "w_value", "w_out")
BIASES = ("b_query", "b_key", "b_value", "b_out")
ALL = (*INPUTS, *WEIGHTS, *BIASES)


def check_heads(heads, *words, expected=Options(), biases=True, wanted=ALL, dtype=np.float32, **given):
    arrays = [heads.load(n) for n in ("q", "k", "v", "do")]
    pairs = [(heads.load(f"w{n}"), heads.load(f"b{n}") if biases else None) for n in "qkvo"]
    layer = MultiHead(4, 2, *pairs)
    got = heads.gradients(*words, wanted=wanted, **given)
    judge_gradients(got.get, lambda dtype, order, **how: multi_head_backward(*arrays, layer, expected, dtype, order, **how),
                    dtype, wanted)
    return got


def test_multi_head(heads):
    together = check_heads(heads)
    for name in ALL:
        assert np.array_equal(heads.gradients(wanted=(name,))[name], together[name])


def test_multi_head_without_biases(heads):
    check_heads(heads, biases=False, wanted=(*INPUTS, *WEIGHTS), **{name: None for name in BIASES})


@pytest.mark.parametrize("name, dtype", [("f64", np.float64), ("bf16", BF16), ("f16", F16)])
def test_multi_head_in_other_types(heads, name, dtype):
    check_heads(heads, "--dtype", name, dtype=dtype)


def test_multi_head_shares_the_options_of_sdpa(heads):
    rng = np.random.default_rng(6)
    kept = heads.dropout_mask((2, 4, 3, 5), "--dropout", "0.4", "--seed", "3")
    o = Options(scale=0.5, softcap=3, bias=normal(rng, 4, 1, 5), mask=rng.random((2, 1, 3, 5)) < 0.8,
                valid_lens=np.array([[5, 4, 0], [3, 1, 5]]), window=(2, 2), sinks=normal(rng, 4),
                alibi=rng.random((2, 4), np.float32), dropout=0.4, survivors=kept)
    heads.save(bias=o.bias, m=o.mask, lens=o.valid_lens, s=o.sinks, a=o.alibi)
    check_heads(heads, "--scale", "0.5", "--softcap", "3", "--bias", "bias.npy", "--mask", "m.npy", "--valid-lens", "lens.npy",
                "--window", "2,2", "--sinks", "s.npy", "--alibi", "a.npy", "--dropout", "0.4", "--seed", "3", expected=o,
                wanted=(*ALL, "bias", "slopes", "sinks"))


def test_multi_head_of_more_than_three_extents(heads):
    rng = np.random.default_rng(7)
    heads.save(q=normal(rng, 2, 3, 3, 8), k=normal(rng, 2, 3, 5, 6), v=normal(rng, 2, 3, 5, 7), do=normal(rng, 2, 3, 3, 9))
    check_heads(heads, "--causal", "bottom-right", expected=Options(causal="bottom-right"))


def test_multi_head_refuses(heads):
    ask = {"grad_query": "dq.npy"}
    heads.fails("--grad-query", says="another gradient")
    heads.fails("--grad-b-key", grad_b_key="db.npy", b_key=None, says="--b-key")
    heads.fails("--grad-bias", grad_bias="db.npy", says="--bias")
    heads.save(do2=np.ones((2, 3, 8), np.float32), do3=np.ones((1, 3, 9), np.float32), wq2=np.ones((18, 8), np.float32))
    heads.fails("--grad-out", **ask, grad_out="do2.npy", says="8")
    heads.fails("--grad-out", **ask, grad_out="do3.npy", says="1")
    heads.fails("--heads", **ask, heads="5", says="16")
    heads.fails("--variant", "--variant", "sdpa_f32_dany_generic_root", **ask, says="sdpa_backward")
    heads.fails("--mask", **ask, mask="q.npy")
