# SPDX-License-Identifier: MIT
"""Attention that a user writes (attentions/attentions.h), beside FlexAttention compiled and beside the library's own options.

Needs the target attune_user_peers, which a default build leaves out and scripts/bench_peers asks for.
"""

import ctypes
import pathlib

import numpy as np

import reference
from arrays import aligned, normal, zeros_like
from attune_library import tensor
from measure import Cell

SHAPE = (1, 8, 1024, 64)  # (B, H, S, D)
CAP, WINDOW, DOCUMENTS = 30.0, 256, 4096
PLAIN, DENSE = "attune, its own option", "attune, dense"
LIBRARY = "peers/attentions/libattune_user_peers.so"
OPTIONS = ("ALiBi", "softcap", "causal", "causal ALiBi", "window 256")


def cell_name(option):
    return f"user's attention 1x8x1024x1024x64, {option}"


def documents_name(cuts):
    return f"user's attention 1x8x{DOCUMENTS}x{DOCUMENTS}x64, 8 {cuts} documents"


def cells():
    for option in OPTIONS:
        yield cell_name(option), lambda a, p, n, option=option: make(a, p, n, option)
    for cuts in ("equal", "random"):
        yield documents_name(cuts), lambda a, p, n, cuts=cuts: make_documents(a, p, n, cuts)


class Users:
    def __init__(self, attune, threads):
        path = pathlib.Path(attune.library._name).parent / LIBRARY
        if not path.exists():
            raise ImportError(f"{path.name} is not built: cmake --build build/native --target attune_user_peers")
        self.library = ctypes.CDLL(str(path))
        self.library.attune_users_open.restype = ctypes.c_void_p
        self.library.attune_users_forward.restype = ctypes.c_char_p
        self.session = ctypes.c_void_p(self.library.attune_users_open(threads))

    def forward(self, name, query, key, value, out, buffer=None, number=0.0):
        arrays = [tensor(x) for x in (query, key, value, out, buffer)]

        def call(_keep=(query, key, value, out, buffer)):
            message = self.library.attune_users_forward(self.session, name.encode(), *map(ctypes.byref, arrays),
                                                        ctypes.c_double(number))
            if message is not None:
                raise RuntimeError(message.decode())
            return out

        return call


def inputs(length):
    random = np.random.default_rng(3)
    return [normal(random, *SHAPE[:2], length, SHAPE[3]) for _ in range(3)]


def make(attune, peers, name, option):
    users = Users(attune, peers.threads)
    q, k, v = inputs(SHAPE[2])
    heads, length = SHAPE[1:3]
    slopes = np.array([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)], np.float32)
    i, j = np.ogrid[:length, :length]
    causal = {"causal": True}
    mask = {"mask": j <= i}
    near = {"mask": (j <= i) & (i - j < WINDOW)}
    user, given, own, truth = {
        "ALiBi": ("alibi", {"buffer": slopes}, {"alibi": True}, {"slopes": slopes}),
        "softcap": ("softcap", {"number": CAP}, {"softcap": CAP}, {"softcap": CAP}),
        "causal": ("causal", {}, causal, mask),
        "causal ALiBi": ("causal_alibi", {"buffer": slopes}, {"alibi": True, **causal}, {"slopes": slopes, **mask}),
        "window 256": ("window", {"number": WINDOW}, {"left": WINDOW - 1, **causal}, near),
    }[option]
    programs = {"attune": users.forward(user, q, k, v, zeros_like(q), **given),
                PLAIN: attune.sdpa(q, k, v, zeros_like(q), **own), DENSE: attune.sdpa(q, k, v, zeros_like(q))}
    if peers.torch:
        programs["torch FlexAttention"] = flex(peers, q, k, v, option, slopes)
    return Cell(name, programs, lambda real: reference.attention(real, q, k, v, **truth),
                work=4.0 * SHAPE[0] * heads * length**2 * SHAPE[3], unchecked=(DENSE,), own=(PLAIN, DENSE))


def flex(peers, query, key, value, option, slopes):
    from torch.nn.attention import flex_attention as flex

    torch = peers.torch
    q, k, v, m = peers.tensors(query, key, value, slopes)
    given = {}
    if "ALiBi" in option:
        given["score_mod"] = lambda x, b, h, i, j: x - m[h] * torch.abs(i - j)
    elif option == "softcap":
        given["score_mod"] = lambda x, b, h, i, j: CAP * torch.tanh(x / CAP)
    keep = {"causal": lambda b, h, i, j: j <= i, "causal ALiBi": lambda b, h, i, j: j <= i,
            "window 256": lambda b, h, i, j: (j <= i) & (i - j < WINDOW)}.get(option)
    if keep:
        given["block_mask"] = flex.create_block_mask(keep, None, None, q.shape[2], k.shape[2], device="cpu")
    compiled = peers.compiled(flex.flex_attention)
    return lambda: compiled(q, k, v, **given)


def make_documents(attune, peers, name, cuts):
    users = Users(attune, peers.threads)
    q, k, v = inputs(DOCUMENTS)
    if cuts == "equal":
        starts = np.arange(0, DOCUMENTS, DOCUMENTS // 8)
    else:
        starts = np.concatenate([[0], np.sort(np.random.default_rng(5).choice(DOCUMENTS - 1, 7, replace=False) + 1)])
    document = aligned((np.searchsorted(starts, np.arange(DOCUMENTS), side="right") - 1).astype(np.int32))
    programs = {"attune": users.forward("documents", q, k, v, zeros_like(q), buffer=document),
                DENSE: attune.sdpa(q, k, v, zeros_like(q))}
    if peers.torch:
        from torch.nn.attention import flex_attention as flex

        tq, tk, tv, of = peers.tensors(q, k, v, document.astype(np.int64))
        mask = flex.create_block_mask(lambda b, h, i, j: of[i] == of[j], None, None, DOCUMENTS, DOCUMENTS, device="cpu")
        compiled = peers.compiled(flex.flex_attention)
        programs["torch FlexAttention"] = lambda: compiled(tq, tk, tv, block_mask=mask)
    truth = lambda real: reference.attention(real, q, k, v, mask=document[:, None] == document[None, :])
    return Cell(name, programs, truth, work=4.0 * SHAPE[1] * DOCUMENTS**2 * SHAPE[3], unchecked=(DENSE,), own=(DENSE,),
                note="FLOPs are those of dense attention")
