# SPDX-License-Identifier: MIT
"""Token numbers of sentences, as sentence_encoder reads them.

tokens.py TOKENIZER.json TOKENS.txt < SENTENCES    a line for each sentence; prints the tokens as words
"""
import pathlib
import sys


def tokenize(tokenizer_file, sentences):
    """For each sentence its token numbers and its tokens, without padding."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_padding()
    encoded = [tokenizer.encode(s) for s in sentences]
    return [e.ids for e in encoded], [e.tokens for e in encoded]


def write(path, ids):
    pathlib.Path(path).write_text("".join(" ".join(map(str, row)) + "\n" for row in ids))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    ids, words = tokenize(sys.argv[1], sys.stdin.read().splitlines())
    write(sys.argv[2], ids)
    for n, own in enumerate(words, 1):
        print(f"  sentence {n}: {len(own)} tokens: {' '.join(own)}")
