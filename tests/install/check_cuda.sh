#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the library with CUDA and the kernels of one small op, installs it, and builds a project of its own that writes an
# attention for both devices; says how long the project took.
# usage: check_cuda.sh SOURCE_DIR CMAKE HALIDE_DIR
set -euo pipefail
source=$1 cmake=$2 halide=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run() { "$@" >"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }; }
off=(-DATTUNE_BUILD_PROGRAM=OFF -DATTUNE_BUILD_TESTS=OFF -DATTUNE_BUILD_BENCH=OFF -DATTUNE_BUILD_EXAMPLES=OFF)
run "$cmake" -S "$source" -B "$work/attune" -G "Unix Makefiles" -DHalide_DIR="$halide" -DATTUNE_CUDA=ON "${off[@]}" \
  -DATTUNE_ONLY_OPS=masked_softmax -DATTUNE_ONLY_DTYPES=f32 -DCMAKE_CXX_FLAGS_RELEASE=-O0
run "$cmake" --build "$work/attune"
run "$cmake" --install "$work/attune" --prefix "$work/prefix"
cp -r "$source/tests/install/cuda" "$work/project"
cp "$source/tests/install/author/score.h" "$work/project"
begin=$SECONDS
run "$cmake" -S "$work/project" -B "$work/build" -G "Unix Makefiles" -DCMAKE_PREFIX_PATH="$work/prefix" -DHalide_DIR="$halide" \
  -DCMAKE_BUILD_TYPE=Release
run "$cmake" --build "$work/build"
echo "$((SECONDS - begin)) s to build the attention for both devices"
times
for variant in f32_d64_cuda80_simt f32_d64_cuda80_split backward_f32_d64_cuda80_simt captures_f32_dany_cuda80_simt_dim256; do
  ls "$work"/build/recency.device_kernels/*"$variant".o >"$work/log"
done
if ldd "$work/build/both" | grep -iE 'halide|cuda'; then echo "the program needs Halide or CUDA to start"; exit 1; fi
"$work/build/both" | tee "$work/out"
if grep -q '^device: query: is on a device, but' "$work/out"; then
  printf '%s\n' 'CPU: 0.5' 'kernels for the CPU: yes, for CUDA: yes' >"$work/expected"
  head -n 2 "$work/out" | cmp - "$work/expected"
else
  echo "SKIPPED: this machine has a driver, whose answer is not checked here"
fi

# An attune without CUDA says so.
sed 's/set(ATTUNE_CUDA ON)/set(ATTUNE_CUDA OFF)/' -i "$work"/prefix/lib*/cmake/attune/attuneConfig.cmake
if "$cmake" -S "$work/project" -B "$work/refused" -G "Unix Makefiles" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DHalide_DIR="$halide" >"$work/log" 2>&1 || ! tr -s ' \n' ' ' <"$work/log" |
  grep -qF 'CUDA: this attune was built without kernels for CUDA'; then
  echo "CUDA is not refused where attune has none:"; cat "$work/log"; exit 1
fi
