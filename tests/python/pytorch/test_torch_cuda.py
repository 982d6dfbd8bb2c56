# SPDX-License-Identifier: MIT
"""attune.torch on CUDA tensors: without a GPU the rules of torch.library on tensors without memory; with one, results."""
import pytest

torch = pytest.importorskip("torch")
import attune.torch  # noqa: E402
import torch.nn.functional as functional  # noqa: E402
from attune.torch import _attention, _ops  # noqa: E402
from judge import judge, plain_attention  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

sdpa = attune.torch.scaled_dot_product_attention
SHAPES = ((2, 4, 5, 64), (2, 2, 9, 64), (2, 2, 9, 64))


@pytest.fixture
def fakes(monkeypatch):
    """Query, key and value on a CUDA device, without memory, as a build with kernels for CUDA has them."""
    monkeypatch.setattr(_attention, "HAS_CUDA", True)
    with FakeTensorMode():
        yield [torch.empty(shape, device="cuda") for shape in SHAPES]


def test_rules_keep_the_device(fakes):
    out, lse = sdpa(*fakes, is_causal=True, enable_gqa=True, softcap=3.0, return_lse=True)
    assert out.is_cuda and lse.is_cuda and out.shape == SHAPES[0] and out.transpose(1, 2).is_contiguous()
    numbers = (None, 0.0, False, "none", None, -1, -1, 0.0, False, *(0,) * len(_ops.DROPOUT_NUMBERS), "dot_product")
    wanted = [True, True, True, False, False, False, False]
    gradients = _ops.attention_backward(out, None, out, lse, *fakes, None, *(None,) * len(_ops.SCORE_TENSORS), *numbers, wanted)
    assert [(g.device.type, g.shape) for g in gradients] == [("cuda", torch.Size(shape)) for shape in SHAPES]
    assert attune.torch.linear(fakes[0], torch.empty(3, 64, device="cuda")).is_cuda
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert sdpa(*fakes, enable_gqa=True).dtype == torch.float32
    with attune.torch.enable():
        assert functional.scaled_dot_product_attention(*fakes, enable_gqa=True).transpose(1, 2).is_contiguous()


def test_refused_on_a_device(fakes):
    query, key, value = fakes
    for tensors, message in [
        ([t.double() for t in fakes], "f64 and more than 256 channels are not served on a device"),
        ([torch.empty(1, 2, 3, 320, device="cuda")] * 3, "f64 and more than 256 channels are not served on a device"),
        ([query, torch.empty(SHAPES[1]), value], "key: is on cpu, query on cuda:0"),
        ([t.to("meta") for t in fakes], "query: is on meta; the library computes on CPUs and CUDA devices"),
    ]:
        with pytest.raises(attune.UnsupportedError, match=message):
            sdpa(*tensors, enable_gqa=True)


def test_functions_that_have_no_gradients_there(fakes):
    rows, weight = torch.empty(3, 64, device="cuda"), torch.empty(5, 64, device="cuda", requires_grad=True)
    for call in (lambda: attune.torch.linear(rows, weight), lambda: attune.torch.masked_softmax(weight),
                 lambda: attune.torch.transform_rows(weight[:, None], hadamard=True)):
        with pytest.raises(NotImplementedError, match="has no gradients on a CUDA device"):
            call()
        with torch.no_grad():
            assert call().is_cuda


def test_a_build_without_kernels_for_it(fakes, monkeypatch):
    monkeypatch.setattr(_attention, "HAS_CUDA", False)
    with pytest.raises(attune.UnsupportedError, match="^query: is on a CUDA device; this build of the library has no kernels"):
        sdpa(*fakes, enable_gqa=True)


needs_gpu = pytest.mark.skipif(not (torch.cuda.is_available() and _attention.HAS_CUDA),
                               reason="there is no GPU, or no kernels for CUDA are linked in")


def on_gpu(dtype, *shapes):
    generator = torch.Generator("cuda").manual_seed(0)
    return [torch.randn(s, dtype=torch.float64, device="cuda", generator=generator).to(dtype) for s in shapes or SHAPES]


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("how", [{}, {"softcap": 3.0}, {"sinks": [0.5, -1.0, 0.0, 2.0]}], ids=str)
def test_results_and_gradients(dtype, how):
    how = {name: torch.tensor(x, device="cuda") if isinstance(x, list) else x for name, x in how.items()}
    results = []
    plain = lambda *t: plain_attention(*t, **how)
    for type_, function in ((dtype, lambda *t: sdpa(*t, enable_gqa=True, **how)), (dtype, plain), (torch.float64, plain)):
        inputs = [t.to(type_).requires_grad_() for t in on_gpu(dtype)]
        out = function(*inputs)
        grad = torch.randn(out.shape, generator=torch.Generator("cuda").manual_seed(1), dtype=torch.float64, device="cuda")
        results.append((out, *torch.autograd.grad(out, inputs, grad.to(type_))))
    for n, (mine, theirs, exact) in enumerate(zip(*results)):
        judge(f"result {n}", mine, theirs, exact)


@needs_gpu
def test_autocast():
    tensors = on_gpu(torch.float32)
    with torch.autocast("cuda", dtype=torch.float16):
        out = sdpa(*tensors, enable_gqa=True)
    assert torch.equal(out, sdpa(*(t.half() for t in tensors), enable_gqa=True))


@needs_gpu
def test_dropout_has_the_mask_of_the_host():
    tensors = on_gpu(torch.float32)
    mine = sdpa(*tensors, enable_gqa=True, dropout_p=0.5, seed=3)
    host = sdpa(*(t.cpu() for t in tensors), enable_gqa=True, dropout_p=0.5, seed=3)
    assert torch.allclose(mine.cpu(), host, atol=1e-5)


@needs_gpu
def test_the_current_stream():
    tensors = on_gpu(torch.float32)
    expected = sdpa(2 * tensors[0], *tensors[1:], enable_gqa=True)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        tensors[0].mul_(2)
        late = sdpa(*tensors, enable_gqa=True)
    assert not stream.query()  # the call waited for nothing
    stream.synchronize()
    assert torch.equal(late, expected)  # the query of before would give another result


@needs_gpu
def test_a_graph_of_calls():
    tensors = on_gpu(torch.float16, (1, 4, 128, 64), (1, 4, 128, 64), (1, 4, 128, 64))
    sdpa(*tensors, is_causal=True)  # loads its kernels
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = sdpa(*tensors, is_causal=True)
    tensors[0].mul_(0.5)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, sdpa(*tensors, is_causal=True))


@needs_gpu
def test_compiled_and_enabled():
    tensors = on_gpu(torch.float16)
    layer = lambda q, k, v: functional.scaled_dot_product_attention(q * 1, k, v, enable_gqa=True)
    with attune.torch.enable():
        assert torch.equal(torch.compile(layer, fullgraph=True)(*tensors), sdpa(*tensors, enable_gqa=True))
