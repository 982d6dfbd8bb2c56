# SPDX-License-Identifier: MIT
"""Options mixed at random, through files: gradients against the NumPy computation. ATTUNE_TEST_SEED picks other cases."""
import os
from collections import Counter

import numpy as np
from backward_numpy import sdpa_backward
from conftest import note
from element_types import BF16, F16, F32, F64
from judging import judge_gradients
from random_options import poison, random_options, random_variant

CASES, DEFAULT_SEED = 80, 20250117
SIZES = [0, 1, 1, 2, 3, 5, 8, 13, 17, 31, 33, 63, 64, 65, 70]
WIDTHS = [1, 2, 3, 5, 8, 15, 16, 17, 32, 33, 64]


def random_case(rng, variants):
    of = (F32, F64, F16, BF16)[rng.choice(4, p=[0.5, 0.2, 0.15, 0.15])]
    key_heads = int(rng.choice([1, 1, 2]))
    batch, heads = int(rng.choice([0, 1, 2, 2, 3], p=[0.02, 0.4, 0.3, 0.18, 0.1])), key_heads * int(rng.choice([1, 1, 2, 3]))
    queries, keys = int(rng.choice(SIZES)), int(rng.choice(SIZES))
    rank3 = rng.random() < 0.2
    if rank3:
        heads = key_heads = 1
    outer = (batch,) if rank3 else (batch, heads)
    head_dim, value_dim = int(rng.choice(WIDTHS)), int(rng.choice(WIDTHS))
    options, words, arrays = random_options(rng, outer, batch, heads, queries, keys, of, head_dim)
    forced = rng.random() < 0.5
    if forced:
        words += ["--variant", random_variant(rng, variants, "sdpa_backward", options, of, words, (head_dim, value_dim))]
    tensors = [rng.standard_normal(shape) for shape in ((batch, heads, queries, head_dim), (batch, key_heads, keys, head_dim),
                                                        (batch, key_heads, keys, value_dim),
                                                        (batch, heads, queries, value_dim))]
    if rank3:
        tensors = [t[:, 0] for t in tensors]
    arrays |= {name: of.of(t) for name, t in zip(("q", "k", "v", "do"), tensors)}
    if rng.random() < 0.3:
        poison(rng, arrays, options, (batch, heads, queries, keys), outer, key_heads)
    grad_lse = None
    if rng.random() < 0.4:
        grad_lse = arrays["dl"] = rng.standard_normal((*outer, queries)).astype(of.steps)
        words += ["--grad-lse", "dl.npy"]
    there = ["query", "key", "value"] + [name for name, option in (("bias", options.bias), ("slopes", options.alibi),
                                                                   ("sinks", options.sinks)) if option is not None]
    wanted = [name for name in there if rng.random() < 0.8] or there
    return dict(of=of, options=options, words=words, arrays=arrays, wanted=wanted, shape=(batch, heads, queries, keys),
                grad_lse=grad_lse, counted={of.name: 1, "forced": forced, "rank 3": rank3, "grad_lse": grad_lse is not None,
                                            "grouped heads": heads != key_heads, "causal": bool(options.causal),
                                            "softcap": options.softcap != 0, "dropout": options.dropout != 0})


def run_case(backward, case, counts):
    options, words, arrays = case["options"], case["words"], case["arrays"]
    for old in backward.folder.glob("*.npy"):
        old.unlink()
    if options.dropout:
        at = words.index("--dropout")
        options.survivors = backward.dropout_mask(case["shape"], *words[at:at + 6])
    backward.save(**arrays)
    got = backward.gradients(*words, wanted=case["wanted"])
    tensors = [arrays[name] for name in ("q", "k", "v", "do")]
    share = judge_gradients(
        got.get, lambda dtype, order, **how: sdpa_backward(*tensors, case["grad_lse"], options, dtype, order, **how),
        case["of"], case["wanted"])
    counts.update(case["counted"])
    counts.update(case["wanted"])
    return share


def test_random_cases_of_gradients(backward, variants):
    seed = int(os.environ.get("ATTUNE_TEST_SEED", DEFAULT_SEED))
    note(f"random cases of gradients: ATTUNE_TEST_SEED={seed}")
    counts, worst, failures = Counter(), 0.0, []
    for n in range(CASES):
        case = random_case(np.random.default_rng([seed, n]), variants)
        label = f"case {n} of seed {seed}: " + " ".join(
            [f"{name}{a.shape}{a.dtype.name}" for name, a in case["arrays"].items()] + case["words"])
        try:
            worst = max(worst, run_case(backward, case, counts))
        except AssertionError as error:
            failures.append(f"{label}\n    {str(error).splitlines()[0]}")
    report = f"largest share of the allowed error: {worst:.2f}; " + ", ".join(f"{k} {c}" for k, c in sorted(counts.items()))
    note(f"random cases of gradients: {report}")
    assert not failures, f"{len(failures)} of {CASES} failed\n" + "\n".join(failures)
    for kind in ("f32", "f64", "f16", "bf16", "forced", "rank 3", "grad_lse", "grouped heads", "causal", "softcap", "dropout",
                 "query", "key", "value", "bias", "slopes", "sinks"):
        assert counts[kind] >= 5, f"{kind}: {report}"
