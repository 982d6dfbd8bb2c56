# SPDX-License-Identifier: MIT
"""The one rule by which a result is called right."""
import attention_numpy
import numpy as np
from element_types import F32, element_type


def reference_and_plain(compute, dtype):
    """compute(dtype, order) in the wider type, and in the type itself in several orders of summation, all of them equally
    plain: in a small array the error of one is a matter of luck."""
    of = element_type(dtype)
    orders = [None] + [np.random.default_rng(n) for n in range(7)]
    exact = compute(of.wider, None)
    with attention_numpy.storing(of.stored):
        return exact, [compute(of.steps, order) for order in orders]


def judge(name, got, plain, reference, dtype, bound=0):
    """The error may be twice that of the plain computation in the same type (the largest of `plain`), plus a rounding floor for
    where the plain computation happens to be exact (one key, equal scores).

    bound: an absolute error that a public header allows, where it does.
    """
    of = element_type(dtype)
    assert got.dtype == of.file and got.shape == reference.shape, f"{name}: {got.dtype}{got.shape}, expected {reference.shape}"
    assert np.array_equal(of.of(got), got, equal_nan=True), f"{name}: holds what is no {of.name}"
    infinite = np.isneginf(reference)
    assert np.array_equal(np.isneginf(got), infinite), f"{name}: -inf in other places"
    if np.all(infinite):
        return 0.0
    assert np.all(np.isfinite(got[~infinite])), f"{name}: not finite"
    precise = reference[~infinite]
    error = np.max(np.abs(got[~infinite].astype(precise.dtype) - precise))
    plain_error = max(np.max(np.abs(p[~infinite].astype(precise.dtype) - precise)) for p in plain)
    allowed = 2 * plain_error + of.floor * np.max(np.abs(precise)) + bound
    assert error <= allowed, f"{name}: error {error:.3g}, allowed {allowed:.3g} (plain computation: {plain_error:.3g})"
    return float(error / allowed) if allowed > 0 else 0.0


def judge_attention(load, compute, dtype, wanted, mode=3, averaged=False, bounds={}):
    """Judges those of out, lse and weights that are `wanted`; load(name) is the program's. `bounds` are those of judge().
    The largest share of what is allowed, and the reference."""
    of = element_type(dtype)
    exact, plain = reference_and_plain(compute, dtype)

    def part(result, name, stored=np.asarray):
        if name != "weights":
            return getattr(result, name)
        array = result.weights[mode]
        return stored(array.mean(axis=-3, dtype=array.dtype)) if averaged and array.ndim > 3 else array

    def bound(name):
        return bounds.get("scores" if name == "weights" and mode < 3 else name, 0)

    shares = [judge(name, load(name), [part(p, name, of.stored) for p in plain], part(exact, name),
                    of.steps if name == "lse" else of, bound(name)) for name in wanted]
    return max(shares), exact


def judge_gradients(load, compute, dtype, wanted):
    """Judges the gradients that are `wanted`; compute(dtype, order, parts=...) answers Gradients. The largest share of what is
    allowed. A gradient may be the difference of larger numbers, and has their roundings and those of out, which is of the type:
    the floor is of their size."""
    of = element_type(dtype)
    exact, plain = reference_and_plain(compute, dtype)
    sizes, shares = compute(of.wider, None, parts=np.abs), []
    for name in wanted:
        element = F32 if name in ("slopes", "sinks") else of
        bound = max(element.floor, of.floor) * float(np.max(np.abs(getattr(sizes, name)), initial=0))
        shares.append(judge(name, load(name), [getattr(p, name).astype(element.steps) for p in plain], getattr(exact, name),
                            element, bound))
    return max(shares)
