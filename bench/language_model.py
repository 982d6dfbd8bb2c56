# SPDX-License-Identifier: MIT
"""Tokens a second of examples/language_model beside transformers and, where llama-cpp-python is installed, llama.cpp on the
same weights, in turns: prompts, and the tokens after them. Called by scripts/bench_model.

usage: language_model.py [--rounds N] [--prompts N[,N...]] [--types f32,bf16] [--threads N]
"""
import argparse
import importlib.util
import os
import pathlib
import random
import statistics
import subprocess
import time

import numpy as np
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


class Llama:
    """llama.cpp with flash attention. Its weights are those of the model as f16 or bf16; Q8_0, of half the size, is shown as
    information."""

    KINDS = {"f16": (1, 1), "q8_0": (7, 8), "bf16": (32, 30)}  # llama_ftype, and the ggml_type of its tensors

    def __init__(self, kind, threads, rows):
        import llama_cpp

        self.library, file = llama_cpp, FOLDER / f"llama-{kind}.gguf"
        if not file.exists():
            parameters = llama_cpp.llama_model_quantize_default_params()
            parameters.allow_requantize = True
            parameters.ftype, parameters.token_embedding_type = self.KINDS[kind]
            parameters.output_tensor_type = parameters.token_embedding_type
            if llama_cpp.llama_model_quantize(str(GGUF).encode(), str(file).encode(), parameters):
                raise RuntimeError(f"llama.cpp cannot write {file}")
        self.model = llama_cpp.Llama(str(file), n_ctx=rows, n_batch=512, n_threads=threads, n_threads_batch=threads,
                                     flash_attn=True, verbose=False)

    def next_token(self):
        count = self.model.n_vocab()
        logits = self.library.llama_get_logits_ith(self.model.ctx, -1)
        return int(np.ctypeslib.as_array(logits, (count,)).argmax())

    def rates(self, tokens):
        self.model.reset()
        begin = time.perf_counter()
        self.model.eval(tokens)
        token = self.next_token()
        read = time.perf_counter()
        for _ in range(ANSWER):
            self.model.eval([token])
            token = self.next_token()
        return len(tokens) / (read - begin), ANSWER / (time.perf_counter() - read)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompts", default="512,2048,4096")
    parser.add_argument("--types", default="f32,bf16")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    given = parser.parse_args()
    prompts = [int(n) for n in given.prompts.split(",")]
    torch.set_num_threads(given.threads)
    print(f"transformers {transformers.__version__}, PyTorch {torch.__version__}, {given.threads} threads, "
          f"{given.rounds} rounds; tokens a second: median (least to most)")
    print("| type, prompt | engine | prompt | answer |\n|---|---|---|---|")
    for kind in given.types.split(","):
        engines = {f"Attune, cache {cache}": Attune(kind, given.threads, cache) for cache in (kind, "int8", "int4")}
        engines |= {f"transformers, {attention}": Transformers(kind, attention) for attention in ("sdpa", "eager")}
        if importlib.util.find_spec("llama_cpp"):
            names = {"f32": ("f16",), "bf16": ("bf16", "q8_0")}[kind]
            engines |= {f"llama.cpp, {name}": Llama(name, given.threads, max(prompts) + ANSWER + 8) for name in names}
        else:
            print("missing: llama.cpp (package llama-cpp-python)", flush=True)
        for count in prompts:
            rates = {name: [] for name in engines}
            for _ in range(given.rounds):
                for name, engine in engines.items():
                    rates[name].append(engine.rates(prompt_of(count)))
            for name, all_rates in rates.items():
                cells = [f"{statistics.median(r):.0f} ({min(r):.0f} to {max(r):.0f})" for r in zip(*all_rates)]
                print(f"| {kind}, {count} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
