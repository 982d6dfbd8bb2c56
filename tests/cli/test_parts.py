# SPDX-License-Identifier: MIT
"""attune run masked-softmax, linear and batch-dot, against the NumPy computation."""
import numpy as np
import pytest
from attention_numpy import batch_dot as batch_dot_numpy, linear as linear_numpy, masked_softmax
from judging import judge, reference_and_plain


def check(name, got, compute, dtype=np.float32):
    exact, plain = reference_and_plain(compute, dtype)
    judge(name, got, plain, exact, dtype)


def check_softmax(softmax, *options, lens=None, fill="zero", dtype=np.float32):
    scores = softmax.load("s")
    if lens is not None:
        softmax.save(lens=lens)
        options += ("--valid-lens", "lens.npy")
    got = softmax.succeeds("--fill", fill, *options)
    check("out", got, lambda dtype, order: masked_softmax(scores, lens, fill, dtype, order), dtype)
    return got


@pytest.mark.parametrize("fill", ["zero", "seed"])
@pytest.mark.parametrize("lens", [None, [2, 3], [0, 5], [[1, 2, 0], [5, 4, 3]]])
def test_masked_softmax(softmax, fill, lens):
    lens = None if lens is None else np.array(lens, np.int32)
    check_softmax(softmax, lens=lens, fill=fill)
    softmax.save(s=softmax.load("s").astype(np.float64))
    check_softmax(softmax, lens=lens, fill=fill, dtype=np.float64)


def test_masked_softmax_example_of_the_textbook(softmax):
    # 000: zeros in columns 2 and 3 of the first entry and in column 3 of the second; every row sums to 1.
    softmax.save(s=np.random.default_rng(1).random((2, 2, 4), np.float32))
    out = check_softmax(softmax, lens=np.array([2, 3]))
    assert np.all(out[0, :, 2:] == 0) and np.all(out[1, :, 3:] == 0) and np.allclose(out.sum(axis=2), 1)
    out = check_softmax(softmax, lens=np.array([[1, 3], [2, 4]]))
    assert [int((row > 0).sum()) for row in out.reshape(4, 4)] == [1, 3, 2, 4]


@pytest.mark.parametrize("shape, lens", [((4, 6), (4,)), ((2, 3, 4, 6), (2,)), ((2, 3, 4, 6), (2, 4)),
                                         ((2, 2, 3, 4, 6), (2, 2)), ((2, 2, 3, 4, 6), (2, 2, 4))])
def test_masked_softmax_of_other_ranks(softmax, shape, lens):
    rng = np.random.default_rng(2)
    softmax.save(s=rng.standard_normal(shape, np.float32))
    for fill in ("zero", "seed"):
        check_softmax(softmax, lens=rng.integers(0, 7, lens), fill=fill)


def test_row_without_keys(softmax):
    lens = np.array([0, 5])
    assert np.all(check_softmax(softmax, lens=lens)[0] == 0)
    assert np.allclose(check_softmax(softmax, lens=lens, fill="seed")[0], 0.2, rtol=1e-6)


@pytest.mark.parametrize("shape", [(0, 3, 5), (2, 0, 5), (2, 3, 0), (0, 0)])
def test_softmax_of_nothing(softmax, shape):
    softmax.save(s=np.ones(shape, np.float32))
    assert softmax.succeeds().shape == shape


@pytest.mark.parametrize("shape", [(8,), (3, 8), (2, 3, 8), (2, 2, 3, 8), (2, 1, 2, 3, 8), (0, 8)])
@pytest.mark.parametrize("bias", ["b.npy", None])
def test_linear(linear, shape, bias):
    x = np.random.default_rng(3).standard_normal(shape, np.float32)
    linear.save(x=x)
    got = linear.succeeds(bias=bias)
    assert got.shape == (*shape[:-1], 5)
    check("out", got, lambda dtype, order: linear_numpy(x, linear.load("w"), linear.load("b") if bias else None, dtype, order))


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
def test_linear_packed(linear, dtype):
    assert np.array_equal(linear.succeeds("--dtype", dtype), linear.succeeds("--dtype", dtype, "--packed"))
    linear.fails("--variant", "--variant", "linear_f32_generic_root", "--packed", says="linear_packed")


def test_linear_converts(linear):
    x, w, b = (linear.load(n) for n in "xwb")
    linear.save(w=w.astype(np.float64))
    check("out", linear.succeeds("--dtype", "f64"), lambda dtype, order: linear_numpy(x, w, b, dtype, order), np.float64)
    linear.fails("--weight", says="--dtype")


@pytest.mark.parametrize("outer", [(), (2,), (2, 3), (2, 2, 3), (0,)])
@pytest.mark.parametrize("inner", [4, 0])
def test_batch_dot(batch_dot, outer, inner):
    rng = np.random.default_rng(4)
    a, x = rng.standard_normal((*outer, 3, inner), np.float32), rng.standard_normal((*outer, inner, 5), np.float32)
    batch_dot.save(a=a, x=x)
    got = batch_dot.succeeds()
    assert got.shape == (*outer, 3, 5)
    check("out", got, lambda dtype, order: batch_dot_numpy(a, x, dtype, order))


def test_batch_dot_example_of_the_notebook(batch_dot):
    # 001: ones (2, 1, 3) and ones (2, 3, 2) give all 3.
    batch_dot.save(a=np.ones((2, 1, 3), np.float32), x=np.ones((2, 3, 2), np.float32))
    assert np.array_equal(batch_dot.succeeds(), np.full((2, 1, 2), 3, np.float32))


@pytest.mark.parametrize("command", ["softmax", "linear", "batch_dot", "additive", "mha"])
def test_threads_give_equal_bits(request, command):
    problem = request.getfixturevalue(command)
    expected = problem.succeeds("--threads", "1")
    assert np.array_equal(problem.succeeds("--threads", "3"), expected)
