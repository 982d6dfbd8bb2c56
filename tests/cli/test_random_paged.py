# SPDX-License-Identifier: MIT
"""attune run paged over quantised pages: batches mixed at random, against the NumPy computation over the rows as numbers.

Kernels that read quantised rows in place, for few queries, take them as numbers of f32, all others as numbers of the type of
the query (attune/paged.h): a sequence is right if it is that of either. ATTUNE_TEST_SEED picks other cases, ATTUNE_TEST_CASES
their number.
"""
import os
from collections import Counter

import numpy as np
import pytest
from attention_numpy import Options, sdpa
from conftest import Problem, normal, note
from element_types import BF16, F16, F32
from judging import judge_attention
from paged_batch import Batch, bias_by_distance, heads_first, random_tree, tree_options
from rows_numpy import Pages, int4_of, int8_by_scale, int8_of
from test_random_cases import DEFAULT_SEED

CASES = 48
KINDS = ("int8", "int8 f16", "int8 tensor", "int8 channel", "int4", "int4", "numbers")
WIDTHS = (6, 20, 32, 64, 64, 96, 128, 128)
HEADS = ((4, 2), (8, 1), (2, 2), (6, 3), (1, 1))


@pytest.fixture
def problem(attune, tmp_path):
    return Problem(attune, tmp_path, "paged", query="q.npy", key_pages="k.npy", value_pages="v.npy", cu_seqlens_q="cq.npy",
                   block_table="table.npy", lens="lens.npy", out="o.npy", lse="lse.npy")


def quantised(rng, rows, kind, of):
    """Pages of rows (P, page, H, D), which are NaN where no sequence holds them: then so are scales and minima, and bytes are
    anything. And the words of the case's label."""
    unused = np.isnan(rows).any(axis=-1)
    heads, width = rows.shape[2:]
    if kind == "numbers":
        return Pages(of.of(rows), None, None, of.of(rows)), kind
    rows = np.where(unused[..., None], normal(rng, *rows.shape), rows)
    if kind == "int8 tensor":
        return int8_by_scale(rows, np.float32([rng.uniform(0.01, 0.04)])), kind
    if kind == "int8 channel":
        return int8_by_scale(rows, rng.uniform(0.005, 0.04, (heads, width)).astype(np.float32)), kind
    group = int(rng.choice([g for g in (32, 64, width) if width % g == 0]))
    pages = int4_of(rows, group) if kind == "int4" else int8_of(rows, np.float16 if kind == "int8 f16" else np.float32)
    for of_rows in (pages.scale, pages.minimum):
        if of_rows is not None:
            of_rows[unused] = np.nan
    if kind == "int4":
        kind += " all" if group == width else f" {group}"
    return pages, kind


def random_options(rng, words, arrays, kinds, heads, batch, side, of):
    """options(s, keys) of a sequence; adds words, arrays and kinds."""
    given, bias = {}, None
    window = (int(rng.integers(0, 40)), -1) if rng.random() < 0.3 else None
    if window:
        words += ["--window", "{},{}".format(*window)]
        kinds.append("window")
    if rng.random() < 0.3:
        arrays["sinks"] = given["sinks"] = normal(rng, heads)
        words += ["--sinks", "sinks.npy"]
        kinds.append("sinks")
    if rng.random() < 0.25:
        given["softcap"] = 3
        words += ["--softcap", "3"]
        kinds.append("softcap")
    if rng.random() < 0.25:
        arrays["tree"] = tree = random_tree(rng, len(batch.queries), side)
        words += ["--tree-mask", "tree.npy"]
        kinds.append("tree")
        return lambda s, keys: tree_options(tree[s], batch.queries[s], keys, window or (-1, -1), **given)
    if rng.random() < 0.3:
        given["alibi"] = "auto"
        words += ["--alibi", "auto"]
        kinds.append("alibi")
    if rng.random() < 0.2:
        arrays["bias"] = bias = of.of(normal(rng, heads, 12))
        words += ["--distance-bias", "bias.npy"]
        kinds.append("bias")
    causal = rng.random() < 0.85
    words += [] if causal else ["--not-causal"]
    kinds += [] if causal else ["not causal"]

    def options(s, keys):
        more = {} if bias is None else {"bias": bias_by_distance(bias, batch.queries[s], keys)}
        return Options(causal="offset" if causal else None, offset=keys - batch.queries[s], window=window or (-1, -1), **given,
                       **more)

    return options


