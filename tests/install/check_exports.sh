#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The exported C++ names of a shared library are those that its headers mark, and its C functions those that they declare.
# usage: check_exports.sh LIBRARY INCLUDE_DIR
set -euo pipefail
library=$1 headers=$2/attune
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
sed -nE 's/^ATTUNE_API .*\b(attune_\w+)\(.*/\1/p' "$headers/attune_c.h" | sort >"$work/of_c"
if comm -23 "$work/of_c" <(sort "$work/exported") | grep .; then echo "these functions of C are not exported"; exit 1; fi
