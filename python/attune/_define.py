# SPDX-License-Identifier: MIT
"""attune.define(): an attention of your own from Python."""
from __future__ import annotations

import functools
import os
import pathlib
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from attune import _attune
from attune._attune import Communicator, ParallelPlan
from attune._results import Array, ArrayLike, Attention


class DefinedAttention:
    """An attention that attune.define() made; a call computes it.

    f(query, key, value, **captures, **options) takes the options of attune.scaled_dot_product_attention() that it was made
    for, and returns what that function returns. Tensors of torch that require a gradient are recorded by autograd.
    """

    def __init__(self, name: str, file: pathlib.Path):
        self.name, self.file = name, file
        self._native = _attune.UserAttention(str(file))
        self._captures = self._native.captures()

    @property
    def captures(self) -> list[dict[str, Any]]:
        """Captures, which are keyword arguments: name, rank (0: a number), dtype (None: that of the scores) and
        has_gradient."""
        return [dict(c) for c in self._captures]

    def __call__(self, query: ArrayLike, key: ArrayLike, value: ArrayLike, **options: Any) -> Array | Attention:
        return self._call(self._native.forward, self._native.backward, query, key, value, options)

    def backward(self, query: ArrayLike, key: ArrayLike, value: ArrayLike, out: ArrayLike, lse: ArrayLike, grad_out: ArrayLike,
                 **options: Any) -> dict[str, Array]:
        """Gradients of a loss, as attune.scaled_dot_product_attention_backward() gives them; captures with gradients are
        among their names."""
        return self._native.backward(query, key, value, out, lse, grad_out, **options)

    def ring_attention(self, communicator: Communicator, plan: ParallelPlan, query: ArrayLike, key: ArrayLike, value: ArrayLike,
                       **options: Any) -> Array | Attention:
        """Attention of this rank's queries over the keys of all ranks: attune.context_parallel.ring_attention() of this
        attention, whose score and mask see the indices of all positions.

        Args:
            communicator: The group, and this rank in it.
            plan: Positions of every rank, equal on all ranks.
            query, key, value: (B, Hq, S, Dk), (B, Hkv, S, Dk), (B, Hkv, S, Dv), S = plan.positions_of(rank).
            **options: Those of attune.context_parallel.ring_attention(), and captures: of all positions, the same on every
                rank.

        Returns:
            out, (B, Hq, S, Dv); or Attention(out, lse, None). Over tensors of torch autograd records the call: backward() is
            collective, too.

        Raises:
            ValueError: An argument is wrong, or ranks disagree: on every rank.
            ConnectionError: A message failed, or did not come in time.
        """
        return self._over_ranks("ring_attention", communicator, plan, query, key, value, options)

    def gathered_attention(self, communicator: Communicator, plan: ParallelPlan, query: ArrayLike, key: ArrayLike,
                           value: ArrayLike, **options: Any) -> Array | Attention:
        """The result of ring_attention() by an all-gather of the keys that this rank's queries may see."""
        return self._over_ranks("gathered_attention", communicator, plan, query, key, value, options)

    def head_parallel_attention(self, communicator: Communicator, plan: ParallelPlan, query: ArrayLike, key: ArrayLike,
                                value: ArrayLike, **options: Any) -> Array | Attention:
        """The result of ring_attention() by an all-to-all over heads; the number of ranks divides Hkv."""
        return self._over_ranks("head_parallel_attention", communicator, plan, query, key, value, options)

    def sharded_decode(self, communicator: Communicator, plan: ParallelPlan, query: ArrayLike, key: ArrayLike, value: ArrayLike,
                       **options: Any) -> Array | Attention:
        """Attention of few queries, the same on every rank, over caches that are spread over the ranks, as
        attune.context_parallel.sharded_decode(). It has no gradients."""
        return self._over_ranks("sharded_decode", communicator, plan, query, key, value, options)

    def ring_attention_backward(self, communicator: Communicator, plan: ParallelPlan, query: ArrayLike, key: ArrayLike,
                                value: ArrayLike, out: ArrayLike, lse: ArrayLike, grad_out: ArrayLike,
                                **options: Any) -> dict[str, Array]:
        """Gradients of a loss by the inputs of the functions over ranks, as attune.context_parallel.ring_attention_backward()
        gives them; those of captures are of all ranks together, on each."""
        return self._native.ring_attention_backward(communicator, plan, query, key, value, out, lse, grad_out, **options)

    def _over_ranks(self, name: str, communicator: Communicator, plan: ParallelPlan, query: ArrayLike, key: ArrayLike,
                    value: ArrayLike, options: dict[str, Any]) -> Array | Attention:
        forward = functools.partial(getattr(self._native, name), communicator, plan)
        backward = functools.partial(self._native.ring_attention_backward, communicator, plan)
        return self._call(forward, None if name == "sharded_decode" else backward, query, key, value, options)

    def _call(self, forward: Callable, backward: Callable | None, query: ArrayLike, key: ArrayLike, value: ArrayLike,
              options: dict[str, Any]) -> Array | Attention:
        """A call of the library's functions, recorded by autograd where tensors require gradients."""
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(query, torch.Tensor):
            from attune.torch import _defined
            return _defined.call(forward, backward, self._captures, query, key, value, options)
        return forward(query, key, value, **options)

    def __repr__(self) -> str:
        return f"attune.DefinedAttention({', '.join([self.name, *(c['name'] for c in self._captures)])})"


