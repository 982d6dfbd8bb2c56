# SPDX-License-Identifier: MIT
"""A view that cannot be is one error of the compiler, in the words of the library.

usage: check_wrong_usage.py SOURCE_DIR COMPILER
"""

import subprocess
import sys

source, compiler = sys.argv[1:]
ELEMENTS = ("attune: elements are float, double, bfloat16, float16, bool, std::int8_t, std::uint8_t, "
            "std::int32_t or std::int64_t")
MEMORY = "attune: elements are a pointer, an array, or have data() and size() as std::vector has"
CONST = "attune: an output is written, its elements cannot be const"
CASES = [(f"attune::{view} v(static_cast<{element} *>(nullptr), {extents});", message)
         for view, element, extents, message in (
             ("View", "std::uint64_t", "{2, 3}", ELEMENTS), ("ConstView", "const std::uint64_t", "{2, 3}", ELEMENTS),
             ("ConstView", "char", "{2}", ELEMENTS), ("View", "long double", "{2, 2}, {4, 1}", ELEMENTS),
             ("ConstView", "std::uint16_t", "{2, 2}, {2, 1}", ELEMENTS), ("View", "void", "{8}", ELEMENTS),
             ("View", "const float", "{2}", CONST), ("View", "const attune::bfloat16", "{2, 2}, {2, 1}", CONST))]
CASES += [("const std::vector<float> f(6); attune::View v(f, {2, 3});", CONST),
          ("std::vector<std::uint64_t> f(6); attune::ConstView v(f, {2, 3});", ELEMENTS),
          ("std::vector<bool> f(6); attune::ConstView v(f, {2, 3});", MEMORY),
          ("attune::ConstView v(nullptr, {2, 3}, {3, 1});", MEMORY),
          ("const std::vector<float> f(6); attune::View v = f;", "")]
RIGHT = ["attune::View v(static_cast<float *>(nullptr), {2, 3}); attune::ConstView w = v;",
         "attune::ConstView v(static_cast<const bool *>(nullptr), {2, 3}, {0, 1}); "
         "attune::ConstView w(static_cast<double *>(nullptr), {2});"]
failures = []
for code, message in CASES + [(code, None) for code in RIGHT]:
    done = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-x", "c++", f"-I{source}/runtime/include", "-"],
                          input=f"#include <attune/tensor.h>\n#include <vector>\n{code}\n", stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8")
    errors = [line for line in done.stdout.splitlines() if "error: " in line]
    if len(errors) != (message is not None) or (message and message not in errors[0]):
        failures.append(f"{code}\nexpected {message}, the compiler says\n{done.stdout}")
print("\n".join(failures) or f"{len(CASES)} wrong usages are told")
sys.exit(bool(failures))
