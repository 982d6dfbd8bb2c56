"""The one rule by which a result is called right."""
import numpy as np


def wider(dtype):
    """The type that results in `dtype` are judged in."""
    return np.float64 if np.dtype(dtype) == np.float32 else np.longdouble


def reference_and_plain(compute, dtype):
    """compute(dtype, order) in the wider type, and in the type itself in several orders of summation, all of them equally
    plain: in a small array the error of one is a matter of luck."""
    orders = [None] + [np.random.default_rng(n) for n in range(7)]
    return compute(wider(dtype), None), [compute(dtype, order) for order in orders]


def judge(name, got, plain, reference, dtype, bound=0):
    """The error may be twice that of the plain computation in the same type (the largest of `plain`), plus a rounding floor.

    The floor: where the plain computation happens to be exact (one key, equal scores), the program may still round a few
    times, because it folds log2(e) into the scale, takes powers of 2 and divides by the sum at the end. Each of these is half
    a unit in the last place of at most the largest value in the result; 4 * eps allows eight of them.

    bound: an absolute error that a public header allows, where it does.
    """
    assert got.dtype == dtype and got.shape == reference.shape, f"{name}: {got.dtype}{got.shape}, expected {reference.shape}"
    infinite = np.isneginf(reference)
    assert np.array_equal(np.isneginf(got), infinite), f"{name}: -inf in other places"
    if np.all(infinite):
        return 0.0
    assert np.all(np.isfinite(got[~infinite])), f"{name}: not finite"
    precise = reference[~infinite]
    error = np.max(np.abs(got[~infinite].astype(precise.dtype) - precise))
    plain_error = max(np.max(np.abs(p[~infinite].astype(precise.dtype) - precise)) for p in plain)
    allowed = 2 * plain_error + 4 * np.finfo(dtype).eps * np.max(np.abs(precise)) + bound
    assert error <= allowed, f"{name}: error {error:.3g}, allowed {allowed:.3g} (plain computation: {plain_error:.3g})"
    return float(error / allowed) if allowed > 0 else 0.0


def judge_attention(load, compute, dtype, wanted, mode=3, averaged=False, bounds={}):
    """Judges those of out, lse and weights that are `wanted`; load(name) is the program's. `bounds` are those of judge().
    The largest share of what is allowed, and the reference."""
    exact, plain = reference_and_plain(compute, dtype)

    def part(result, name):
        if name != "weights":
            return getattr(result, name)
        array = result.weights[mode]
        return array.mean(axis=-3, dtype=array.dtype) if averaged and array.ndim > 3 else array

    def bound(name):
        return bounds.get("scores" if name == "weights" and mode < 3 else name, 0)

    shares = [judge(name, load(name), [part(p, name) for p in plain], part(exact, name), dtype, bound(name)) for name in wanted]
    return max(shares), exact
