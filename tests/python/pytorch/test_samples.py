# SPDX-License-Identifier: MIT
"""PyTorch's own samples of scaled_dot_product_attention (OpInfo), forward and gradients, through attune.torch and through
enable(). Samples that the library does not serve are named, and answered by PyTorch's own function."""
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")
import attune.torch  # noqa: E402
import numpy as np  # noqa: E402
from attune.torch import _enable  # noqa: E402
from attune.torch._attention import why_unsupported  # noqa: E402
from attention_numpy import Options, sdpa  # noqa: E402
from backward_numpy import sdpa_backward  # noqa: E402
from judge import judge  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

OP = next(op for op in op_db if op.name == "nn.functional.scaled_dot_product_attention")
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def samples(dtype):
    torch.manual_seed(0)
    return list(OP.sample_inputs("cpu", dtype, requires_grad=True))


def name_of(sample):
    tensors = [sample.input, *sample.args]
    options = {k: tuple(v.shape) if torch.is_tensor(v) else v for k, v in sample.kwargs.items()}
    return " ".join(str(tuple(t.shape)) for t in tensors if torch.is_tensor(t)) + f" {options}"


def tensors_of(sample, dtype, cast=None):
    """Leaves of the sample's tensors, and how to call with them."""
    leaf = lambda t: t.detach().to(cast or t.dtype).requires_grad_(t.requires_grad) if torch.is_tensor(t) and \
        t.is_floating_point() else t
    inputs = [leaf(t) for t in (sample.input, *sample.args)]
    options = {name: leaf(value) for name, value in sample.kwargs.items()}
    leaves = [t for t in (*inputs, *options.values()) if torch.is_tensor(t) and t.requires_grad]
    return inputs, options, leaves


def run(function, sample, dtype, grad, cast=None):
    inputs, options, leaves = tensors_of(sample, dtype, cast)
    out = function(*inputs, **options)
    if not out.requires_grad:
        return out, []
    grads = torch.autograd.grad(out, leaves, grad(out), allow_unused=True)
    return out.detach(), grads


def exact_and_plain_f64(sample):
    """The result and the gradients in long double, and in f64 by plain sums in several orders (tests/cli/judging.py): f64 is
    judged against more than itself."""
    exact, *plain = [numpy_f64(sample, np.longdouble, None)] + [numpy_f64(sample, np.float64, order) for order in
                                                               (None, *map(np.random.default_rng, range(7)))]
    return exact, ([out for out, _ in plain], [list(grads) for grads in zip(*(grads for _, grads in plain))])


def numpy_f64(sample, dtype, order):
    inputs, options, leaves = tensors_of(sample, torch.float64)
    query, key, value = (t.detach().numpy() for t in inputs[:3])
    mask = options.get("attn_mask")
    if options.get("enable_gqa"):
        outer = query.shape[:-2]
        full = [query, key, value]
    else:
        outer = np.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
        full = [np.broadcast_to(a, (*outer, *a.shape[-2:])) for a in (query, key, value)]
    given = Options(causal="top-left" if options.get("is_causal") else None, scale=options.get("scale"))
    if mask is not None:
        table = np.broadcast_to(mask.detach().numpy(), (*outer, query.shape[-2], key.shape[-2]))
        setattr(given, "mask" if mask.dtype == torch.bool else "bias", table)
    out = sdpa(*full, given, dtype, order).out
    grad = grad_of(torch.from_numpy(out.astype(np.float64))).numpy()
    found = sdpa_backward(*full, grad, None, given, dtype, order)
    rounded = lambda a: torch.from_numpy(np.asarray(a).astype(np.float64))
    by = [(inputs[0], found.query), (inputs[1], found.key), (inputs[2], found.value), (mask, found.bias)]
    grads = [rounded(g).sum_to_size(t.shape) for t, g in by if torch.is_tensor(t) and t.requires_grad]
    return rounded(out), grads


def enabled(*arguments, **options):
    with attune.torch.enable():
        return torch.nn.functional.scaled_dot_product_attention(*arguments, **options)


def grad_of(out):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(out.shape, generator=generator, dtype=torch.float64).to(out.dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("how", ["direct", "enabled"])
def test_samples(dtype, how, capsys):
    served, left = 0, []
    function = attune.torch.scaled_dot_product_attention if how == "direct" else enabled
    for sample in samples(dtype):
        inputs, options, _ = tensors_of(sample, dtype)
        reason = why_unsupported(*inputs[:3], options.get("attn_mask"), options.get("enable_gqa", False))
        if how == "direct" and reason:
            left.append(f"{name_of(sample)}: {reason}")
            continue
        if reason:  # PyTorch's own answer, bit for bit
            (mine, *mine_grads), (theirs, *their_grads) = (
                (torch.manual_seed(3), run(f, sample, dtype, grad_of))[1] for f in (enabled, _enable.original))
            assert torch.equal(mine, theirs) and all(map(torch.equal, mine_grads[0], their_grads[0])), name_of(sample)
            continue
        if options.get("dropout_p"):  # another generator: zeros and sums alone can be compared
            torch.manual_seed(3)
            out, _ = run(function, sample, dtype, grad_of)
            assert torch.isfinite(out).all(), name_of(sample)
            served += 1
            continue
        if dtype == torch.float64:
            exact, plain = exact_and_plain_f64(sample)
        else:
            exact, plain = (run(_enable.original, sample, dtype, grad_of, cast) for cast in (torch.float64, None))
        got = run(function, sample, dtype, grad_of)
        judge(name_of(sample), got[0], plain[0], exact[0])
        assert len(got[1]) == len(plain[1])
        for n, (mine, theirs, true) in enumerate(zip(got[1], plain[1], exact[1])):
            if mine is not None:
                # Gradients are differences: P (dP - D) of numbers as large as the values times the gradient.
                judge(f"{name_of(sample)}, gradient {n}", mine, theirs, true, sizes=torch.maximum(true.abs().max(),
                                                                                                 sizes_of(sample)))
        served += 1
    assert served >= 5
    with capsys.disabled():
        for line in left:
            print(f"\nleft to PyTorch, {dtype}: {line}", end="")


def sizes_of(sample):
    """The largest |dP| of a sample: the size of what cancels in P (dP - D)."""
    value = sample.args[1].detach().double()
    out = torch.empty((1, value.shape[-1]), dtype=torch.float64)
    return value.abs().sum(-1).max() * grad_of(out).abs().max() if value.numel() else torch.zeros((), dtype=torch.float64)


def test_errors_are_those_of_pytorch():
    """enable() leaves PyTorch's errors as they are."""
    q = torch.randn(2, 3, 4, 8)
    wrong = [(q, q[..., :7], q), (q, q.double(), q), (q.int(), q.int(), q.int()), (q, q[:, :2], q[:, :2])]
    for arguments in wrong:
        with pytest.raises(Exception) as theirs:
            _enable.original(*arguments)
        with attune.torch.enable(), pytest.raises(type(theirs.value)) as mine:
            torch.nn.functional.scaled_dot_product_attention(*arguments)
        assert str(mine.value) == str(theirs.value)
    mask = torch.ones(4, 4, dtype=torch.bool)
    with pytest.raises(RuntimeError) as theirs:
        _enable.original(q, q, q, mask, is_causal=True)
    with attune.torch.enable(), pytest.raises(RuntimeError) as mine:
        torch.nn.functional.scaled_dot_product_attention(q, q, q, mask, is_causal=True)
    assert str(mine.value) == str(theirs.value)
