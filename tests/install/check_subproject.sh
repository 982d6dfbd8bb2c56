#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Configures the library alone, without the packages of its other parts; then builds a C++17 project that has the sources as a
# part of it, with one op of one type.
# usage: check_subproject.sh SOURCE_DIR CMAKE HALIDE_DIR WORK_DIR, which is left for check_shared.sh
set -euo pipefail
source=$1 cmake=$2 halide=$3 work=$4
rm -rf "$work"
mkdir -p "$work"
cp -r "$source/tests/install/subproject" "$work/project"
few=(-G "Unix Makefiles" -DHalide_DIR="$halide" -DATTUNE_TARGETS=generic -DATTUNE_ONLY_OPS=masked_softmax
  -DATTUNE_ONLY_DTYPES=f32)
none=()
for package in CLI11 nlohmann_json muparser Catch2 benchmark Python3; do
  none+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON")
done

"$cmake" -S "$source" -B "$work/alone" "${few[@]}" "${none[@]}" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
for words in 'without the program, for want of CLI11 2.1 (Debian: libcli11-dev)' \
  'without the tests, for want of Catch2 2.13 or 3 (Debian: catch2), Python3' \
  'without the benchmarks, for want of benchmark 1.7'; do
  grep -qF "attune: $words" "$work/log" || { echo "a library alone does not say: $words"; cat "$work/log"; exit 1; }
done
if "$cmake" -S "$source" -B "$work/all" "${few[@]}" "${none[@]}" -DATTUNE_BUILD_BENCH=ON >"$work/log" 2>&1 ||
  ! tr -s ' \n' ' ' <"$work/log" |
  grep -qF 'ATTUNE_BUILD_BENCH=ON: not found for the benchmarks: benchmark 1.7 (Debian: libbenchmark-dev)'; then
  echo "a part that is asked for does not say what it needs:"; cat "$work/log"; exit 1
fi

"$cmake" -S "$work/project" -B "$work/build" "${few[@]}" "${none[@]}" -DATTUNE_CHECKOUT="$source" \
  -DCMAKE_CXX_FLAGS_RELEASE=-O0 >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
grep -q '"user_halved": ' "$work/build/attune_generators.json" ||
  { echo "the tuner does not know the project's own attention"; exit 1; }
"$cmake" --build "$work/build" >"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }
"$work/build/app" | tee "$work/out"
if grep -qw avx2 /proc/cpuinfo && ! ATTUNE_VERBOSE=1 "$work/build/app" 2>&1 >"$work/out" |
  grep 'attune: no kernels of this CPU.s target [a-z0-9]* are linked in, those of generic run in their place'; then
  echo "ATTUNE_VERBOSE=1 does not say that this CPU has better targets than generic"; exit 1
fi
printf '\n0.5 0.5 0.5 0.5 0.5 0.5 1.5\nmasked_softmax: no variant for f64 is linked in that this CPU runs\n' | cmp - "$work/out"
