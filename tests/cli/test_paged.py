# SPDX-License-Identifier: MIT
"""attune run paged against the NumPy computation, over random batches of prompts, chunks, steps and trees."""
import numpy as np
import pytest
from attention_numpy import Options, Result, sdpa
from conftest import Problem
from judging import judge_attention

SIDE = 6  # most queries of a sequence with a tree


def normal(rng, *shape):
    return rng.standard_normal(shape, np.float32)


class Batch:
    """Sequences over a pool whose unused rows are NaN; rows_of gives those of a sequence in order."""

    def __init__(self, rng, count, prefixes=0, most=40):
        self.page = int(rng.choice([16, 32, 48]))
        self.queries = [int(rng.choice([0, 1, 1, rng.integers(2, 6), rng.integers(1, most)])) for _ in range(count)]
        self.lens = [q + int(rng.integers(0, 90)) for q in self.queries]
        self.prefix_lens = [16 * int(rng.integers(0, 4)) for _ in range(prefixes)]
        self.prefix_of = [int(rng.integers(-1, prefixes)) for _ in range(count)] if prefixes else None
        needed = [-(-n // self.page) for n in self.lens + self.prefix_lens]
        order = list(rng.permutation(sum(needed) + 2))
        lists = [[int(order.pop()) for _ in range(n)] for n in needed]
        self.lists, self.prefix_lists = lists[:count], lists[count:]
        self.pages = sum(needed) + 2

    def table(self, lists):
        width = max([1, *map(len, lists)])
        return np.array([row + [-1] * (width - len(row)) for row in lists], np.int32).reshape(len(lists), width)

    def rows(self, s):
        """Numbers of the pool's rows that sequence s sees, in order."""
        g = -1 if self.prefix_of is None else self.prefix_of[s]
        in_order = lambda pages, rows: [pages[j // self.page] * self.page + j % self.page for j in range(rows)]
        before = in_order(self.prefix_lists[g], self.prefix_lens[g]) if g >= 0 else []
        return before + in_order(self.lists[s], self.lens[s])

    def files(self, rng, hq=4, hkv=2, dk=8, dv=6):
        q = normal(rng, sum(self.queries) + 1, hq, dk)
        k, v = (normal(rng, self.pages, self.page, hkv, d) for d in (dk, dv))
        used = np.zeros(self.pages * self.page, bool)
        for s in range(len(self.queries)):
            used[self.rows(s)] = True
        k.reshape(-1, hkv, dk)[~used] = np.nan
        v.reshape(-1, hkv, dv)[~used] = np.nan
        files = dict(q=q, k=k, v=v, cq=np.concatenate([[0], np.cumsum(self.queries)]), table=self.table(self.lists),
                     lens=np.array(self.lens, np.int32))
        if self.prefix_of is not None:
            files |= dict(pt=self.table(self.prefix_lists), pl=np.array(self.prefix_lens), po=np.array(self.prefix_of))
        return files


@pytest.fixture
def problem(attune, tmp_path):
    return Problem(attune, tmp_path, "paged", query="q.npy", key_pages="k.npy", value_pages="v.npy", cu_seqlens_q="cq.npy",
                   block_table="table.npy", lens="lens.npy", out="o.npy")


def in_order(problem, batch, options, dtype, order):
    """Sequence after sequence over its rows, each with options(s, keys)."""
    q, k, v, ends = (problem.load(n) for n in ("q", "k", "v", "cq"))
    out, lse = np.zeros((*q.shape[:2], v.shape[3]), dtype), np.zeros(q.shape[1::-1], dtype)
    heads_first = lambda a: np.moveaxis(a, 1, 0)[None]
    for s in range(len(batch.queries)):
        rows, mine = batch.rows(s), slice(ends[s], ends[s + 1])
        of = lambda pool: heads_first(pool.reshape(-1, *pool.shape[2:])[rows])
        one = sdpa(heads_first(q[mine]), of(k), of(v), options(s, len(rows)), dtype, order)
        out[mine] = np.moveaxis(one.out[0], 0, 1)
        lse[:, mine] = one.lse[0]
    return Result(out, lse, [])


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
            i, j = np.ogrid[:batch.queries[s], :keys]
            more["bias"] = bias[:, np.clip(i + old - j, 0, bias.shape[1] - 1)][None]
        return Options(**given, **more)

    check(problem, batch, *words, options=options)


@pytest.mark.parametrize("seed", range(8))
def test_trees(problem, seed):
    rng = np.random.default_rng(100 + seed)
    batch = Batch(rng, 4, most=SIDE + 1)
    files = batch.files(rng)
    tree = np.zeros((4, SIDE, SIDE), bool)
    for b in range(4):
        for i in range(SIDE):
            tree[b, i, i] = True
            if i and rng.random() < 0.8:
                tree[b, i] |= tree[b, rng.integers(0, i)]
    window = (int(rng.integers(0, 50)), 2) if seed % 2 else (-1, -1)
    problem.save(**files, tree=tree)

    def options(s, keys):
        n, old = batch.queries[s], keys - batch.queries[s]
        mine = tree[s, :n, :n]
        new = old + mine.sum(1) - 1
        at = np.concatenate([np.arange(old), new])
        mask = np.concatenate([np.ones((n, old), bool), mine], 1)
        behind = new[:, None] - at[None]
        for side, reach in ((behind, window[0]), (-behind, window[1])):
            mask &= (side <= reach) | (reach < 0)
        return Options(mask=mask[None, None])

    check(problem, batch, "--tree-mask", "tree.npy", "--window", "{},{}".format(*window), options=options)


def test_types(problem):
    rng = np.random.default_rng(5)
    batch = Batch(rng, 4)
    problem.save(**batch.files(rng))
    options = lambda s, keys: Options(causal="offset", offset=keys - batch.queries[s])
    check(problem, batch, "--dtype", "f64", options=options, dtype=np.float64)


@pytest.mark.parametrize("option, name, bad, says", [
    ("--block-table", "table", [[99, 99, 99, 99, 99]], "99"), ("--block-table", "table", [[-1] * 5], "-1"),
    ("--lens", "lens", [0], "queries"), ("--block-table", "lens", [9999], "pages"),
    ("--cu-seqlens-q", "cq", [0, 2, 1], "entry")])
def test_bad_tables(problem, option, name, bad, says):
    rng = np.random.default_rng(6)
    batch = Batch(rng, 1)
    batch.queries, batch.lens = [2], [20]
    batch.lists = [[0, 1]]
    files = batch.files(rng)
    files[name] = np.array(bad, np.int32)
    problem.save(**files)
    problem.fails(option, says=says)
