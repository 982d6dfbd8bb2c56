# SPDX-License-Identifier: MIT
"""Scaled dot-product attention with each option beside the same call without it, other scores, and the weights as an output."""

import math

import numpy as np

import reference
from arrays import aligned, normal, zeros, zeros_like
from measure import Cell

LONG = (1, 8, 1024, 64)  # (B, H, S, D)
WEIGHTS = (LONG, (8, 12, 128, 64), (1, 8, 512, 128))
PLAIN = "attune without"
SOFTCAP, DROPOUT, SEED = 30.0, 0.1, 2026


def label(shape):
    return f"{shape[0]}x{shape[1]}x{shape[2]}x{shape[2]}x{shape[3]}"


def cells():
    """(name, function that makes the cell)"""
    for option in ("plain", "mask (Sq,Sk)", "bias (Sq,Sk)", "bias (H,Sq,Sk)", "ALiBi", "softcap 30", "dropout 0.1"):
        yield f"sdpa {label(LONG)}, {option}", lambda a, p, n, option=option: make_option(a, p, n, option)
    for shape in WEIGHTS:
        yield f"sdpa {label(shape)}, weights", lambda a, p, n, shape=shape: make_weights(a, p, n, shape)
    for score in ("cosine", "gaussian", "general"):
        yield f"{score} {label(LONG)}", lambda a, p, n, score=score: make_score(a, p, n, score)


def inputs(shape):
    batch, heads, length, dim = shape
    random = np.random.default_rng(1)
    q, k, v = (normal(random, batch, heads, length, dim) for _ in range(3))
    return random, q, k, v


def flops(shape):
    return 4.0 * shape[0] * shape[1] * shape[2] ** 2 * shape[3]


def make_option(attune, peers, name, option):
    random, q, k, v = inputs(LONG)
    heads, length = LONG[1:3]
    # The option in the words of the library, the reference, PyTorch and onnxruntime.
    ours, truth, mask, softcap = {}, {}, None, 0
    if option == "mask (Sq,Sk)":
        mask = aligned(random.random((length, length)) < 0.875)
        mask[:, 0] = True  # every query keeps a key
        ours = truth = {"mask": mask}
    elif option.startswith("bias"):
        mask = normal(random, *([heads] if "H" in option else []), length, length)
        ours = truth = {"bias": mask}
    elif option == "ALiBi":
        slopes = np.array([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)], np.float32)
        i, j = np.ogrid[:length, :length]
        mask = aligned(-slopes[:, None, None] * np.abs(i - j).astype(np.float32))
        ours, truth = {"alibi": True}, {"slopes": slopes}
    elif option == "softcap 30":
        softcap = SOFTCAP
        ours = truth = {"softcap": SOFTCAP}
    elif option == "dropout 0.1":
        ours = {"dropout": DROPOUT, "seed": SEED}
        truth = {"kept": attune.dropout_mask(DROPOUT, SEED, (*LONG[:2], length, length)), "dropout": DROPOUT}
    programs = {"attune": attune.sdpa(q, k, v, zeros_like(q), **ours)}
    if option != "plain":
        programs[PLAIN] = attune.sdpa(q, k, v, zeros_like(q))
    if peers.torch:
        programs |= torch_options(peers, q, k, v, option, mask)
    if peers.ort and option != "dropout 0.1":
        programs["onnxruntime"] = onnx_attention(peers, q, k, v, mask, softcap)
    note = "PyTorch and onnxruntime are given the bias that ALiBi is, (H,Sq,Sk); flex_attention computes it"
    return Cell(name, programs, lambda real: reference.attention(real, q, k, v, **truth), work=flops(LONG),
                unchecked=(PLAIN, "torch") if option == "dropout 0.1" else (PLAIN,), own=(PLAIN,),
                note=note if option == "ALiBi" else "")


def torch_options(peers, query, key, value, option, mask):
    torch = peers.torch
    sdpa = torch.nn.functional.scaled_dot_product_attention
    q, k, v, m = peers.tensors(query, key, value, mask)
    if option == "dropout 0.1":
        return {"torch": lambda: sdpa(q, k, v, dropout_p=DROPOUT)}
    if option not in ("ALiBi", "softcap 30"):
        return {"torch": lambda: sdpa(q, k, v, attn_mask=m)}
    from torch.nn.attention.flex_attention import flex_attention

    slopes = torch.tensor([2.0 ** (-8 * (h + 1) / LONG[1]) for h in range(LONG[1])])
    if option == "ALiBi":
        score = lambda x, b, h, i, j: x - slopes[h] * torch.abs(i - j)
        plain = lambda: sdpa(q, k, v, attn_mask=m)
    else:
        score = lambda x, b, h, i, j: SOFTCAP * torch.tanh(x / SOFTCAP)
        scale = 1 / math.sqrt(query.shape[-1])
        plain = lambda: torch.softmax(SOFTCAP * torch.tanh(q @ k.transpose(-1, -2) * (scale / SOFTCAP)), -1) @ v
    flex = peers.compiled(flex_attention)
    return {"torch" if option == "ALiBi" else "torch composed": plain,
            "torch flex_attention": lambda: flex(q, k, v, score_mod=score)}


