# SPDX-License-Identifier: MIT
"""attune run varlen and kv-append, --cache-lens and --invariant, against the NumPy computation."""
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from attention_numpy import Options, Result, sdpa
from conftest import Problem, normal
from judging import judge_attention
from rows_numpy import int8_of

QUERIES, KEYS = [3, 0, 1, 5, 2], [3, 2, 9, 5, 0]


def ends(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


@pytest.fixture
def varlen(attune, tmp_path):
    """Five sequences, among them a decode step, one without queries and one without keys; two rows belong to none."""
    p = Problem(attune, tmp_path, "varlen", query="q.npy", key="k.npy", value="v.npy", cu_seqlens_q="cq.npy",
                cu_seqlens_k="ck.npy", out="o.npy")
    rng = np.random.default_rng(7)
    p.save(q=normal(rng, 13, 4, 8), k=normal(rng, 21, 2, 8), v=normal(rng, 21, 2, 6), cq=ends(QUERIES), ck=ends(KEYS))
    return p


def packed_sdpa(problem, options, dtype, order):
    """Sequence after sequence, each with options(s)."""
    q, k, v = (problem.load(n) for n in "qkv")
    cq, ck = problem.load("cq"), problem.load("ck")
    out, lse = np.zeros((*q.shape[:2], v.shape[2]), dtype), np.zeros(q.shape[1::-1], dtype)
    for s in range(len(cq) - 1):
        of_q, of_k = slice(cq[s], cq[s + 1]), slice(ck[s], ck[s + 1])
        heads_first = lambda a: np.moveaxis(a, 1, 0)[None]
        one = sdpa(heads_first(q[of_q]), heads_first(k[of_k]), heads_first(v[of_k]), options(s), dtype, order)
        out[of_q] = np.moveaxis(one.out[0], 0, 1)
        lse[:, of_q] = one.lse[0]
    return Result(out, lse, [])


def check_varlen(varlen, *words, options=lambda s: Options(), dtype=np.float32):
    varlen.succeeds(*words, "--lse", "lse.npy")
    judge_attention(lambda name: varlen.load("o" if name == "out" else name),
                    lambda dtype, order: packed_sdpa(varlen, options, dtype, order), dtype, ("out", "lse"))


@pytest.mark.parametrize("causal", [None, "top-left", "bottom-right"])
@pytest.mark.parametrize("window", [(-1, -1), (2, 1)])
def test_varlen(varlen, causal, window):
    words = ("--causal", causal) if causal else ()
    check_varlen(varlen, *words, "--window", "{},{}".format(*window), options=lambda s: Options(causal=causal, window=window))


def test_varlen_options(varlen):
    rng = np.random.default_rng(8)
    off, slopes = np.array([2, 0, -1, 7, 3]), rng.random((5, 4)).astype(np.float32)
    sinks = normal(rng, 4)
    varlen.save(off=off, slopes=slopes, sinks=sinks)
    check_varlen(varlen, "--causal", "offset", "--offset", "off.npy", "--alibi", "slopes.npy", "--sinks", "sinks.npy",
                 "--softcap", "3", "--scale", "0.7", "--score", "cosine",
                 options=lambda s: Options(causal="offset", offset=int(off[s]), alibi=slopes[s], sinks=sinks, softcap=3,
                                           scale=0.7, score="cosine"))
    check_varlen(varlen, "--alibi", "auto", options=lambda s: Options(alibi="auto"))


def test_varlen_dropout_counts_within_a_sequence(varlen):
    words = ("--dropout", "0.4", "--seed", "9", "--dropout-offset", "2")
    kept = varlen.dropout_mask((5, 4, max(QUERIES), max(KEYS)), *words)
    check_varlen(varlen, *words,
                 options=lambda s: Options(dropout=0.4, survivors=kept[s:s + 1, :, :QUERIES[s], :KEYS[s]]))


def test_varlen_types(varlen):
    check_varlen(varlen, "--dtype", "f64", dtype=np.float64)
    varlen.save(cq=ends(QUERIES).astype(np.int64))
    check_varlen(varlen)


@pytest.mark.parametrize("queries, keys", [([], []), ([0], [0]), ([0, 0], [4, 0])])
def test_varlen_of_nothing(varlen, queries, keys):
    varlen.save(cq=ends(queries), ck=ends(keys))
    assert not varlen.succeeds().any()


@pytest.mark.parametrize("option, bad", [("--cu-seqlens-q", [1, 3]), ("--cu-seqlens-q", [0, 3, 2]), ("--cu-seqlens-k", [0, 99]),
                                         ("--cu-seqlens-k", [0, -1]), ("--cu-seqlens-q", []), ("--cu-seqlens-k", [0, 1])])
def test_bad_ends(varlen, option, bad):
    varlen.save(bad=np.array(bad, np.int32), cq=ends(QUERIES))
    varlen.fails(option, **{option[2:].replace("-", "_"): "bad.npy"})


def test_bad_varlen(varlen):
    varlen.save(q4=np.ones((1, 13, 4, 8), np.float32), k3=np.ones((21, 3, 8), np.float32))
    varlen.fails("--query", query="q4.npy")
    varlen.fails("--key", key="k3.npy", value="k3.npy", says="heads")
    varlen.fails("--value", key="k3.npy", says="heads")
    varlen.fails("--score", "--score", "general", says="packed")
    varlen.fails("--out", out="q.npy")


@pytest.fixture
def append(attune, tmp_path):
    p = Problem(attune, tmp_path, "kv-append", key="k.npy", value="v.npy", key_cache="kc.npy", value_cache="vc.npy",
                cache_lens="lens.npy", key_out="ko.npy", value_out="vo.npy")
    rng = np.random.default_rng(9)
    p.save(k=normal(rng, 3, 2, 4, 5), v=normal(rng, 3, 2, 4, 6), kc=normal(rng, 3, 2, 9, 5), vc=normal(rng, 3, 2, 9, 6),
           lens=np.array([0, 5, 2]))
    return p


def grown(cache, rows, held, added):
    out = cache.copy()
    for b in range(len(cache)):
        sequence = np.concatenate([cache[b, :, :held[b]], rows[b, :, :added[b]]], axis=1)[:, -cache.shape[2]:]
        out[b, :, :sequence.shape[1]] = sequence
    return out


def check_append(append, *words, held, added):
    done = append.run(*words)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
    for cache, rows, out in (("kc", "k", "ko"), ("vc", "v", "vo")):
        assert np.array_equal(append.load(out), grown(append.load(cache), append.load(rows), held, added))


def test_kv_append(append):
    check_append(append, held=[0, 5, 2], added=[4, 4, 4])
    append.save(new=np.array([1, 0, 4]))
    check_append(append, "--new-lens", "new.npy", held=[0, 5, 2], added=[1, 0, 4])


def test_kv_append_slides(append):
    append.save(lens=np.array([9, 7, 0]))
    check_append(append, "--when-full", "slide", held=[9, 7, 0], added=[4, 4, 4])
    append.save(k=normal(np.random.default_rng(1), 3, 2, 30, 5), v=normal(np.random.default_rng(2), 3, 2, 30, 6))
    check_append(append, "--when-full", "slide", held=[9, 7, 0], added=[30] * 3)


def test_bad_kv_append(append):
    append.save(full=np.array([0, 6, 0]), far=np.array([0, 10, 0]), k3=np.ones((3, 4, 5), np.float32))
    append.fails("--cache-lens", cache_lens="full.npy", says="entry (1) is 6")
    append.fails("--cache-lens", cache_lens="far.npy", says="entry (1) is 10")
    append.fails("--key", key="k3.npy")
    append.fails("--when-full", "--when-full", "wait")
    append.fails("--key-out", key_out="kc.npy")


@pytest.mark.parametrize("words, causal", [((), None), (("--causal", "bottom-right"), "offset"),
                                           (("--causal", "offset"), "offset")])
def test_cache_lens(problem, words, causal):
    held = np.array([1, 2])
    problem.save(held=held)
    problem.succeeds(*words, "--cache-lens", "held.npy", "--lse", "lse.npy")
    q, k, v = (problem.load(n) for n in "qkv")
    expected = Options(causal=causal, offset=held, valid_lens=held + q.shape[2])
    judge_attention(lambda name: problem.load("o" if name == "out" else name),
                    lambda dtype, order: sdpa(q, k, v, expected, dtype, order), np.float32, ("out", "lse"))


def test_bad_cache_lens(problem):
    problem.save(bad=np.array([0, 3]), good=np.array([0, 1]))
    problem.fails("--cache-lens", "--cache-lens", "bad.npy", says="entry (1) is 3")
    problem.fails("--cache-lens", "--cache-lens", "good.npy", "--valid-lens", "good.npy", says="beside")


def chunks_of(problem, sizes, *words):
    """A prompt q.npy over k.npy and v.npy in chunks, whose results are joined along the queries."""
    q, k, v = (problem.load(n) for n in "qkv")
    results, held = [], 0
    for size in sizes:
        problem.save(qc=q[:, :, held:held + size], held=np.array([held] * len(q)))
        out = problem.succeeds(*words, "--causal", "bottom-right", "--cache-lens", "held.npy", "--lse", "lse.npy",
                               query="qc.npy")
        results.append(np.concatenate([out, problem.load("lse")[..., None]], axis=3))
        held += size
    return np.concatenate(results, axis=2)


@pytest.mark.parametrize("words", [(), ("--window", "20,0"), ("--alibi", "auto", "--softcap", "5")])
def test_invariant(problem, words):
    """A prompt at once, in chunks and token by token: the same bits with --invariant."""
    rng = np.random.default_rng(12)
    problem.save(q=normal(rng, 1, 4, 70, 64), k=normal(rng, 1, 2, 70, 64), v=normal(rng, 1, 2, 70, 64))
    whole = chunks_of(problem, [70], *words, "--invariant")
    for sizes in ([64, 6], [17, 33, 20], [1] * 70):
        assert np.array_equal(chunks_of(problem, sizes, *words, "--invariant"), whole), sizes
    q, k, v = (problem.load(n) for n in "qkv")
    packed = Problem(problem.program, problem.folder, "varlen", query="pq.npy", key="pk.npy", value="pv.npy", out="po.npy",
                     cu_seqlens_q="cq.npy", cu_seqlens_k="ck.npy")
    tokens = lambda a: np.moveaxis(a[0], 0, 1)
    # The prompt at once, its last 13 queries and its last one, over the rows three times.
    packed.save(pq=np.concatenate([tokens(q), tokens(q)[-13:], tokens(q)[-1:]]), pk=np.concatenate([tokens(k)] * 3),
                pv=np.concatenate([tokens(v)] * 3), cq=ends([70, 13, 1]), ck=ends([70] * 3))
    out = packed.succeeds(*words, "--causal", "bottom-right", "--invariant")
    assert np.array_equal(out, np.concatenate([tokens(whole[..., :64])[rows] for rows in (slice(0, 70), slice(57, 70), [69])]))


def test_invariant_refuses_variants_without_it(problem, variants):
    amx = [v["name"] for v in variants if v["schedule"] == "amx" and v["op"] == "sdpa" and v["runs_here"]]
    if not amx:
        pytest.skip("no variant of schedule amx runs here")
    problem.fails("--variant", "--invariant", "--variant", amx[0], "--dtype", "bf16")


def test_commands_of_the_page_about_serving(attune, tmp_path):
    page = Path(__file__).parents[2] / "docs" / "serving.md"
    commands = "\n".join(re.findall(r"```sh\n(.*?)```", page.read_text(), re.S))
    assert commands.count("attune run") == 11
    shell = f'set -e\nattune() {{ "{attune.path}" "$@"; }}\npython3() {{ "{sys.executable}" "$@"; }}\n{commands}'
    done = subprocess.run(["bash", "-c", shell], cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=300)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
    packed, quantised = (np.load(tmp_path / f"{name}.npy") for name in ("po", "po8"))
    assert packed.shape == (7, 8, 64) and quantised.shape == (5, 8, 64)
    # The first query sees its own row alone: its value, quantised.
    value = int8_of(np.load(tmp_path / "pv.npy")[:1]).numbers
    assert np.abs(quantised[0].reshape(2, 4, 64) - value[0][:, None]).max() < 1e-6
