# SPDX-License-Identifier: MIT
"""Options mixed at random, through files, against the NumPy computation. ATTUNE_TEST_SEED picks other cases."""
import os
from collections import Counter

import numpy as np
from attention_numpy import Additive, MultiHead, additive as additive_numpy, multi_head, sdpa
from conftest import note
from element_types import BF16, F16, F32, F64
from judging import judge_attention
from random_options import WIDTHS, poison, random_options, random_results, random_sizes, random_variant

SDPA_CASES, ADDITIVE_CASES, MULTI_HEAD_CASES = 200, 60, 60
DEFAULT_SEED = 20250117


def random_type(rng, of_16_bits=False):
    return [F16, BF16][rng.integers(0, 2)] if of_16_bits else F32 if rng.random() < 0.65 else F64


def random_widths(rng):
    width = int(rng.choice(WIDTHS))
    return width, width if rng.random() < 0.6 else int(rng.choice(WIDTHS))


def random_sdpa(rng, variants, of_16_bits=False):
    of, (head_dim, value_dim) = random_type(rng, of_16_bits), random_widths(rng)
    batch, heads, key_heads, queries, keys = random_sizes(rng)
    rank3 = rng.random() < 0.2
    if rank3:
        heads = key_heads = 1
    outer = (batch,) if rank3 else (batch, heads)
    score = "dot" if of_16_bits else str(rng.choice(["dot", "dot", "dot", "dot", "general", "cosine", "gaussian"]))
    options, words, arrays = random_options(rng, outer, batch, heads, queries, keys, of, head_dim, score)
    query_dim = head_dim
    if options.score != "dot":
        words += ["--score", options.score]
    if options.score == "general":
        query_dim = int(rng.choice(WIDTHS))
        weight = rng.standard_normal((query_dim, head_dim)) / np.sqrt(query_dim * head_dim)
        options.score_weight = arrays["W"] = of.of(weight)
        words += ["--score-weight", "W.npy"]
    results = random_results(rng, words, heads)
    forced = rng.random() < 0.6
    if forced:
        op = options.score if options.score in ("cosine", "gaussian") else "sdpa"
        size = head_dim if options.score == "dot" else 0
        words += ["--variant", random_variant(rng, variants, op, options, of, words, (size, value_dim))]
    q = rng.standard_normal((batch, heads, queries, query_dim))
    k = rng.standard_normal((batch, key_heads, keys, head_dim))
    v = rng.standard_normal((batch, key_heads, keys, value_dim))
    if rank3:
        q, k, v = q[:, 0], k[:, 0], v[:, 0]
    arrays |= {"q": of.of(q), "k": of.of(k), "v": of.of(v)}
    if rng.random() < 0.2:
        arrays["q"] = np.asfortranarray(arrays["q"])
    if rng.random() < 0.1 and of is F64:  # every f32 is an f64, so only the type of the computation changes
        arrays["k"] = arrays["k"].astype(np.float32)
        words += ["--dtype", "f64"]
    if rng.random() < 0.3 and results[1] > 1:
        poison(rng, arrays, options, (batch, heads, queries, keys), outer, key_heads)
    q, k, v = arrays["q"], arrays["k"], arrays["v"]
    return dict(of=of, options=options, words=words, arrays=arrays, results=results, forced=forced,
                shape=(batch, heads, queries, keys), compute=lambda dtype, order: sdpa(q, k, v, options, dtype, order))


def score_bounds(error, value, options):
    """Bounds of the results for an error of the scores, as attune/additive.h allows it without projections in f32:
    weights move by a factor of exp(2 * error) at most, so their sum moves by 2 * error."""
    survivor = 1 / (1 - options.dropout) if options.dropout < 1 else 0
    return {"lse": error, "scores": error, "weights": 2 * error,
            "out": 2 * error * survivor * np.max(np.abs(value), initial=0)}


