# SPDX-License-Identifier: MIT
"""A small random Llama model: its file, and its forward pass in NumPy, which is the definition of the program's result."""
import json
import struct

import numpy as np

SIZES = dict(layers=2, width=48, heads=4, key_heads=2, head_dim=16, hidden=80, positions=512, rope_base=10000.0, norm_eps=1e-5)
VOCABULARY = 97


def bf16(x):
    """x, f32, rounded to bf16."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).view(np.float32)


def random_weights(seed):
    random = np.random.default_rng(seed)
    s, weights = SIZES, {}

    def add(name, rows, columns):
        weights[name] = random.standard_normal((rows, columns), np.float32) * np.float32(1.5 / np.sqrt(columns))

    add("model.embed_tokens.weight", VOCABULARY, s["width"])
    for layer in range(s["layers"]):
        at = f"model.layers.{layer}."
        for name, heads in (("q", s["heads"]), ("k", s["key_heads"]), ("v", s["key_heads"])):
            add(f"{at}self_attn.{name}_proj.weight", heads * s["head_dim"], s["width"])
        add(f"{at}self_attn.o_proj.weight", s["width"], s["heads"] * s["head_dim"])
        for name in ("gate", "up"):
            add(f"{at}mlp.{name}_proj.weight", s["hidden"], s["width"])
        add(f"{at}mlp.down_proj.weight", s["width"], s["hidden"])
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{at}{name}.weight"] = random.uniform(0.5, 1.5, s["width"]).astype(np.float32)
    weights["model.norm.weight"] = random.uniform(0.5, 1.5, s["width"]).astype(np.float32)
    return weights


def write(path, weights, kind):
    header, data, sizes = {"__metadata__": {k: repr(v) for k, v in SIZES.items()}}, b"", 0
    for name, x in weights.items():
        short = kind == "bf16" and x.ndim == 2
        part = (x.view(np.uint32) >> 16).astype(np.uint16).tobytes() if short else x.tobytes()
        header[name] = {"dtype": "BF16" if short else "F32", "shape": list(x.shape), "data_offsets": [sizes, sizes + len(part)]}
        data, sizes = data + part, sizes + len(part)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def forward(weights, tokens, dtype, rounded=lambda x: x, window=0, store=lambda keys, values: (keys, values)):
    """Logits (tokens, vocabulary), computed in dtype. `rounded` is applied where the program stores rows of its type; `store`
    gives the keys and values that a cache returns."""
    s = SIZES
    weight = lambda name: weights[name].astype(dtype)
    count = len(tokens)

    def norm(x, name):
        return rounded(x / np.sqrt((x * x).mean(-1, keepdims=True) + dtype(s["norm_eps"])) * weight(name))

    def linear(x, name):
        return rounded(x @ weight(name).T)

    half = s["head_dim"] // 2
    angle = np.arange(count)[:, None] * s["rope_base"] ** (-np.arange(half) / half)
    cos, sin = np.cos(angle).astype(dtype)[:, None], np.sin(angle).astype(dtype)[:, None]

    def rope(x):
        a, b = x[..., :half], x[..., half:]
        return rounded(np.concatenate([a * cos - b * sin, b * cos + a * sin], -1))

    i, j = np.arange(count)[:, None], np.arange(count)[None]
    seen = (j <= i) & ((j > i - window) if window else True)
    x = weight("model.embed_tokens.weight")[np.asarray(tokens)]
    for layer in range(s["layers"]):
        at = f"model.layers.{layer}."
        y = norm(x, f"{at}input_layernorm.weight")
        q, k, v = (linear(y, f"{at}self_attn.{name}_proj.weight").reshape(count, -1, s["head_dim"]) for name in "qkv")
        k, v = (np.repeat(t, s["heads"] // s["key_heads"], 1) for t in store(rope(k), v))
        score = np.einsum("ihd,jhd->hij", rope(q), k) / dtype(np.sqrt(s["head_dim"]))
        score = np.where(seen, score, dtype(-np.inf))
        p = np.exp(score - score.max(-1, keepdims=True))
        attended = rounded(np.einsum("hij,jhd->ihd", p / p.sum(-1, keepdims=True), v).astype(dtype))
        x = x + linear(attended.reshape(count, -1), f"{at}self_attn.o_proj.weight")
        y = norm(x, f"{at}post_attention_layernorm.weight")
        gate, up = (linear(y, f"{at}mlp.{name}_proj.weight") for name in ("gate", "up"))
        x = x + linear(rounded(gate / (1 + np.exp(-gate)) * up), f"{at}mlp.down_proj.weight")
    return linear(norm(x, "model.norm.weight"), "model.embed_tokens.weight")


def int8_rows(x):
    scale = (np.abs(x).max(-1, keepdims=True) / 127).astype(np.float16).astype(x.dtype)
    return np.where(scale > 0, np.rint(x / np.where(scale > 0, scale, 1)), 0) * scale


def int4_rows(x):
    """Rotated, quantised in one group, and turned back."""
    n = x.shape[-1]
    h = np.array([[(-1) ** bin(a & b).count("1") for a in range(n)] for b in range(n)], x.dtype) / x.dtype.type(np.sqrt(n))
    y = x @ h
    least = y.min(-1, keepdims=True)
    scale = ((y.max(-1, keepdims=True) - least) / 15).astype(np.float16).astype(x.dtype)
    least = least.astype(np.float16).astype(x.dtype)
    return (least + np.clip(np.rint((y - least) / np.where(scale > 0, scale, 1)), 0, 15) * scale) @ h
