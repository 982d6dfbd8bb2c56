# SPDX-License-Identifier: MIT
"""attune run paged against the NumPy computation, over random batches of prompts, chunks, steps and trees; bad pages. Quantised
pages are in test_random_paged.py."""
import numpy as np
import pytest
from attention_numpy import Options, sdpa
from conftest import Problem, normal
from judging import judge, judge_attention, reference_and_plain
from paged_batch import Batch, bias_by_distance, heads_first, in_order, random_tree, tree_options
from rows_numpy import int8_of

SIDE = 6  # most queries of a sequence with a tree


@pytest.fixture
def problem(attune, tmp_path):
    return Problem(attune, tmp_path, "paged", query="q.npy", key_pages="k.npy", value_pages="v.npy", cu_seqlens_q="cq.npy",
                   block_table="table.npy", lens="lens.npy", out="o.npy")


def check(problem, batch, *words, options, dtype=np.float32):
    problem.succeeds(*words, "--lse", "lse.npy")
    judge_attention(lambda name: problem.load("o" if name == "out" else name),
                    lambda dtype, order: in_order(problem, batch, options, dtype, order), dtype, ("out", "lse"))


@pytest.mark.parametrize("seed", range(24))
def test_random_batches(problem, seed):
    rng = np.random.default_rng(seed)
    batch = Batch(rng, int(rng.integers(1, 7)), prefixes=int(rng.integers(0, 3)))
    files, words, given = batch.files(rng), [], {}
    if batch.prefix_of is not None:
        words += ["--prefix-table", "pt.npy", "--prefix-lens", "pl.npy", "--prefix-of", "po.npy"]
    if seed % 3 == 1:
        given["window"] = (int(rng.integers(0, 40)), -1)
        words += ["--window", "{},{}".format(*given["window"])]
    if seed % 4 == 1:
        files["sinks"] = given["sinks"] = normal(rng, 4)
        words += ["--sinks", "sinks.npy"]
    if seed % 5 == 2:
        given["softcap"] = 3
        words += ["--softcap", "3"]
    if seed % 6 == 3:
        given["alibi"] = "auto"
        words += ["--alibi", "auto"]
    bias = None
    if seed % 4 == 2:
        files["bias"] = bias = normal(rng, 4, 12)
        words += ["--distance-bias", "bias.npy"]
    causal = seed % 7 != 0
    words += [] if causal else ["--not-causal"]
    if seed % 2:
        files["table"] = np.array([page for row in batch.lists for page in row], np.int32)
        files["ptr"] = np.concatenate([[0], np.cumsum([len(row) for row in batch.lists])])
        words += ["--indptr", "ptr.npy"]
    problem.save(**files)

    def options(s, keys):
        old = keys - batch.queries[s]
        more = {"causal": "offset", "offset": old} if causal else {"offset": old}
        if bias is not None:
            more["bias"] = bias_by_distance(bias, batch.queries[s], keys)
        return Options(**given, **more)

    check(problem, batch, *words, options=options)


@pytest.mark.parametrize("seed", range(8))
def test_trees(problem, seed):
    rng = np.random.default_rng(100 + seed)
    batch = Batch(rng, 4, most=SIDE + 1)
    files = batch.files(rng)
    tree = random_tree(rng, 4, SIDE)
    window = (int(rng.integers(0, 50)), 2) if seed % 2 else (-1, -1)
    problem.save(**files, tree=tree)

    options = lambda s, keys: tree_options(tree[s], batch.queries[s], keys, window)
    check(problem, batch, "--tree-mask", "tree.npy", "--window", "{},{}".format(*window), options=options)


def test_types(problem):
    rng = np.random.default_rng(5)
    batch = Batch(rng, 4)
    problem.save(**batch.files(rng))
    options = lambda s, keys: Options(causal="offset", offset=keys - batch.queries[s])
    check(problem, batch, "--dtype", "f64", options=options, dtype=np.float64)


def one_sequence(rng):
    """A batch of two queries over 20 rows, in pages 0 and 1 of 16 rows."""
    batch = Batch(rng, 1)
    batch.queries, batch.lens, batch.lists, batch.page, batch.pages = [2], [20], [[0, 1]], 16, 3
    return batch


def test_invariant(problem):
    """A prompt at once, in chunks and row by row over int8 pages: the same bits."""
    rng = np.random.default_rng(7)
    queries = [70, 33, 5, 1, 1]  # of five requests that hold the same rows, the last ones
    pages = [normal(rng, 5, 16, 2, 64) for _ in range(2)]
    k, v = (int8_of(p) for p in pages)
    q = normal(rng, 70, 4, 64)
    lens = np.array([70, 70, 70, 70, 41])
    first = lens - queries
    problem.save(q=np.concatenate([q[a:b] for a, b in zip(first, lens)]), k=k.rows, v=v.rows, ks=k.scale, vs=v.scale,
                 cq=np.concatenate([[0], np.cumsum(queries)]), table=np.array([[4, 0, 3, 1, 2]] * 5), lens=lens)
    out = problem.succeeds("--key-scale", "ks.npy", "--value-scale", "vs.npy", "--invariant")
    assert np.array_equal(out, np.concatenate([out[a:b] for a, b in zip(first, lens)]))


