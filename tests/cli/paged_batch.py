# SPDX-License-Identifier: MIT
"""Random batches over caches in pages, as files of attune run paged and as rows in order for the NumPy computation."""
import numpy as np
from attention_numpy import Options, Result, sdpa
from conftest import normal


def heads_first(rows):
    """(S, H, D) as (1, H, S, D)."""
    return np.moveaxis(rows, 1, 0)[None]


class Batch:
    """Sequences over a pool whose unused rows are NaN; rows() gives those of a sequence in order."""

    def __init__(self, rng, count, prefixes=0, most=40):
        self.page = int(rng.choice([1, 16, 32, 48]))
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

    def held(self, pool, s):
        """(1, H, S, D): the rows of a pool (P, page, H, D) that sequence s sees, in order."""
        return heads_first(pool.reshape(-1, *pool.shape[2:])[self.rows(s)])

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


def random_tree(rng, batch, side):
    """(B, side, side) bool: each new row sees itself and, mostly, an earlier one with all that it sees."""
    tree = np.zeros((batch, side, side), bool)
    for b in range(batch):
        for i in range(side):
            tree[b, i, i] = True
            if i and rng.random() < 0.8:
                tree[b, i] |= tree[b, rng.integers(0, i)]
    return tree


def tree_options(tree, queries, keys, window=(-1, -1), **more):
    """Options of one sequence whose new rows see each other by `tree` (S, S), and which a window counts by their depth."""
    old = keys - queries
    mine = tree[:queries, :queries]
    new = old + mine.sum(1) - 1
    at = np.concatenate([np.arange(old), new])
    mask = np.concatenate([np.ones((queries, old), bool), mine], 1)
    behind = new[:, None] - at[None]
    for side, reach in ((behind, window[0]), (-behind, window[1])):
        mask &= (side <= reach) | (reach < 0)
    return Options(mask=mask[None, None], **more)


def bias_by_distance(bias, queries, keys):
    """(1, Hq, Sq, Sk) of entries (Hq, R) for keys 0, 1, ... rows before the query."""
    i, j = np.ogrid[:queries, :keys]
    return bias[:, np.clip(i + keys - queries - j, 0, bias.shape[1] - 1)][None]


def in_order(problem, batch, options, dtype, order):
    """Sequence after sequence over its rows, each with options(s, keys)."""
    q, k, v, ends = (problem.load(n) for n in ("q", "k", "v", "cq"))
    out, lse = np.zeros((*q.shape[:2], v.shape[3]), dtype), np.zeros(q.shape[1::-1], dtype)
    for s in range(len(batch.queries)):
        mine = slice(ends[s], ends[s + 1])
        one = sdpa(heads_first(q[mine]), batch.held(k, s), batch.held(v, s), options(s, len(batch.rows(s))), dtype, order)
        out[mine] = np.moveaxis(one.out[0], 0, 1)
        lse[:, mine] = one.lse[0]
    return Result(out, lse, [])