def onnx_attention(peers, q, k, v, mask=None, softcap=0, weights=False):
    """ONNX's Attention, opset 23."""
    arrays = {"q": q, "k": k, "v": v} | ({"m": mask} if mask is not None else {})
    outputs = {"out": zeros_like(q)}
    if weights:
        outputs["p"] = zeros((*q.shape[:3], k.shape[2]))
    attributes = {"softcap": float(softcap)} | ({"qk_matmul_output_mode": 3} if weights else {})
    call = peers.graph([("Attention", list(arrays), ["out"] + (["", "", "p"] if weights else []), attributes)], arrays, outputs)
    return (lambda: (call(), outputs["p"])) if weights else call


def make_weights(attune, peers, name, shape):
    _, q, k, v = inputs(shape)
    weights = zeros((*shape[:3], shape[2]))
    call = attune.sdpa(q, k, v, zeros_like(q), weights=weights)
    programs = {"attune": lambda: (call(), weights), PLAIN: attune.sdpa(q, k, v, zeros_like(q)),
                "one write": attune.write(zeros_like(weights))}
    if peers.torch:
        torch = peers.torch
        tq, tk, tv = peers.tensors(q, k, v)
        scale = 1 / math.sqrt(shape[3])
        scores, given, out = torch.empty(weights.shape), torch.empty(weights.shape), torch.empty(q.shape)

        def unfused():
            p = torch.softmax((tq * scale) @ tk.transpose(-1, -2), -1)
            return p @ tv, p

        def into_given():
            torch.matmul(tq * scale, tk.transpose(-1, -2), out=scores)
            torch.softmax(scores, -1, out=given)
            torch.matmul(given, tv, out=out)
            return out, given

        programs |= {"torch unfused": unfused, "torch unfused, memory given": into_given}
    if peers.ort:
        programs["onnxruntime"] = onnx_attention(peers, q, k, v, weights=True)
    return Cell(name, programs, lambda real: reference.attention(real, q, k, v, weights=True), work=flops(shape),
                own=(PLAIN, "one write"))


def make_score(attune, peers, name, score):
    random, q, k, v = inputs(LONG)
    q *= np.float32(0.5)  # so that Gaussian weights are not those of one key alone
    k *= np.float32(0.5)
    dim = LONG[3]
    weight = normal(random, dim, dim, scale=dim) if score == "general" else None
    given = {"score_weight": weight} if score == "general" else {}
    programs = {"attune": attune.sdpa(q, k, v, zeros_like(q), score=score, **given),
                PLAIN: attune.sdpa(q, k, v, zeros_like(q))}
    if peers.torch:
        programs |= torch_scores(peers, q, k, v, score, weight)
    return Cell(name, programs, lambda real: reference.attention(real, q, k, v, score=score, **given), work=flops(LONG),
                unchecked=(PLAIN,), own=(PLAIN,))


def torch_scores(peers, query, key, value, score, weight):
    torch = peers.torch
    sdpa = torch.nn.functional.scaled_dot_product_attention
    q, k, v, w = peers.tensors(query, key, value, weight)
    if score == "general":
        return {"torch": lambda: sdpa(q @ w, k, v, scale=1.0)}
    if score == "cosine":
        unit = torch.nn.functional.normalize
        return {"torch": lambda: sdpa(unit(q, dim=-1), unit(k, dim=-1), v, scale=1.0)}

    def composed(q, k, v):
        return torch.softmax(-0.5 * torch.cdist(q, k) ** 2, -1) @ v

    compiled = peers.compiled(composed)
    # The part of |q - k|^2 that is the query's own drops out of the softmax; a bias of each key is left.
    return {"torch": lambda: sdpa(q, k, v, attn_mask=-0.5 * (k * k).sum(-1)[:, :, None, :], scale=1.0),
            "torch composed": lambda: composed(q, k, v), "torch composed, compiled": lambda: compiled(q, k, v)}
