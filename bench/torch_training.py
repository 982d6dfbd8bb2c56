# SPDX-License-Identifier: MIT
"""Training steps of a 6-layer transformer with PyTorch's attention and with attune.torch's, in turns, on the same weights and
data: an encoder whose sequences are padded, and a causal decoder. Called by scripts/bench_torch.

usage: torch_training.py [--rounds N] [--threads N] [--dropout P]
"""
import argparse
import os
import statistics
import time

import torch
import torch.nn.functional as F

import attune.torch

BATCH, LENGTH, WIDTH, HEADS, LAYERS, FACTOR = 8, 512, 512, 8, 6, 4


class Layer(torch.nn.Module):
    """Attention and MLP, each behind a layer norm, added to their input."""

    def __init__(self, dropout):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, FACTOR * WIDTH), torch.nn.Linear(FACTOR * WIDTH, WIDTH)
        self.dropout = dropout

    def forward(self, x, mask):
        query, key, value = self.qkv(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, mask, self.dropout, is_causal=mask is None)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Trained:
    """A model, its optimiser and its data: step() is one step of training."""

    def __init__(self, padded, dropout):
        torch.manual_seed(1)
        self.layers = torch.nn.ModuleList(Layer(dropout) for _ in range(LAYERS))
        self.optimiser = torch.optim.AdamW(self.layers.parameters(), lr=1e-4, fused=True)
        self.x, self.target = torch.randn(2, BATCH, LENGTH, WIDTH)
        lengths = torch.linspace(LENGTH // 2, LENGTH, BATCH).int()
        self.mask = (torch.arange(LENGTH) < lengths[:, None])[:, None, None] if padded else None

    def step(self):
        x = self.x
        for layer in self.layers:
            x = layer(x, self.mask)
        loss = F.mse_loss(x, self.target)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        return loss.item()


def seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def attention_alone(trained, dropout):
    """Forward and backward of one layer's attention."""
    query, key, value = torch.randn(3, BATCH, HEADS, LENGTH, WIDTH // HEADS).requires_grad_().unbind()
    out = F.scaled_dot_product_attention(query, key, value, trained.mask, dropout, is_causal=trained.mask is None)
    torch.autograd.grad(out, (query, key, value), torch.ones_like(out))


def with_attune(call):
    with attune.torch.enable():
        return call()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--dropout", type=float, nargs="*", default=[0.1, 0.0])
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print(f"PyTorch {torch.__version__}, {given.threads} threads, {given.rounds} rounds; seconds: median (least to most)")
    print("| model, dropout | call | PyTorch | Attune | PyTorch's time over ours |\n|---|---|---|---|---|")
    for dropout in given.dropout:
        for name, padded in (("encoder, padded", True), ("decoder, causal", False)):
            plain, ours = Trained(padded, dropout), Trained(padded, dropout)
            for what, pair in (("step", (plain.step, lambda: with_attune(ours.step))),
                               ("attention", (lambda: attention_alone(plain, dropout),
                                              lambda: with_attune(lambda: attention_alone(ours, dropout))))):
                times = [[seconds(call) for call in pair] for _ in range(given.rounds + 1)][1:]
                cells = [f"{statistics.median(t):.4f} ({min(t):.4f} to {max(t):.4f})" for t in zip(*times)]
                ratio = statistics.median(t[0] / t[1] for t in times)
                print(f"| {name}, {dropout} | {what} | {' | '.join(cells)} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
