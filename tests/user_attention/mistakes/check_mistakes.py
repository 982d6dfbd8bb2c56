# SPDX-License-Identifier: MIT
"""A mistake of the author of an attention is one line in our words: by the compiler, by CMake, or by the program that
writes the library's header.

usage: check_mistakes.py SOURCE_DIR CMAKE COMPILER DESCRIBE INCLUDE_OPTION...
"""

import os
import pathlib
import subprocess
import sys
import tempfile

source, cmake, compiler, describe, *includes = sys.argv[1:]
here = pathlib.Path(__file__).parent
failures = []


def run(command, folder=None, **more):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                          env={**os.environ, "LC_ALL": "C", **more})
    return done.returncode, done.stdout


def check(what, code, text, expected, count=1):
    if code != 1 or text.count(expected) != count:
        failures.append(f"{what}: exit code {code}, expected 1 and {count} times\n  {expected}\nin\n{text}")


SIGNATURES = [
    "an attention has a member score, mask or probability (attune/generator/attention.h)",
    "score must be: Halide::Expr score(Halide::Expr x, attune::Index at) const",
    "mask must be: Halide::Expr mask(attune::Index at) const",
    "probability must be: Halide::Expr probability(attune::Index at) const",
    "an attention is constructed without arguments",
]
code, text = run([compiler, "-std=c++20", "-fsyntax-only", *includes, here / "signatures.cpp"])
for words in SIGNATURES:
    check("signatures.cpp", code, text, f"static assertion failed: attune: {words}\n")

