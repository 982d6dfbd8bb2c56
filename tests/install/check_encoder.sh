#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the sentence encoder of the examples against an installed prefix, as a user would, and checks it there.
# usage: check_encoder.sh PREFIX SOURCE_DIR CMAKE PYTHON
set -euo pipefail
prefix=$1 source=$2 cmake=$3 python=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$source/examples/sentence_encoder" "$work/encoder"
"$cmake" -S "$work/encoder" -B "$work/build" -G "Unix Makefiles" -DCMAKE_PREFIX_PATH="$prefix" >"$work/configure.log" 2>&1 ||
  { cat "$work/configure.log"; exit 1; }
"$cmake" --build "$work/build" >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
PYTHONDONTWRITEBYTECODE=1 "$python" "$work/encoder/check.py" "$work/build/sentence_encoder"
# Forward passes alone: no kernel of a gradient is linked.
nm "$work/build/sentence_encoder" >"$work/symbols"
grep -q ' linear_packed_f32_' "$work/symbols" || { echo "the encoder has no kernels of linear layers"; exit 1; }
if grep -E '_(backward|gradient)_.*_argv$' "$work/symbols"; then echo "the encoder has kernels of gradients"; exit 1; fi