@pytest.mark.parametrize("groups", [False, True])
def test_weight_sums(problem, groups):
    """Sums of the weights of each key; 0 behind the rows of a sequence."""
    rng = np.random.default_rng(9)
    batch = Batch(rng, 5, prefixes=2)
    problem.save(**batch.files(rng))
    problem.succeeds("--prefix-table", "pt.npy", "--prefix-lens", "pl.npy", "--prefix-of", "po.npy", "--weight-sums",
                     "sums.npy", *["--group-sums"][:groups])
    got, q, k, v, ends = (problem.load(n) for n in ("sums", "q", "k", "v", "cq"))
    rows = [len(batch.rows(s)) for s in range(5)]
    assert got.dtype == np.float32 and got.shape == (5, 2 if groups else 4, max(rows))

    def expected(s, dtype, order):
        options = Options(causal="offset", offset=rows[s] - batch.queries[s])
        query = heads_first(q[ends[s]:ends[s + 1]])
        weights = sdpa(query, batch.held(k, s), batch.held(v, s), options, dtype, order).weights[3]
        return weights[0].reshape(got.shape[1], -1, rows[s]).sum(1)

    for s in range(5):
        assert not np.any(got[s, :, rows[s] if batch.queries[s] else 0:])
        if batch.queries[s]:
            exact, plain = reference_and_plain(lambda dtype, order: expected(s, dtype, order), np.float32)
            judge(f"sequence {s}", got[s, :, :rows[s]], plain, exact, np.float32)


def test_group_sums_alone(problem):
    rng = np.random.default_rng(6)
    problem.save(**one_sequence(rng).files(rng))
    problem.fails("--group-sums", "--group-sums", says="is only for --weight-sums")


QUANTISED = dict(key_pages="k8.npy", value_pages="v8.npy")


@pytest.mark.parametrize("option, words, given, says", [
    ("--key-scale", [], dict(key_pages="k8.npy"), "is not given, and pages of i8 need it"),
    ("--value-scale", ["--key-scale", "s.npy"], QUANTISED, "is not given, and pages of i8 need it"),
    ("--value-scale", [], dict(value_pages="v4.npy"), "is not given, and pages of u8 need it"),
    ("--value-minimum", ["--value-scale", "s4.npy"], dict(value_pages="v4.npy"), "is not given, and pages of u8 need it"),
    ("--key-minimum", ["--key-scale", "s.npy", "--key-minimum", "s4.npy"], dict(key_pages="k8.npy"), "pages of i8 have none"),
    ("--key-pages", ["--key-scale", "s.npy"], {}, "not quantised"),
    ("--key-scale", ["--key-scale", "double.npy"], dict(key_pages="k8.npy"), "must be f32"),
    ("--key-scale", ["--key-scale", "short.npy"], dict(key_pages="k8.npy"), "number of pages"),
    ("--key-scale", ["--key-scale", "k8.npy"], dict(key_pages="k8.npy"), "expected float32, float64 or float16"),
    ("--key-pages", [], dict(key_pages="table.npy"), "expected float32, float64, float16, int8 or uint8"),
    ("--key-minimum", ["--key-minimum", "s.npy"], dict(key_pages="k8.npy"), "expected (P, page, Hkv, G)"),
    ("--key-pages", ["--dtype", "f64", "--key-scale", "s.npy"], dict(key_pages="k8.npy"), "f64"),
    ("--prefix-lens", ["--prefix-table", "table.npy", "--prefix-lens", "seven.npy", "--prefix-of", "zero.npy"], {},
     "multiple of 16"),
    ("--prefix-of", ["--prefix-table", "table.npy", "--prefix-lens", "sixteen.npy", "--prefix-of", "seven.npy"], {}, "is 7"),
    ("--prefix-table", ["--prefix-table", "lens.npy", "--prefix-lens", "sixteen.npy", "--prefix-of", "zero.npy"], {}, "(G, N)"),
])
def test_bad_pages(problem, option, words, given, says):
    rng = np.random.default_rng(8)
    integers = lambda *numbers: np.array(numbers, np.int32)
    problem.save(**one_sequence(rng).files(rng), k8=np.ones((3, 16, 2, 8), np.int8), v8=np.ones((3, 16, 2, 6), np.int8),
                 v4=np.ones((3, 16, 2, 3), np.uint8), s=np.ones((3, 16, 2), np.float32), double=np.ones((3, 16, 2)),
                 short=np.ones((2, 16, 2), np.float32), s4=np.ones((3, 16, 2, 1), np.float16), zero=integers(0),
                 seven=integers(7), sixteen=integers(16))
    problem.fails(option, *words, says=says, **given)


@pytest.mark.parametrize("option, name, bad, says", [
    ("--block-table", "table", [[99, 99, 99, 99, 99]], "99"), ("--block-table", "table", [[-1] * 5], "-1"),
    ("--lens", "lens", [0], "queries"), ("--block-table", "lens", [9999], "pages"),
    ("--cu-seqlens-q", "cq", [0, 2, 1], "entry")])
def test_bad_tables(problem, option, name, bad, says):
    rng = np.random.default_rng(6)
    files = one_sequence(rng).files(rng)
    files[name] = np.array(bad, np.int32)
    problem.save(**files)
    problem.fails(option, says=says)
