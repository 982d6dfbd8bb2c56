# SPDX-License-Identifier: MIT
"""Text around the language model: chat_dialogue.py PROGRAM ATTUNE MODEL_FOLDER [options] ["question"]. See scripts/chat.

The program takes and gives tokens; this script turns text into tokens and back, and draws attention weights.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from tokenizers import Tokenizer

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"  # the model's own, of its chat template


def message(role, text):
    return f"<|im_start|>{role}\n{text}<|im_end|>\n"


def options():
    parser = argparse.ArgumentParser(prog="chat", add_help=False, allow_abbrev=False)
    parser.add_argument("question", nargs="?")
    parser.add_argument("--type", choices=["f32", "bf16"], default="bf16")
    parser.add_argument("--cache", choices=["f32", "bf16", "int8", "int4"])
    parser.add_argument("--most", type=int, default=256)
    parser.add_argument("--temperature", type=float, default=0)
    parser.add_argument("--top-p", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--window", type=int)
    parser.add_argument("--invariant", action="store_true")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--heatmap", nargs=2, metavar=("LAYER.HEAD[,...]", "FILE.svg"))
    given = parser.parse_args(sys.argv[4:])
    if given.heatmap:
        try:
            given.heads = [tuple(map(int, head.split("."))) for head in given.heatmap[0].split(",")]
            assert all(len(head) == 2 for head in given.heads)
        except (AssertionError, ValueError):
            parser.error(f"--heatmap: expected LAYER.HEAD[,LAYER.HEAD...], got {given.heatmap[0]}")
    return given


class Chat:
    def __init__(self, program, folder, given):
        self.given, self.tokenizer = given, Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.command = [program, str(folder / f"{given.type}.safetensors")]
        for name in ("cache", "window", "threads"):
            if getattr(given, name) is not None:
                self.command += [f"--{name}", str(getattr(given, name))]
        self.command += ["--invariant"] * given.invariant
        self.program = subprocess.Popen([*self.command, "--variants"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.tokens = self.encode(message("system", SYSTEM))
        self.calls = {}
        self.expect_line()  # "ready"

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def expect_line(self):
        line = self.program.stdout.readline().split()
        if not line:  # its own message is on standard error
            sys.exit(self.program.wait() or 1)
        return line

    def ask(self, question):
        """Prints the answer as it comes, and a line about it. Tokens of the dialogue stay as they are, so that the program
        finds their keys and values in its cache."""
        stop = self.tokenizer.token_to_id("<|im_end|>")
        self.tokens += self.encode(message("user", question) + "<|im_start|>assistant\n")
        g = self.given
        self.program.stdin.write(
            f"chat max={g.most} temperature={g.temperature} top_p={g.top_p} seed={g.seed} stop={stop} : "
            f"{' '.join(map(str, self.tokens))}\n"
        )
        self.program.stdin.flush()
        answer, shown, calls = [], 0, {}
        while True:
            _, kind, *rest = self.expect_line()
            if kind == "refused:":
                sys.exit(f"chat: {' '.join(rest)}")
            if kind == "ran":
                calls[rest[0], rest[1]] = int(rest[2])
            if kind == "done":
                break
            if kind == "token":
                answer.append(int(rest[0]))
                text = self.tokenizer.decode(answer)
                if not text.endswith("\ufffd"):  # not in the middle of a character
                    print(text[shown:], end="", flush=True)
                    shown = len(text)
        print(self.tokenizer.decode(answer)[shown:])
        asked = len(self.tokens)
        self.tokens += answer + ([] if answer[-1] == stop else [stop]) + self.encode("\n")
        numbers = dict(word.split("=") for word in rest)
        self.print_statistics({name: float(value) for name, value in numbers.items()}, calls)
        return asked, len(answer)

    def print_statistics(self, n, calls):
        new = {call: count - self.calls.get(call, 0) for call, count in calls.items()}
        self.calls = calls
        most = lambda function: max((count, call[1]) for call, count in new.items() if call[0] == function)[1]
        parts = [f"prompt {n['prompt']:.0f} tokens" + (f", {n['shared']:.0f} of them in the cache" if n["shared"] else ""),
                 f"{(n['prompt'] - n['shared']) / n['prompt_seconds']:.0f}/s"]
        if n["answer"] > 1:
            parts.append(f"answer {n['answer']:.0f} tokens, {(n['answer'] - 1) / n['answer_seconds']:.1f}/s")
        parts.append(f"cache {n['cache_bytes'] / 1e6:.1f} MB")
        parts.append(f"most calls: {most('paged_attention')}, {most('linear')}")
        print(f"[{' | '.join(parts)}]", file=sys.stderr)

    def close(self):
        self.program.stdin.close()
        self.program.wait()


def word_of(tokenizer, token):
    """A label: a token on one line."""
    text = tokenizer.decode([token], skip_special_tokens=False)
    return text.replace("\n", "\u23ce").strip() or "\u2423"


def draw(chat, attune, asked, answered):
    """A picture with a panel for each head, and the words that each word of the answer looked at."""
    given, tokens = chat.given, chat.tokens[: asked + answered]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        queries, keys = [], []
        for layer, head in given.heads:
            subprocess.run([*chat.command, "--queries-keys", str(layer), f"{folder}/"], input=" ".join(map(str, tokens)),
                           text=True, check=True)
            query, key = np.load(folder / "query.npy"), np.load(folder / "key.npy")
            if not 0 <= head < query.shape[1]:
                sys.exit(f"chat: heads are 0 to {query.shape[1] - 1}, got {head}")
            queries.append(query[:, head])
            keys.append(key[:, head * key.shape[1] // query.shape[1]])
        np.save(folder / "q.npy", np.stack(queries, 1))
        np.save(folder / "k.npy", np.stack(keys, 1))
        words = [word_of(chat.tokenizer, token) for token in tokens]
        (folder / "words.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
        window = ["--window", f"{given.window - 1},-1"] if given.window else []
        subprocess.run(
            [attune, "run", "sdpa", "--query", folder / "q.npy", "--key", folder / "k.npy", "--value", folder / "k.npy",
             "--out", folder / "o.npy", "--causal", "top-left", *window, "--weights", folder / "w.npy",
             "--heatmap", given.heatmap[1], "--labels-query", folder / "words.txt", "--labels-key", folder / "words.txt"],
            check=True)  # fmt: skip
        weights = np.load(folder / "w.npy")[0]
    print(f"\n{given.heatmap[1]}: a panel for each head")
    print("new word, and the words that each head looked at when it was chosen (the first word of all left out)")
    names = given.heatmap[0].split(",")
    print(f"  {'':14}" + "".join(f"{name:28}" for name in names))
    for n in range(asked, len(tokens)):  # chosen at the position before
        looked = []
        for rows in weights:
            row = rows[n - 1, 1:n]
            most = [f"{words[at + 1]} {row[at]:.2f}" for at in np.argsort(-row, kind="stable")[:2] if row[at] >= 0.02]
            looked.append(", ".join(most))
        print((f"  {words[n]:14}" + "".join(f"{text:28}" for text in looked)).rstrip())


def main():
    program, attune, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    given = options()
    chat = Chat(program, folder, given)
    if given.question is not None:
        sizes = chat.ask(given.question)
    else:
        sizes = None
        while True:
            try:
                question = input("> ")
            except EOFError:
                break
            if not question.strip():
                break
            sizes = chat.ask(question)
    chat.close()
    if given.heatmap and sizes:
        draw(chat, attune, *sizes)


if __name__ == "__main__":
    main()
