"""Options mixed at random, through files, against the NumPy computation. ATTUNE_TEST_SEED picks other cases."""
import json
import os
from collections import Counter

import numpy as np
from conftest import note
from sdpa_numpy import Masks, judge, kept_keys, plain_results, sdpa, wider

CASES = 200
DEFAULT_SEED = 20250117

# Sizes at and beside the powers of two that tiles and chunks have, and some that divide nothing.
QUERIES = [0, 1, 1, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 97, 127, 130]
KEYS = [0, 1, 2, 3, 5, 8, 16, 17, 31, 63, 64, 65, 100, 127, 128, 129, 200, 255, 257, 300, 513]
MANY_KEYS = [700, 1023, 1025, 1500]  # several chunks also of the variants with the longest
HEAD_DIMS = [1, 2, 3, 5, 7, 8, 15, 16, 17, 24, 32, 32, 33, 48, 64, 64, 80, 96, 100, 128, 128, 129]


def random_masks(rng, batch, queries, keys):
    """Masks, the options that ask for them, and the arrays that those name."""
    masks, options, arrays = Masks(), [], {}
    masks.causal = rng.choice([None, None, "top-left", "bottom-right", "offset"])
    if masks.causal:
        options += ["--causal", masks.causal]
    if masks.causal == "offset" or rng.random() < 0.15:
        low, high = -queries - 2, keys + 3
        if rng.random() < 0.5:
            masks.offset = int(rng.integers(low, high))
            options += ["--offset", str(masks.offset)]
        else:
            masks.offset = rng.integers(low, high, batch).astype(rng.choice(["int32", "int64"]))
            arrays["off"] = masks.offset
            options += ["--offset", "off.npy"]
    if rng.random() < 0.35:
        masks.window = tuple(int(rng.choice([-1, 0, 1, 2, rng.integers(0, keys + 2)])) for _ in range(2))
        options += ["--window", "{},{}".format(*masks.window)]
    if rng.random() < 0.45:
        shape = (batch,) if rng.random() < 0.5 else (batch, queries)
        lens = rng.integers(0, keys + 1, shape)
        lens[rng.random(shape) < 0.2] = 0
        lens[rng.random(shape) < 0.2] = keys
        masks.valid_lens = lens.astype(rng.choice(["int32", "int64"]))
        arrays["lens"] = masks.valid_lens
        options += ["--valid-lens", "lens.npy"]
    return masks, options, arrays


def random_case(rng, variants):
    """What to compute, the command line for it, and the arrays in its files."""
    dtype = np.float32 if rng.random() < 0.65 else np.float64
    rank3 = rng.random() < 0.2
    batch = int(rng.choice([0, 1, 1, 2, 2, 3], p=[0.02, 0.3, 0.2, 0.2, 0.18, 0.1]))
    key_heads = 1 if rank3 else int(rng.choice([1, 1, 2, 3]))
    heads = 1 if rank3 else key_heads * int(rng.choice([1, 1, 2, 3, 4, 5]))
    queries, keys, head_dim = int(rng.choice(QUERIES)), int(rng.choice(KEYS)), int(rng.choice(HEAD_DIMS))
    if rng.random() < 0.1:
        queries, keys = int(rng.choice([1, 1, 2, 9])), int(rng.choice(MANY_KEYS))
    value_dim = head_dim if rng.random() < 0.6 else int(rng.choice(HEAD_DIMS))

    masks, options, arrays = random_masks(rng, batch, queries, keys)
    scale = None
    if rng.random() < 0.4:
        scale = float(np.round(rng.uniform(-2, 2) / np.sqrt(head_dim), 4)) if rng.random() < 0.8 else float(rng.choice([0.0, 1.0, -1.0]))
        options += ["--scale", repr(scale)]
    if rng.random() < 0.6:
        options += ["--threads", str(rng.integers(1, 6))]
    variant = None
    if rng.random() < 0.6:
        name = np.dtype(dtype).name.replace("float", "f")
        fitting = [v["name"] for v in variants if v["op"] == "sdpa" and v["runs_here"] and v["dispatched"] and v["dtype"] == name
                   and (v["head_dim"] == 0 or v["head_dim"] == head_dim == value_dim)]
        variant = str(rng.choice(fitting))
        options += ["--variant", variant]
    for name, chance in (("lse", 0.6), ("weights", 0.4)):
        if rng.random() < chance:
            options += [f"--{name}", f"{name}.npy"]

    q = rng.standard_normal((batch, heads, queries, head_dim))
    k = rng.standard_normal((batch, key_heads, keys, head_dim))
    v = rng.standard_normal((batch, key_heads, keys, value_dim))
    if rank3:
        q, k, v = q[:, 0], k[:, 0], v[:, 0]
    arrays |= {"q": q.astype(dtype), "k": k.astype(dtype), "v": v.astype(dtype)}
    if rng.random() < 0.2:
        arrays["q"] = np.asfortranarray(arrays["q"])
    if rng.random() < 0.1 and dtype == np.float64:  # every f32 is an f64, so only the type of the computation changes
        arrays["k"] = arrays["k"].astype(np.float32)
        options += ["--dtype", "f64"]
    if rng.random() < 0.3:
        poison(rng, arrays, masks, batch, queries, keys)
    return dict(dtype=dtype, masks=masks, scale=scale, options=options, arrays=arrays, variant=variant)