def random_additive(rng, variants):
    of, (batch, heads, key_heads, queries, keys) = random_type(rng), random_sizes(rng)
    hidden, value_dim = int(rng.choice(WIDTHS)), int(rng.choice(WIDTHS))
    rank3 = rng.random() < 0.4
    if rank3:
        heads = key_heads = 1
    outer = (batch,) if rank3 else (batch, heads)
    options, words, arrays = random_options(rng, outer, batch, heads, queries, keys, of, hidden)
    results = random_results(rng, words, heads)
    layer, width = Additive(), {"query": hidden, "key": hidden}
    for side in ("query", "key"):
        if rng.random() < 0.6:
            width[side] = int(rng.choice(WIDTHS))
            weight = of.of(rng.standard_normal((hidden, width[side])) / np.sqrt(width[side]))
            setattr(layer, f"w_{side}", weight)
            arrays[f"w_{side}"] = weight
            words += [f"--w-{side}", f"w_{side}.npy"]
            if rng.random() < 0.5:
                setattr(layer, f"b_{side}", of.of(rng.standard_normal(hidden)))
                arrays[f"b_{side}"] = getattr(layer, f"b_{side}")
                words += [f"--b-{side}", f"b_{side}.npy"]
    if rng.random() < 0.8:
        layer.w_score = arrays["w_score"] = of.of(rng.standard_normal(hidden))
        words += ["--w-score", "w_score.npy"]
    if rng.random() < 0.3:
        layer.b_score = float(np.round(rng.standard_normal(), 3))
        words += ["--b-score", repr(layer.b_score)]
    forced = rng.random() < 0.5
    if forced:
        words += ["--variant", random_variant(rng, variants, "additive", options, of, words, (0, 0))]
    q = of.of(rng.standard_normal((batch, heads, queries, width["query"])))
    k = of.of(rng.standard_normal((batch, key_heads, keys, width["key"])))
    v = of.of(rng.standard_normal((batch, key_heads, keys, value_dim)))
    if rank3:
        q, k, v = q[:, 0], k[:, 0], v[:, 0]
    arrays |= {"q": q, "k": k, "v": v}
    score_error = 0
    if of is F32 and layer.w_query is None and layer.w_key is None:
        w = np.ones(hidden) if layer.w_score is None else layer.w_score
        score_error = 2e-6 * np.abs(w).sum() * abs(1 if options.scale is None else options.scale)
    bounds = score_bounds(score_error, v, options)
    if rng.random() < 0.3 and results[1] > 1:
        poison(rng, arrays, options, (batch, heads, queries, keys), outer, key_heads)
    return dict(of=of, options=options, words=words, arrays=arrays, results=results, forced=forced, bounds=bounds,
                shape=(batch, heads, queries, keys),
                compute=lambda dtype, order: additive_numpy(q, k, v, layer, options, dtype, order))


def random_multi_head(rng, variants, of_16_bits=False):
    of, (head_dim, value_dim) = random_type(rng, of_16_bits), random_widths(rng)
    batch, heads, key_heads, queries, keys = random_sizes(rng)
    self_attention = rng.random() < 0.3
    keys = queries if self_attention else keys
    options, words, arrays = random_options(rng, (batch, heads), batch, heads, queries, keys, of, head_dim)
    results = random_results(rng, words, heads)
    widths = [int(rng.choice(WIDTHS)) for _ in range(4)]
    if self_attention:
        widths[1] = widths[2] = widths[0]
    hidden = {"query": heads * head_dim, "key": key_heads * head_dim, "value": key_heads * value_dim}
    shapes = {name: (hidden[name], width) for name, width in zip(hidden, widths)} | {"out": (widths[3], heads * value_dim)}
    pairs = {}
    for name, (rows, columns) in shapes.items():
        weight = of.of(rng.standard_normal((rows, columns)) / np.sqrt(columns))
        bias = of.of(rng.standard_normal(rows)) if rng.random() < 0.5 else None
        arrays[f"w_{name}"] = weight
        words += [f"--w-{name}", f"w_{name}.npy"]
        if bias is not None:
            arrays[f"b_{name}"] = bias
            words += [f"--b-{name}", f"b_{name}.npy"]
        pairs[name] = (weight, bias)
    words += ["--heads", str(heads)] + (["--kv-heads", str(key_heads)] if heads != key_heads else [])
    q = of.of(rng.standard_normal((batch, queries, widths[0])))
    k = q if self_attention else of.of(rng.standard_normal((batch, keys, widths[1])))
    v = q if self_attention else of.of(rng.standard_normal((batch, keys, widths[2])))
    arrays |= {"q": q, "k": k, "v": v}
    if rng.random() < 0.3 and results[1] > 1 and not self_attention:
        poison(rng, arrays, options, (batch, heads, queries, keys), (batch, heads), key_heads)
    layer = MultiHead(heads, key_heads, **pairs)
    return dict(of=of, options=options, words=words, arrays=arrays, results=results, forced=False,
                shape=(batch, heads, queries, keys),
                compute=lambda dtype, order: multi_head(q, k, v, layer, options, dtype, order))


