# SPDX-License-Identifier: MIT
"""Options of attention mixed at random: what to compute, the words of the command line, and the arrays in its files."""
import math

import numpy as np
from attention_numpy import Options, kept_keys
from element_types import BF16, F64

# Sizes at and beside the powers of two that tiles and KV blocks have, and some that divide nothing.
QUERIES = [0, 1, 1, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 97, 127, 130]
KEYS = [0, 1, 2, 3, 5, 8, 16, 17, 31, 63, 64, 65, 100, 127, 128, 129, 200, 255, 257, 300, 513]
MANY_KEYS = [700, 1023, 1025, 1500]  # several KV blocks also of the variants with the longest
WIDTHS = [1, 2, 3, 5, 7, 8, 15, 16, 17, 24, 32, 32, 33, 48, 64, 64, 80, 96, 100, 128, 128, 129]


def random_sizes(rng):
    """batch, heads, key heads, queries, keys"""
    batch = int(rng.choice([0, 1, 1, 2, 2, 3], p=[0.02, 0.3, 0.2, 0.2, 0.18, 0.1]))
    key_heads = int(rng.choice([1, 1, 2, 3]))
    heads = key_heads * int(rng.choice([1, 1, 2, 3, 4, 5]))
    queries, keys = int(rng.choice(QUERIES)), int(rng.choice(KEYS))
    if rng.random() < 0.1:
        queries, keys = int(rng.choice([1, 1, 2, 9])), int(rng.choice(MANY_KEYS))
    return batch, heads, key_heads, queries, keys


def broadcasting_shape(rng, outer, queries, keys):
    """Some extents 1, some leading ones left out."""
    shape = [e if rng.random() < 0.7 else 1 for e in (*outer, queries, keys)]
    return tuple(shape[rng.integers(0, len(shape)):] if rng.random() < 0.4 else shape)


def random_masks(rng, options, words, arrays, outer, queries, keys, batch):
    """Which keys take part, by position and by length; `outer` is what a mask broadcasts to before (Sq, Sk)."""
    options.causal = rng.choice([None, None, "top-left", "bottom-right", "offset"])
    if options.causal:
        words += ["--causal", options.causal]
    if options.causal == "offset" or rng.random() < 0.15:
        low, high = -queries - 2, keys + 3
        if rng.random() < 0.5:
            options.offset = int(rng.integers(low, high))
            words += ["--offset", str(options.offset)]
        else:
            options.offset = arrays["off"] = rng.integers(low, high, batch).astype(rng.choice(["int32", "int64"]))
            words += ["--offset", "off.npy"]
    if rng.random() < 0.35:
        options.window = tuple(int(rng.choice([-1, 0, 1, 2, rng.integers(0, keys + 2)])) for _ in range(2))
        words += ["--window", "{},{}".format(*options.window)]
    if rng.random() < 0.45:
        shape = (batch,) if rng.random() < 0.5 else (batch, queries)
        lens = rng.integers(0, keys + 1, shape)
        lens[rng.random(shape) < 0.2] = 0
        lens[rng.random(shape) < 0.2] = keys
        options.valid_lens = arrays["lens"] = lens.astype(rng.choice(["int32", "int64"]))
        words += ["--valid-lens", "lens.npy"]
    if rng.random() < 0.3:
        options.mask = rng.random(broadcasting_shape(rng, outer, queries, keys)) < rng.choice([0.1, 0.5, 0.9])
        arrays["mask"] = options.mask.astype(rng.choice(["bool", "bool", "uint8", "int64"]))
        words += ["--mask", "mask.npy"]