def poison(rng, arrays, masks, batch, queries, keys):
    """Keys and values that no query sees may hold anything."""
    unseen = ~kept_keys(masks, batch, queries, keys).any(axis=1)
    for name in "kv":
        rows = arrays[name] if arrays[name].ndim == 3 else np.moveaxis(arrays[name], 1, 2)
        rows[unseen] = rng.choice([np.nan, np.inf, -np.inf])


def test_random_cases(problem, attune):
    seed = int(os.environ.get("ATTUNE_TEST_SEED", DEFAULT_SEED))
    note(f"random cases: ATTUNE_TEST_SEED={seed}")
    variants = json.loads(attune("variants", "--json").stdout)
    counts, worst, failures = Counter(), 0.0, []
    for n in range(CASES):
        rng = np.random.default_rng([seed, n])
        case = random_case(rng, variants)
        label = f"case {n} of seed {seed}: " + " ".join(
            [f"{name}{a.shape}{a.dtype.name}" for name, a in case["arrays"].items()] + case["options"])
        try:
            worst = max(worst, run_case(problem, case, counts))
        except AssertionError as error:
            failures.append(f"{label}\n    {str(error).splitlines()[0]}")
    report = f"largest share of the allowed error: {worst:.2f}; " + ", ".join(f"{k} {c}" for k, c in sorted(counts.items()))
    note(f"random cases: {report}")
    assert not failures, f"{len(failures)} of {CASES} failed\n" + "\n".join(failures)
    # The mixture is only worth its name if it holds some of everything.
    for kind in ("float32", "float64", "rank 3", "forced", "lse", "weights", "grouped heads", "no keys left", "causal", "window", "valid_lens"):
        assert counts[kind] >= 5, f"{kind}: {report}"


def run_case(problem, case, counts):
    arrays, dtype, masks, options = case["arrays"], case["dtype"], case["masks"], case["options"]
    for old in problem.folder.glob("*.npy"):
        old.unlink()
    problem.save(**arrays)
    problem.succeeds(*options)
    q, k, v = arrays["q"], arrays["k"], arrays["v"]
    plain = plain_results(q, k, v, masks, case["scale"], dtype)
    exact = sdpa(q, k, v, masks, case["scale"], wider(dtype))
    counts.update({np.dtype(dtype).name: 1, f"rank {q.ndim}": 1, "forced": bool(case["variant"]), "causal": bool(masks.causal),
                   "window": masks.window != (-1, -1), "valid_lens": masks.valid_lens is not None,
                   "grouped heads": q.ndim == 4 and q.shape[1] != k.shape[1], "no keys left": bool(np.isneginf(exact.lse).any())})
    worst = judge("out", problem.load("o"), [p.out for p in plain], exact.out, dtype)
    for name in ("lse", "weights"):
        if f"--{name}" in options:
            counts[name] += 1
            worst = max(worst, judge(name, problem.load(name), [getattr(p, name) for p in plain], getattr(exact, name), dtype))
    return worst
