# SPDX-License-Identifier: MIT
"""Tokens a second of examples/language_model beside transformers on the same weights, in turns: prompts, and the tokens after
them. Called by scripts/bench_model.

usage: language_model.py [--rounds N] [--prompts N[,N...]] [--types f32,bf16] [--threads N]
"""
import argparse
import os
import pathlib
import random
import statistics
import subprocess
import time

import torch
import transformers

FOLDER, GGUF = (pathlib.Path(os.environ[name]) for name in ("ATTUNE_MODEL_FOLDER", "ATTUNE_MODEL_GGUF"))
ANSWER = 32  # timed tokens of an answer


def prompt_of(count):
    choose = random.Random(count)
    return [choose.randrange(1000, 40000) for _ in range(count)]


class Attune:
    def __init__(self, kind, threads, cache):
        self.command = [os.environ["ATTUNE_LANGUAGE_MODEL"], FOLDER / f"{kind}.safetensors", "--threads", str(threads),
                        "--cache", cache]

    def rates(self, tokens):
        line = f"a max={ANSWER + 1} : {' '.join(map(str, tokens))}\n"
        out = subprocess.run(self.command, input=line, text=True, capture_output=True, check=True).stdout
        done = dict(word.split("=") for word in out.splitlines()[-1].split() if "=" in word)
        return len(tokens) / float(done["prompt_seconds"]), (int(done["answer"]) - 1) / float(done["answer_seconds"])


class Transformers:
    def __init__(self, kind, attention):
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            GGUF.parent, gguf_file=GGUF.name, dtype={"f32": torch.float32, "bf16": torch.bfloat16}[kind],
            attn_implementation=attention).eval()

    def rates(self, tokens):
        with torch.no_grad():
            begin = time.perf_counter()
            out = self.model(torch.tensor([tokens]), use_cache=True, logits_to_keep=1)
            read = time.perf_counter()
            for _ in range(ANSWER):
                out = self.model(out.logits[:, -1:].argmax(-1), past_key_values=out.past_key_values, use_cache=True)
            end = time.perf_counter()
        return len(tokens) / (read - begin), ANSWER / (end - read)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompts", default="512,2048,4096")
    parser.add_argument("--types", default="f32,bf16")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print(f"transformers {transformers.__version__}, PyTorch {torch.__version__}, {given.threads} threads, "
          f"{given.rounds} rounds; tokens a second: median (least to most)")
    print("| type, prompt | engine | prompt | answer |\n|---|---|---|---|")
    for kind in given.types.split(","):
        engines = {f"Attune, cache {cache}": Attune(kind, given.threads, cache) for cache in (kind, "int8", "int4")}
        engines |= {f"transformers, {attention}": Transformers(kind, attention) for attention in ("sdpa", "eager")}
        for count in map(int, given.prompts.split(",")):
            rates = {name: [] for name in engines}
            for _ in range(given.rounds):
                for name, engine in engines.items():
                    rates[name].append(engine.rates(prompt_of(count)))
            for name, all_rates in rates.items():
                cells = [f"{statistics.median(r):.0f} ({min(r):.0f} to {max(r):.0f})" for r in zip(*all_rates)]
                print(f"| {kind}, {count} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