def random_scores(rng, options, words, arrays, outer, queries, keys, batch, heads, of, width):
    """Random steps of the score, and dropout."""
    if options.score == "gaussian":  # squared distances are about 2 * width; scores stay where exp() does not underflow
        options.scale = float(np.round(rng.uniform(0, 2) / width, 5))
        words += ["--scale", repr(options.scale)]
    elif rng.random() < 0.4:
        large = 2 / math.sqrt(width)
        options.scale = float(rng.choice([np.round(rng.uniform(-large, large), 4)] * 4 + [rng.choice([0.0, 1.0, -1.0])]))
        words += ["--scale", repr(options.scale)]
    if rng.random() < 0.2:
        options.softcap = float(np.round(rng.uniform(0.3, 20), 2))
        words += ["--softcap", str(options.softcap)]
    if rng.random() < 0.3:
        shape = broadcasting_shape(rng, outer, queries, keys)
        bias = rng.standard_normal(shape)
        least = np.finfo(np.float64 if of is F64 else np.float32).min
        bias[rng.random(shape) < rng.choice([0, 0, 0.3])] = rng.choice([-np.inf, least])
        options.bias = arrays["bias"] = of.of(bias)
        words += ["--bias", "bias.npy"]
    if rng.random() < 0.25:
        options.sinks = arrays["sinks"] = rng.standard_normal(heads).astype(np.float32)
        words += ["--sinks", "sinks.npy"]
    if rng.random() < 0.25:
        # Beside a sink, far keys must not weigh less than the type can hold.
        if rng.random() < 0.5 and options.sinks is None:
            options.alibi = "auto"
            words += ["--alibi", "auto"]
        else:
            slopes = rng.random((heads,) if rng.random() < 0.5 else (batch, heads))
            options.alibi = arrays["slopes"] = (slopes * 8 / (queries + keys + 1)).astype(np.float32)
            words += ["--alibi", "slopes.npy"]
    if rng.random() < 0.2:
        options.dropout = float(rng.choice([0.1, 0.5, 0.9, 1]))
        seed, offset = rng.integers(0, 2**63), rng.integers(0, 9)
        words += ["--dropout", str(options.dropout), "--seed", str(seed), "--dropout-offset", str(offset)]


def random_results(rng, words, heads):
    """Which results are asked for; the mode of the weights and whether they are averaged."""
    wanted, mode, averaged = ["out"], 3, False
    if rng.random() < 0.6:
        wanted.append("lse")
        words += ["--lse", "lse.npy"]
    if rng.random() < 0.4:
        wanted.append("weights")
        words += ["--weights", "weights.npy"]
        if rng.random() < 0.5:
            mode = int(rng.integers(0, 4))
            words += ["--weights-mode", str(mode)]
        if heads > 0 and rng.random() < 0.25:
            averaged = True
            words += ["--average-weights"]
    return wanted, mode, averaged


def random_options(rng, outer, batch, heads, queries, keys, of, width, score="dot"):
    options, words, arrays = Options(score=score), ["--dtype", "bf16"] if of is BF16 else [], {}
    random_masks(rng, options, words, arrays, outer, queries, keys, batch)
    random_scores(rng, options, words, arrays, outer, queries, keys, batch, heads, of, width)
    if rng.random() < 0.6:
        words += ["--threads", str(rng.integers(1, 6))]
    return options, words, arrays


def random_variant(rng, variants, op, options, of, words, sizes):
    """For channels of key and value. One that dispatch could pick, and that has what the options need."""
    scored = options.softcap or any(x is not None for x in (options.bias, options.alibi, options.mask, options.sinks))
    kinds = ["training"] + ([] if options.dropout not in (0, 1) else ["scored"] if scored else ["scored", "plain"])
    if "--weights" in words:
        kinds.append("weights")
    fitting = [v["name"] for v in variants
               if v["op"] == op and v["runs_here"] and v["dispatched"] and v["dtype"] == of.name and v["kind"] in (*kinds, "")
               and (v["head_dim"] == 0 or (v["head_dim"], v["head_dim"]) == sizes)]
    assert fitting, f"no variant of {op} for {of.name} and {kinds}"
    return str(rng.choice(fitting))


def poison(rng, arrays, options, shape, outer, key_heads):
    """Keys and values that no query sees may hold anything. With heads of their own, arrays are (B, H, S, D)."""
    batch, heads, _, keys = shape
    kept = kept_keys(options, shape, outer).any(axis=2)
    unseen = ~kept.reshape(batch, key_heads, heads // key_heads, keys).any(axis=2)
    for name in "kv":
        rows = arrays[name] if arrays[name].ndim == 4 else arrays[name][:, None] if key_heads == 1 else None
        if rows is None:  # before the projections, keys are shared by all heads
            arrays[name][unseen.all(axis=1)] = np.nan
        else:
            rows[unseen] = rng.choice([np.nan, np.inf, -np.inf])
