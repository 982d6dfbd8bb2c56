# SPDX-License-Identifier: MIT
"""The program of examples/language_model, as tests call it."""
import os
import subprocess

import numpy as np

PROGRAM = os.environ.get("ATTUNE_LANGUAGE_MODEL")


def call(model, *options, text="", fails=False):
    """Standard output, or, where the call must fail, its line on standard error."""
    done = subprocess.run([PROGRAM, str(model), *map(str, options)], input=text, text=True, capture_output=True)
    if fails:
        assert done.returncode == 1 and done.stderr.count("\n") == 1, done
        return done.stderr
    assert done.returncode == 0, done.stderr
    return done.stdout


def words(tokens):
    return " ".join(map(str, tokens))


def logits(model, tokens, folder, *options):
    call(model, "--logits", folder / "logits.npy", *options, text=words(tokens))
    return np.load(folder / "logits.npy")


def perplexity(model, tokens, *options):
    predicted, value = call(model, "--perplexity", *options, text=words(tokens)).split()
    assert int(predicted) == len(tokens) - 1
    return float(value)


class Answer:
    def __init__(self):
        self.tokens, self.logits, self.done = [], [], None


def answers(model, prompts, *options, request="max=128"):
    """An Answer to each prompt, all submitted at once: tokens, logits in hexadecimal, the numbers of the last line."""
    lines = [f"{name} {request} : {words(prompt)}" for name, prompt in enumerate(prompts)]
    out = [Answer() for _ in prompts]
    first, *rest = call(model, *options, text="\n".join(lines)).splitlines()
    assert first == "ready"
    for line in rest:
        name, kind, *what = line.split()
        answer = out[int(name)]
        if kind == "token":
            answer.tokens.append(int(what[0]))
            answer.logits.append(what[1])
        else:
            assert kind == "done", line
            answer.done = {key: float(value) for key, value in (word.split("=") for word in what)}
    assert all(answer.done and answer.done["answer"] == len(answer.tokens) for answer in out)
    return out