def _words(argument: str, given: Any) -> list[str]:
    words = [str(w) for w in ([given] if isinstance(given, (str, int)) else given)]
    if not words or not all(re.fullmatch(r"\w+", w) for w in words):
        raise ValueError(f"{argument}: must be a list of words, got {given!r}")
    return words


def _struct_of(text: str) -> str:
    """The name of the one struct that a source defines."""
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    structs = re.findall(r"\b(?:struct|class)\s+(\w+)\s*(?:final\s*)?(?::[^;{]*)?\{", plain)
    if len(structs) != 1:
        listed = ", ".join(structs) or "no struct"
        raise ValueError(f"type: must name the struct of the attention; the source has {listed}")
    return structs[0]


def define(name: str, source: str | os.PathLike[str], *, type: str | None = None, dtypes: str | Sequence[str] = "f32",
           kinds: str | Sequence[str] = "plain", head_dims: str | int | Sequence[str | int] = "any",
           schedules: Sequence[str] = ("prefill", "decode"), backward: bool = True) -> DefinedAttention:
    """An attention of your own: a struct of C++ with the score of a pair, a mask or a factor of the weights, as a function with
    gradients. docs/write-your-own-attention.md says what may be written.

    The kernels are built once, with the installed library of ATTUNE_ROOT, a C++20 compiler, CMake and the pip package halide,
    and kept in $XDG_CACHE_HOME/attune, under a hash of the source, the library and the compiler.

    Args:
        name: Name of the attention, a name of C++.
        source: A header's path, or its text.
        type: The struct; None: the only one of the source.
        dtypes: Types of the tensors, of f32, f64, bf16 and f16.
        kinds: What calls may ask for: plain, scored, training, weights, as in attune_add_attention(). Each costs its kernels.
        head_dims: any, or sizes of query, key and value that get kernels of their own.
        schedules: As in attune_add_attention().
        backward: Gradients, too.

    Returns:
        The function.

    Raises:
        ValueError: The source has a mistake; the message is the line of the compiler or of the library's check.
        UnsupportedError: The library's development files, CMake, a compiler or Halide are missing (a ValueError).
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z]\w*", name, re.A):
        raise ValueError(f"name: must be a name of C++, got {name!r}")
    of_path = not isinstance(source, str) or not re.search(r"[\n{]", source)
    if of_path:
        path = pathlib.Path(source)
        if not path.is_file():
            raise ValueError(f"source: there is no file {path}")
        text = path.read_text(encoding="utf-8")
    else:
        text = source
    from attune._build import build  # here, as its own imports take time

    lists = {"dtypes": dtypes, "kinds": kinds, "head_dims": head_dims, "schedules": schedules}
    more = [word for argument, given in lists.items() for word in (argument.upper(), *_words(argument, given))]
    struct = _struct_of(text) if type is None else _words("type", type)[0]
    return DefinedAttention(name, build(name, path if of_path else text, struct, [*more, *(["BACKWARD"] if backward else [])]))