STRUCTS = {
    "WrongNumberOfIndices": "capture slopes has rank 1 and is read with 2 indices",
    "MaskIsNumber": "MaskIsNumber::mask must be boolean, is int32",
    "ScoreIsBoolean": "ScoreIsBoolean::score must be a number, is boolean: is it meant to be a mask?",
    "FactorIsBoolean": "FactorIsBoolean::probability must be a number, is boolean: is it meant to be a mask?",
    "ScoreIsConstant": "ScoreIsConstant::score is a constant: it reads neither the score, nor the index, nor a capture",
    "ScoreIsUndefined": "ScoreIsUndefined::score returns an undefined expression",
    "UnknownType": "capture table must be of Float(32), Float(64), Int(32) or Bool()",
    "TwoOfOneName": "two captures are called slopes",
    "NoName": 'the name of capture "two words" is no C++ name',
    "TooManyDimensions": "capture table must have 0 to 4 dimensions",
    "BooleanScalar": "capture on: a scalar must be a number",
    "ElementOfScore": "ElementOfScore::score reads capture table at an element that depends on the score",
    "NoMember": "capture outside is no member of the struct",
}
with tempfile.TemporaryDirectory() as folder:
    for name, words in STRUCTS.items():
        for backward in "01":
            code, text = run([describe, "made", "structs.cpp", backward, "1", folder], MISTAKE=name)
            if (code, text) != (1, f"structs.cpp: attune: {words}\n"):
                failures.append(f"{name}: exit code {code}:\n{text}")

    # Names that C++, the header that is made, or the headers of C have taken; and others that look like them.
    REASONS = {"that is a keyword of C++": "default class and float co_await new xor_eq this",
               "that is a macro": "linux errno INFINITY",
               "so is a member of the options": "sdpa block_mask",
               "the header of the library has that name": "attune std Options Gradients"}
    NAMES = {name: why for why, names in REASONS.items() for name in names.split()}
    for name, why in NAMES.items():
        code, text = run([describe, "made", "structs.cpp", "1", "0", folder], MISTAKE="Named", CAPTURE=name)
        if (code, text) != (1, f"structs.cpp: attune: a capture cannot be called {name}: {why}\n"):
            failures.append(f"capture {name}: exit code {code}:\n{text}")
    code, text = run([describe, "switch", "structs.cpp", "1", "0", folder], MISTAKE="Doubles")
    check("library switch", code, text, "a library cannot be called switch: that is a keyword of C++")
    # The generated header is C++ that compiles. The library's own names of arguments are free.
    for name in "defaults newest class_ query key given options record context forward attentions".split():
        code, text = run([describe, "made", "structs.cpp", "1", "0", folder], MISTAKE="Named", CAPTURE=name)
        for kind in ("symbols", "variants"):
            pathlib.Path(folder, f"made_{kind}.inc").write_text("{}," if kind == "variants" else "")
        if not code:
            code, text = run([compiler, "-std=gnu++20", "-fsyntax-only", f"-I{source}/runtime/include", "made.cpp"], folder)
        if code:
            failures.append(f"capture {name}: exit code {code}:\n{text}")

    # Floats that lose digits where the library has kernels of f64, and there alone.
    FLOATS = {"FloatFactor": "FloatFactor::score has the float 0.1f, which kernels of f64 would take as 0.10000000149011612: "
                             "write 0.1, a double",
              "FloatOfIndex": "FloatOfIndex::mask has the float 0.7f, which kernels of f64 would take as 0.699999988079071: "
                              "write 0.7, a double",
              "FloatInFunction": "FloatInFunction::probability has the float 0.001f, which kernels of f64 would take as "
                                 "0.0010000000474974513: write 0.001, a double"}
    for name, words in [*FLOATS.items(), ("Doubles", None)]:
        for f64 in "01":
            code, text = run([describe, "made", "structs.cpp", "1", f64, folder], MISTAKE=name)
            wrong = words and f64 == "1"
            if (code, text) != ((1, f"structs.cpp: attune: {words}\n") if wrong else (0, "")):
                failures.append(f"{name}, f64 {f64}: exit code {code}:\n{text}")

    # A misspelt argument, and so on, stop CMake before it looks for Halide.
    CALLS = {
        "SOURCE a.h TYPE A DTYPE f64": "what is DTYPE;f64?",
        "TYPE A": "SOURCE is missing",
        "SOURCE a.h": "TYPE is missing",
        "SOURCE a.h TYPE A DTYPES f32 f128": "DTYPES f128: must be of f32, f64, bf16, f16",
        "SOURCE a.h TYPE A KINDS masked": "KINDS masked: must be of plain, scored, training, weights",
        "SOURCE a.h TYPE A SCHEDULES decode flash": "SCHEDULES flash: must be of prefill, decode, split, bf16_dot, amx, root",
        "SOURCE a.h TYPE A HEAD_DIMS 64 wide": "HEAD_DIMS wide: must be any or a number",
        "SOURCE b.h TYPE A": f"there is no {folder}/b.h",
        "SOURCE made.h TYPE A": "made.h is the header that is made; call SOURCE otherwise",
    }
    script = pathlib.Path(folder, "call.cmake")
    for header in ("a.h", "made.h"):
        pathlib.Path(folder, header).touch()


    def add_attention(name, arguments, words):
        script.write_text("".join(f'include("{source}/cmake/attune_add_{file}.cmake")\n' for file in ("op", "attention")) +
                          f"attune_add_attention({name} {arguments})\n")
        code, text = run([cmake, "-P", script], folder)
        check(f"{name} {arguments}", code, " ".join(text.split()), f"attune_add_attention({name}): {words}")

    for arguments, words in CALLS.items():
        add_attention("made", arguments, words)

    # Names of the library, and names that it derives from captures.
    TAKEN = "sdpa cosine gaussian additive_separable sdpa_backward linear merge capture_gradient".split()
    RESERVED = {"user_alibi": "user_", "attune": "attune", "std": "std", "alibi_backward": "_backward",
                "alibi_captures": "_captures", "alibi_mask_blocks": "_mask_blocks"}
    for name in TAKEN:
        add_attention(name, "SOURCE a.h TYPE A", "the name is taken by an op of the library; choose another")
    for name, part in RESERVED.items():
        add_attention(name, "SOURCE a.h TYPE A", f"the name is reserved: {part} is of names that are made")

told = sum(map(len, (SIGNATURES, STRUCTS, NAMES, FLOATS, CALLS, TAKEN, RESERVED)))
print("\n".join(failures) or f"{told} mistakes are told")
sys.exit(bool(failures))
