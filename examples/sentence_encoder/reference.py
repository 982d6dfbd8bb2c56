# SPDX-License-Identifier: MIT
"""The encoder in NumPy, sentence after sentence, from its definition: what sentence_encoder is compared with."""
import json
import math

import numpy as np

EPSILON = 1e-12  # of the layer norms
NEAR = 2e-6  # distance of two embeddings of length 1 that counts as the same


def load(path):
    """The f32 tensors of a file in the format safetensors, in double precision."""
    data = np.memmap(path, np.uint8, "r")
    length = int.from_bytes(data[:8].tobytes(), "little")
    header = json.loads(data[8:8 + length].tobytes())
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = (8 + length + n for n in entry["data_offsets"])
            tensors[name] = data[begin:end].view("<f4").reshape(entry["shape"]).astype(np.float64)
    return tensors


def save(path, tensors):
    """A file in the format safetensors."""
    header, at = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array, "<f4").tobytes())


def layer_norm(w, name, x):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPSILON)
    return x * w[f"{name}.weight"] + w[f"{name}.bias"]


def linear(w, name, x):
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def attention(q, k, v):
    """(heads, S, D) each."""
    score = q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1])
    weight = np.exp(score - score.max(-1, keepdims=True))
    return weight / weight.sum(-1, keepdims=True) @ v


def embedding(w, tokens, heads, rows_of=None):
    """The embedding of a sentence. rows_of: a list that gets the (query, key, value) of each layer, (heads, S, D)."""
    x = w["embeddings.word_embeddings.weight"][tokens] + w["embeddings.position_embeddings.weight"][:len(tokens)]
    x = layer_norm(w, "embeddings.LayerNorm", x + w["embeddings.token_type_embeddings.weight"][0])
    for n in range(sum(name.endswith("attention.self.query.weight") for name in w)):
        layer = f"encoder.layer.{n}"
        q, k, v = (linear(w, f"{layer}.attention.self.{name}", x).reshape(len(tokens), heads, -1).swapaxes(0, 1)
                   for name in ("query", "key", "value"))
        if rows_of is not None:
            rows_of.append((q, k, v))
        attended = attention(q, k, v).swapaxes(0, 1).reshape(x.shape)
        x = layer_norm(w, f"{layer}.attention.output.LayerNorm", x + linear(w, f"{layer}.attention.output.dense", attended))
        hidden = gelu(linear(w, f"{layer}.intermediate.dense", x))
        x = layer_norm(w, f"{layer}.output.LayerNorm", x + linear(w, f"{layer}.output.dense", hidden))
    mean = x.mean(0)
    return mean / np.sqrt((mean * mean).sum())


def distance(got, expected):
    """The largest distance of an embedding, relative to its length."""
    return float((np.linalg.norm(got - expected, axis=-1) / np.linalg.norm(expected, axis=-1)).max(initial=0))
