# SPDX-License-Identifier: MIT
"""Seconds in which examples/sentence_encoder, ONNX Runtime and PyTorch embed 64 sentences of 5 to 60 tokens with the weights of
all-MiniLM-L6-v2, in turns. A peer takes the sentences as one padded batch, in padded batches of 16 of about the same length,
and one after the other; its best way counts.

usage: sentence_encoder.py PROGRAM WEIGHTS.safetensors [--rounds N] [--threads N]
"""
import argparse
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples" / "sentence_encoder"))
import onnx_graph  # noqa: E402
import reference  # noqa: E402

HEADS, SENTENCES, SHORTEST, LONGEST, VOCABULARY = 12, 64, 5, 60, 30522


class PyTorch:
    def __init__(self, weights):
        layers = sum(name.endswith("attention.self.query.weight") for name in weights)
        width = weights["embeddings.LayerNorm.weight"].shape[0]
        hidden = weights["encoder.layer.0.intermediate.dense.bias"].shape[0]
        config = transformers.BertConfig(vocab_size=VOCABULARY, hidden_size=width, num_hidden_layers=layers,
                                         num_attention_heads=HEADS, intermediate_size=hidden, layer_norm_eps=1e-12,
                                         attn_implementation="sdpa")
        self.model = transformers.BertModel(config, add_pooling_layer=False).eval()
        state = {name: torch.tensor(array, dtype=torch.float32) for name, array in weights.items()}
        self.model.load_state_dict({name: state[name] for name in self.model.state_dict() if name in state}, strict=False)

    @torch.no_grad()
    def embeddings(self, tokens):
        lengths = torch.tensor([len(t) for t in tokens])
        padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(t) for t in tokens], batch_first=True)
        kept = torch.arange(padded.shape[1]) < lengths[:, None]
        rows = self.model(padded, attention_mask=kept.long()).last_hidden_state
        return torch.nn.functional.normalize((rows * kept[..., None]).sum(1), dim=-1).numpy()


def in_batches(peer, tokens, count):
    """Embeddings by batches of `count` sentences of about the same length."""
    order = sorted(range(len(tokens)), key=lambda s: len(tokens[s]))
    out = [None] * len(tokens)
    for begin in range(0, len(tokens), count):
        batch = order[begin:begin + count]
        for s, row in zip(batch, peer.embeddings([tokens[s] for s in batch])):
            out[s] = row
    return np.stack(out)


def seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("weights", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    choose = random.Random(1)
    tokens = [[choose.randrange(1000, 30000) for _ in range(choose.randint(SHORTEST, LONGEST))] for _ in range(SENTENCES)]
    weights = reference.load(given.weights)
    peers = {"ONNX Runtime": onnx_graph.Session(weights, HEADS, given.threads), "PyTorch": PyTorch(weights)}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "tokens.txt").write_text("".join(" ".join(map(str, t)) + "\n" for t in tokens))
        command = [given.program, given.weights, path / "tokens.txt", "--heads", str(HEADS), "--threads", str(given.threads)]
        subprocess.run([*command, "--out", path / "out.npy"], check=True, stdout=subprocess.DEVNULL)
        ours = np.load(path / "out.npy")
        ways = {f"{name}, batches of {count}": (peer, count) for name, peer in peers.items() for count in (SENTENCES, 16, 1)}
        for name, (peer, count) in ways.items():
            print(f"{name}: distance {reference.distance(in_batches(peer, tokens, count), ours):.1e}")
        times = {"Attune": []} | {name: [] for name in ways}
        for _ in range(given.rounds):
            lines = subprocess.run([*command, "--time", "3"], check=True, capture_output=True, text=True).stdout.split()
            times["Attune"].append(statistics.median(map(float, lines)))
            for name, (peer, count) in ways.items():
                times[name].append(seconds(lambda: in_batches(peer, tokens, count)))
    print(f"{SENTENCES} sentences, {sum(map(len, tokens))} tokens, {given.threads} threads, {given.rounds} rounds; PyTorch "
          f"{torch.__version__}, ONNX Runtime {onnx_graph.onnxruntime.__version__}; milliseconds")
    best = min(statistics.median(t) for name, t in times.items() if name != "Attune")
    for name, t in times.items():
        print(f"{name:32} {1e3 * statistics.median(t):8.1f} ({1e3 * min(t):.1f} to {1e3 * max(t):.1f})")
    print(f"of the best peer's time: {statistics.median(times['Attune']) / best:.2f}")


if __name__ == "__main__":
    main()
