# SPDX-License-Identifier: MIT
"""attune.define(): an attention of your own from Python."""
from __future__ import annotations

import os
import pathlib
import re
import sys
from collections.abc import Sequence
from typing import Any

from attune import _attune
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
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(query, torch.Tensor):
            from attune.torch import _defined
            return _defined.call(self._native, self._captures, query, key, value, options)
        return self._native.forward(query, key, value, **options)

    def backward(self, query: ArrayLike, key: ArrayLike, value: ArrayLike, out: ArrayLike, lse: ArrayLike, grad_out: ArrayLike,
                 **options: Any) -> dict[str, Array]:
        """Gradients of a loss, as attune.scaled_dot_product_attention_backward() gives them; captures with gradients are
        among their names."""
        return self._native.backward(query, key, value, out, lse, grad_out, **options)

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
