# SPDX-License-Identifier: MIT
"""attune run varlen-backward against the NumPy computation of each sequence."""
import numpy as np
import pytest
from attention_numpy import Options
from backward_numpy import Gradients, sdpa_backward
from conftest import BackwardProblem
from judging import judge_gradients
from test_packed import KEYS, QUERIES, ends, normal

ALL = ("query", "key", "value")


@pytest.fixture
def packed(attune, tmp_path):
    """Five sequences, among them a decode step, one without queries and one without keys; two rows belong to none."""
    p = BackwardProblem(attune, tmp_path, "varlen-backward", query="q.npy", key="k.npy", value="v.npy", cu_seqlens_q="cq.npy",
                        cu_seqlens_k="ck.npy", grad_out="do.npy")
    rng = np.random.default_rng(11)
    p.save(q=normal(rng, 13, 4, 8), k=normal(rng, 21, 2, 8), v=normal(rng, 21, 2, 6), do=normal(rng, 13, 4, 6),
           cq=ends(QUERIES), ck=ends(KEYS))
    return p


def packed_backward(problem, options, grad_lse, dtype, order, **how):
    """Sequence after sequence, each with options(s); gradients of slopes of one row for all, and of sinks, are sums."""
    q, k, v, do = (problem.load(n) for n in ("q", "k", "v", "do"))
    cq, ck = problem.load("cq"), problem.load("ck")
    total = Gradients(*(np.zeros(a.shape, dtype) for a in (q, k, v)))
    heads_first = lambda a: np.moveaxis(a, 1, 0)[None]
    slopes = []
    for s in range(len(cq) - 1):
        of_q, of_k = slice(cq[s], cq[s + 1]), slice(ck[s], ck[s + 1])
        lse = None if grad_lse is None else grad_lse[None, :, of_q]
        one = sdpa_backward(heads_first(q[of_q]), heads_first(k[of_k]), heads_first(v[of_k]), heads_first(do[of_q]), lse,
                            options(s), dtype, order, **how)
        total.query[of_q] = np.moveaxis(one.query[0], 0, 1)
        total.key[of_k], total.value[of_k] = np.moveaxis(one.key[0], 0, 1), np.moveaxis(one.value[0], 0, 1)
        slopes.append(one.slopes)
        if one.sinks is not None:
            total.sinks = one.sinks if total.sinks is None else total.sinks + one.sinks
    if slopes[0] is not None:
        shared = isinstance(options(0).alibi, str)
        total.slopes = sum(slopes) if shared else np.stack([np.reshape(a, -1) for a in slopes])
    return total


def check(packed, *words, options=lambda s: Options(), grad_lse=None, dtype=np.float32, wanted=ALL):
    got = packed.gradients(*words, wanted=wanted)
    judge_gradients(got.get, lambda dtype, order, **how: packed_backward(packed, options, grad_lse, dtype, order, **how), dtype,
                    wanted)
    return got


@pytest.mark.parametrize("causal", [None, "top-left", "bottom-right"])
@pytest.mark.parametrize("window", [(-1, -1), (2, 1)])
def test_varlen_backward(packed, causal, window):
    words = ("--causal", causal) if causal else ()
    got = check(packed, *words, "--window", "{},{}".format(*window), options=lambda s: Options(causal=causal, window=window))
    assert not got["query"][11:].any() and not got["key"][3:5].any() and not got["value"][19:].any()


def test_options(packed):
    rng = np.random.default_rng(12)
    off, slopes = np.array([2, 0, -1, 7, 3]), rng.random((5, 4)).astype(np.float32)
    sinks, dl = normal(rng, 4), normal(rng, 4, 13)
    packed.save(off=off, slopes=slopes, sinks=sinks, dl=dl)
    check(packed, "--causal", "offset", "--offset", "off.npy", "--alibi", "slopes.npy", "--sinks", "sinks.npy", "--softcap",
          "3", "--scale", "0.7", "--grad-lse", "dl.npy", grad_lse=dl, wanted=(*ALL, "slopes", "sinks"),
          options=lambda s: Options(causal="offset", offset=int(off[s]), alibi=slopes[s], sinks=sinks, softcap=3, scale=0.7))
    check(packed, "--alibi", "auto", options=lambda s: Options(alibi="auto"), wanted=(*ALL, "slopes"))
    check(packed, "--score", "cosine", options=lambda s: Options(score="cosine"))


def test_dropout_counts_within_a_sequence(packed):
    words = ("--dropout", "0.4", "--seed", "9", "--dropout-offset", "2")
    kept = packed.dropout_mask((5, 4, max(QUERIES), max(KEYS)), *words)
    check(packed, *words, options=lambda s: Options(dropout=0.4, survivors=kept[s:s + 1, :, :QUERIES[s], :KEYS[s]]))


def test_types_and_a_forward_from_files(packed):
    check(packed, "--dtype", "f64", dtype=np.float64)
    first = check(packed)
    inputs = [w for name, file in packed.given.items() if name != "grad_out" for w in ("--" + name.replace("_", "-"), file)]
    done = packed.program("run", "varlen", *inputs, "--out", "o.npy", "--lse", "l.npy", cwd=packed.folder)
    assert (done.returncode, done.stderr) == (0, "")
    again = packed.gradients("--in-out", "o.npy", "--in-lse", "l.npy")
    assert all(np.array_equal(first[name], again[name]) for name in ALL)


def test_bad_input(packed):
    packed.save(do4=np.ones((1, 13, 4, 6), np.float32), short=np.ones((12, 4, 6), np.float32),
                bad=np.array([0, 3, 2], np.int32))
    out = ("--grad-query", "dq.npy")
    packed.fails("--grad-query")
    packed.fails("--grad-out", *out, grad_out="do4.npy")
    packed.fails("--grad-out", *out, grad_out="short.npy")
    packed.fails("--cu-seqlens-q", *out, cu_seqlens_q="bad.npy")
    packed.fails("--grad-sinks", *out, "--grad-sinks", "ds.npy", says="only for --sinks")
    packed.fails("--in-out", *out, "--in-out", "do.npy", says="needs --in-lse")
    packed.fails("--score", *out, "--score", "general", says="packed")