def run_case(problem, case, counts):
    options, words, of = case["options"], case["words"], case["of"]
    for old in problem.folder.glob("*.npy"):
        old.unlink()
    if options.dropout:
        at = words.index("--dropout")
        options.survivors = problem.dropout_mask(case["shape"], *words[at:at + 6])
    problem.save(**case["arrays"])
    problem.succeeds(*words)
    wanted, mode, averaged = case["results"]
    share, exact = judge_attention(lambda name: problem.load("o" if name == "out" else name), case["compute"], of, wanted,
                                   mode, averaged, case.get("bounds", {}))
    q, k = case["arrays"]["q"], case["arrays"]["k"]
    counts.update({of.name: 1, f"rank {q.ndim}": 1, "forced": case["forced"], "causal": bool(options.causal),
                   "window": options.window != (-1, -1), "grouped heads": q.ndim == 4 and q.shape[1] != k.shape[1],
                   "no keys left": bool((exact.weights[3].sum(axis=-1) == 0).any()), "averaged": averaged,
                   "softcap": options.softcap != 0, "dropout": options.dropout != 0, f"score {options.score}": 1})
    counts.update({name: getattr(options, name) is not None for name in ("valid_lens", "mask", "bias", "alibi", "sinks")})
    counts.update(wanted)
    if "weights" in wanted:
        counts[f"mode {mode}"] += 1
    return share


def run_cases(name, problem, variants, make, cases, expected_counts):
    seed = int(os.environ.get("ATTUNE_TEST_SEED", DEFAULT_SEED))
    note(f"random cases of {name}: ATTUNE_TEST_SEED={seed}")
    counts, worst, failures = Counter(), 0.0, []
    for n in range(cases):
        case = make(np.random.default_rng([seed, n]), variants)
        label = f"case {n} of seed {seed}: " + " ".join(
            [f"{name}{a.shape}{a.dtype.name}" for name, a in case["arrays"].items()] + case["words"])
        try:
            worst = max(worst, run_case(problem, case, counts))
        except AssertionError as error:
            failures.append(f"{label}\n    {str(error).splitlines()[0]}")
    report = f"largest share of the allowed error: {worst:.2f}; " + ", ".join(f"{k} {c}" for k, c in sorted(counts.items()))
    note(f"random cases of {name}: {report}")
    assert not failures, f"{len(failures)} of {cases} failed\n" + "\n".join(failures)
    # The mixture is only worth its name if it holds some of everything.
    for kind in expected_counts:
        assert counts[kind] >= 5, f"{kind}: {report}"


SHARED = ("lse", "weights", "no keys left", "causal", "window", "valid_lens", "mask", "bias", "alibi",
          "sinks", "softcap", "dropout")


def test_random_cases_of_sdpa(problem, variants):
    run_cases("sdpa", problem, variants, random_sdpa, SDPA_CASES,
              (*SHARED, "f32", "f64", "rank 3", "forced", "grouped heads", "averaged", *(f"mode {n}" for n in range(4)),
               *(f"score {s}" for s in ("dot", "general", "cosine", "gaussian"))))


def test_random_cases_of_additive(additive, variants):
    additive.given = {name: additive.given[name] for name in ("query", "key", "value", "out")}
    run_cases("additive", additive, variants, random_additive, ADDITIVE_CASES,
              (*SHARED, "f32", "f64", "rank 3", "rank 4", "forced"))


def test_random_cases_of_multi_head(mha, variants):
    mha.given = {name: mha.given[name] for name in ("query", "key", "value", "out")}
    run_cases("mha", mha, variants, random_multi_head, MULTI_HEAD_CASES, (*SHARED, "f32", "f64"))


def in_16_bits(make):
    return lambda rng, variants: make(rng, variants, of_16_bits=True)


def test_random_cases_of_sdpa_in_16_bits(problem, variants):
    run_cases("sdpa in 16 bits", problem, variants, in_16_bits(random_sdpa), SDPA_CASES // 2,
              (*SHARED, "bf16", "f16", "rank 3", "forced", "grouped heads", "averaged"))


def test_random_cases_of_multi_head_in_16_bits(mha, variants):
    mha.given = {name: mha.given[name] for name in ("query", "key", "value", "out")}
    run_cases("mha in 16 bits", mha, variants, in_16_bits(random_multi_head), MULTI_HEAD_CASES // 2,
              ("bf16", "f16", "lse", "weights", "causal", "valid_lens"))