def random_case(rng):
    of = (F32, F16, BF16)[rng.integers(0, 3)]
    words, kinds = ["--dtype", "bf16"] if of is BF16 else [], [of.name]
    side = int(rng.choice([6, 40, 40]))
    batch = Batch(rng, int(rng.integers(1, 7)), prefixes=int(rng.integers(0, 3)), most=side + 1)
    hq, hkv = HEADS[rng.integers(0, len(HEADS))]
    dk = int(rng.choice(WIDTHS))
    dv = dk if rng.random() < 0.6 else int(rng.choice(WIDTHS))
    arrays = batch.files(rng, hq, hkv, dk, dv)
    arrays["q"] = of.of(arrays["q"])
    of_keys = str(rng.choice(KINDS))
    of_values = of_keys if rng.random() < 0.6 else str(rng.choice(KINDS))
    pools = {}
    for name, option, kind in (("k", "key", of_keys), ("v", "value", of_values)):
        pools[name], label = quantised(rng, arrays[name], kind, of)
        kinds.append(label)
        arrays[name] = pools[name].rows
        for part in ("scale", "minimum"):
            if getattr(pools[name], part) is not None:
                arrays[f"{name}_{part}"] = getattr(pools[name], part)
                words += [f"--{option}-{part}", f"{name}_{part}.npy"]
    if batch.prefix_of is not None:
        words += ["--prefix-table", "pt.npy", "--prefix-lens", "pl.npy", "--prefix-of", "po.npy"]
        kinds.append("prefix")
    options = random_options(rng, words, arrays, kinds, hq, batch, side, of)
    if rng.random() < 0.25:
        words += ["--invariant"]
        kinds.append("invariant")
    words += ["--threads", str(rng.integers(1, 6))]
    return of, batch, arrays, pools["k"].numbers, pools["v"].numbers, options, words, kinds


def judge_sequence(out, lse, q, k, v, options, of):
    """The share of the allowed error; k and v are rows as numbers."""
    rounded = [of.of(a) for a in (k, v)]

    def share(exact):
        compute = lambda dtype, order: sdpa(q, *(exact if dtype is of.wider else rounded), options, dtype, order)
        return judge_attention({"out": out, "lse": lse}.get, compute, of, ("out", "lse"))[0]

    try:
        return share((k, v))
    except AssertionError:
        if of is F32:
            raise
    return share(rounded)


def run_case(problem, case):
    of, batch, arrays, keys, values, options, words, _ = case
    problem.save(**arrays)
    out = problem.succeeds(*words)
    lse, ends, share = problem.load("lse"), arrays["cq"], 0.0
    assert not out[ends[-1]:].any() and not lse[:, ends[-1]:].any(), "rows beyond the last sequence are not 0"
    for s, count in enumerate(batch.queries):
        if count == 0:
            continue
        mine = slice(ends[s], ends[s + 1])
        q, k, v = heads_first(arrays["q"][mine]), batch.held(keys, s), batch.held(values, s)
        try:
            share = max(share, judge_sequence(heads_first(out[mine]), lse[None, :, mine], q, k, v, options(s, k.shape[2]), of))
        except AssertionError as error:
            raise AssertionError(f"sequence {s}: {error}") from None
    return share


def test_random_quantised_pages(problem):
    seed, cases = int(os.environ.get("ATTUNE_TEST_SEED", DEFAULT_SEED)), int(os.environ.get("ATTUNE_TEST_CASES", CASES))
    counts, worst, failures = Counter(), 0.0, []
    for n in range(cases):
        case = random_case(np.random.default_rng([seed, n]))
        batch, arrays, words, kinds = case[1], case[2], case[6], case[7]
        counts.update(kinds)
        counts["single rows"] += batch.page == 1
        counts.update("prompt or chunk" if q > 5 else "step" if q == 1 else "few" for q in batch.queries if q)
        try:
            worst = max(worst, run_case(problem, case))
        except AssertionError as error:
            label = f"{', '.join(kinds)}; queries {batch.queries}, rows {batch.lens}, q{arrays['q'].shape}, page {batch.page}"
            failures.append(f"case {n} of seed {seed}: {label}: {' '.join(words)}\n    {str(error).splitlines()[0]}")
    mixture = ", ".join(f"{k} {c}" for k, c in sorted(counts.items()))
    note(f"random quantised pages: ATTUNE_TEST_SEED={seed}, ATTUNE_TEST_CASES={cases}, largest share of the allowed error: "
         f"{worst:.2f}; {mixture}")
    assert not failures, f"{len(failures)} of {cases} failed\n" + "\n".join(failures)
    # The mixture is only worth its name if it holds some of everything.
    expected = ("f32", "f16", "bf16", "int8", "int8 f16", "int8 tensor", "int8 channel", "int4 32", "int4 64", "int4 all",
                "numbers", "tree", "prefix", "window", "sinks", "softcap", "alibi", "bias", "not causal", "invariant",
                "prompt or chunk", "step", "few", "single rows")
    if cases >= CASES:
        assert all(counts[kind] >= 3 for kind in expected), mixture
