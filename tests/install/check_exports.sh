#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A shared library exports the C++ names that its headers mark and the C functions that attune_c.h declares, and no
# others; each name has the version node of its language.
# usage: check_exports.sh LIBRARY INCLUDE_DIR
set -euo pipefail
library=$(realpath "$1") headers=$(realpath "$2")/attune
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Functions of the headers, members of classes, and C names of the runtime.
nm -D --defined-only "$library" | sed 's/.* //; s/@.*//' | grep -v '^ATTUNE_' | c++filt >"$work/exported"
if grep -viE '^attune(::|_)' "$work/exported" || grep -iE 'halide|_argv' "$work/exported"; then
  echo "these are exported and are no part of the API"; exit 1
fi
grep -rhoE 'ATTUNE_API .*' "$headers" --include=*.h --exclude=api.h --exclude=attune_c.h |
  sed -E 's/ATTUNE_API //; s/\(.*//; s/ \{.*//; s/.*[ *&]//' | sort -u >"$work/marked"
grep '^attune::' "$work/exported" | sed -E 's/\(.*//; s/\[abi:.*//; s/^attune::(detail::)?//; s/::.*//' | sort -u >"$work/names"
diff "$work/marked" "$work/names" || { echo "what the headers mark (<) is not what is exported (>)"; exit 1; }

# Exported names by version node. Functions of C: those of the header, and no others.
cd "$work"
nm -D --defined-only "$library" >versioned
sed -nE 's/.* T (\w+)@@ATTUNE_C$/\1/p' versioned | sort >of_c
sed -nE 's/^ATTUNE_API .*\b(attune_\w+)\(.*/\1/p' "$headers/attune_c.h" | sort >of_header
diff of_header of_c || { echo "what the header declares (<) is not what is exported (>)"; exit 1; }
if grep -vE '(@@(ATTUNE_C|ATTUNE_CXX|ATTUNE_KERNELS)| ATTUNE_(C|CXX|KERNELS))$' versioned; then
  echo "these are exported without a version"; exit 1
fi
if grep '@@ATTUNE_CXX' versioned | grep -vE ' _ZNK?6attune'; then echo "these are no names of the C++ API"; exit 1; fi
if grep '@@ATTUNE_KERNELS' versioned | grep -E '_argv|halide'; then echo "these are kernels"; exit 1; fi
