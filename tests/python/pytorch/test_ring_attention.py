# SPDX-License-Identifier: MIT
"""attune.torch.ring_attention over processes of torch.distributed with gloo: out, lse, gradients have the bits of one process;
a disagreement, a rank that ends and a rank that comes too late are exceptions within the time limit."""
import time

import pytest

torch = pytest.importorskip("torch")
if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
    pytest.skip("this torch has no gloo", allow_module_level=True)
import attune  # noqa: E402
import attune.context_parallel as cp  # noqa: E402
import attune.torch as at  # noqa: E402
import ring_rank  # noqa: E402
from judge import judge, plain_attention  # noqa: E402

ALONE = cp.Communicator(0, 1)


def on_processes(size, folder, what, *arguments, limit=90, ends_alone=()):
    """Results by rank; None for a rank that ended without one."""
    context = torch.multiprocessing.start_processes(ring_rank.rank_of, (size, str(folder), what, *arguments), nprocs=size,
                                                    join=False, start_method="spawn")
    until = time.monotonic() + limit
    for process in context.processes:
        process.join(max(0.0, until - time.monotonic()))
        if process.is_alive():
            for other in context.processes:
                other.kill()
            pytest.fail("a rank hangs")
    return [torch.load(folder / f"{rank}.pt", weights_only=False) if (folder / f"{rank}.pt").exists() else None
            for rank in range(size)]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_processes_have_the_bits_of_one(tmp_path, size):
    results = on_processes(size, tmp_path, "all_cases")
    for name in ring_rank.CASES:
        _, one = ring_rank.run_case(name, ALONE, 1, 0)
        for rank, of_rank in enumerate(results):
            assert isinstance(of_rank, dict), of_rank
            rows, made = of_rank[name]
            for what, tensor in made.items():
                expected = one[what] if one[what].dim() == 1 else one[what][:, :, rows]
                assert torch.equal(tensor, expected), f"{name}, {what}, rank {rank} of {size}"


@pytest.mark.parametrize("name", ["causal", "dropout"])
def test_one_process_has_the_numbers_of_plain_attention(name):
    tensors, _, (grad, _) = ring_rank.tensors_of(name)
    causal = torch.ones(ring_rank.POSITIONS, ring_rank.POSITIONS, dtype=torch.bool).tril()
    kept = None
    if name == "dropout":
        of_dropout = {n: given for n, given in ring_rank.CASES[name].items() if n == "seed" or n.startswith("dropout")}
        shape = (*tensors["query"].shape[:3], ring_rank.POSITIONS)
        kept = torch.from_numpy(attune.dropout_mask(shape, of_dropout.pop("dropout_p"), **of_dropout))
    results = []
    for dtype in (torch.float32, torch.float64):
        inputs = [t.to(dtype).requires_grad_() for t in tensors.values()]
        out = plain_attention(*inputs, mask=causal, factor=None if kept is None else kept.to(dtype) / 0.7)
        results.append([out.detach(), *torch.autograd.grad(out, inputs, grad.to(dtype))])
    _, made = ring_rank.run_case(name, ALONE, 1, 0)
    for name, plain, exact in zip(("out", "query", "key", "value"), *results, strict=True):
        judge(name, made[name], plain, exact)


def test_without_a_plan_ranks_hold_equal_parts(tmp_path):
    tensors, _, _ = ring_rank.tensors_of("causal")
    plan = cp.plan_positions(ring_rank.POSITIONS, 1, "contiguous", ring_rank.POSITIONS // 3, causal="top_left")
    one = at.ring_attention(*tensors.values(), is_causal=True, group=ALONE, plan=plan)
    for rows, made in on_processes(3, tmp_path, "equal_parts"):
        assert torch.equal(made["out"], one[:, :, rows])
    with pytest.raises(ValueError, match="plan: 9973 positions a rank have no divisor"):
        at.ring_attention(*(torch.zeros(1, 1, 9973, 8) for _ in range(3)), group=ALONE)


def test_a_part_of_the_processes(tmp_path):
    results = on_processes(3, tmp_path, "group_of_two")
    assert results[1] == ("ValueError", "group: this process is no rank of it")
    _, one = ring_rank.run_case("causal", ALONE, 1, 0)
    for rank in (0, 2):
        rows, made = results[rank]
        assert all(torch.equal(tensor, one[what][:, :, rows]) for what, tensor in made.items())


@pytest.mark.parametrize("backward", [False, True])
def test_a_disagreement_is_an_error_on_every_rank(tmp_path, backward):
    for kind, words in on_processes(3, tmp_path, "disagreement", backward):
        assert kind == "ValueError" and "ranks disagree" in words, words


@pytest.mark.parametrize("backward", [False, True])
def test_a_rank_that_ends_is_an_error_on_the_others(tmp_path, backward):
    results = on_processes(3, tmp_path, "killed", backward, limit=60)
    assert results[1] is None
    for kind, words in (results[0], results[2]):
        assert kind == "ConnectionError" and words.startswith("communicator: "), words


def test_a_rank_that_comes_too_late(tmp_path):
    results = on_processes(2, tmp_path, "late", limit=60)
    assert results[0][0] == "ConnectionError"
    assert results[1][0] == "ConnectionError", results[1]


def test_what_is_refused():
    q = torch.zeros(1, 2, 16, 8)
    with pytest.raises(ValueError, match="torch.distributed is not initialised"):
        at.ring_attention(q, q, q)
    with pytest.raises(ValueError, match="query: must be .B, Hq, S, Dk., has 3 dimensions"):
        at.ring_attention(q[0], q[0], q[0], group=ALONE)
    with pytest.raises(ValueError, match="^seed: must be given with dropout_p, the same on every rank"):
        at.ring_attention(q, q, q, group=ALONE, dropout_p=0.1)
    x = q.double().requires_grad_()
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad, = torch.autograd.grad(at.ring_attention(x, x, x, group=ALONE).square().sum(), x, create_graph=True)
        grad.sum().backward()
