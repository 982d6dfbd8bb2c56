#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs a build into an empty prefix, and builds a project there that makes variants of a record of its own: they are what
# runs, wherever they are linked. And the project from which the tuner of an installed package takes its programs: of installed
# objects, or of installed sources where the compiler is another.
# usage: check_tuned.sh BUILD_DIR SOURCE_DIR CMAKE HALIDE_DIR
set -euo pipefail
build=$1 source=$2 cmake=$3 halide=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$cmake" --install "$build" --prefix "$work/prefix" >"$work/install.log"
cp -r "$source/tests/install/tuned" "$work/project"
target=$("$work/prefix/bin/attune" variants --json | grep -o 'masked_softmax_f32_[a-z0-9]*_rows' | sed -n 1p | cut -d_ -f4)
mkdir -p "$work/project/my-schedules/masked_softmax" "$work/project/my-schedules/recency"
echo '{}' >"$work/project/my-schedules/recency/$target.json"  # of a user's attention, whose library is made otherwise
cat >"$work/project/my-schedules/masked_softmax/$target.json" <<JSON
{"schema": 1, "op": "masked_softmax", "target": "$target", "records": [
  {"dtype": "f32", "head_dim": 0, "schedule": "rows", "class": "", "parameters": {"task_rows": 8, "block": 64},
   "provenance": {"how": "tuned"}}]}
JSON
"$cmake" -S "$work/project" -B "$work/build" -G "Unix Makefiles" -DCMAKE_PREFIX_PATH="$work/prefix" -DHalide_DIR="$halide" \
  >"$work/configure.log" 2>&1 || { cat "$work/configure.log"; exit 1; }
grep 'left out: .*recency' "$work/configure.log" || { echo "what is left out is not said"; cat "$work/configure.log"; exit 1; }
"$cmake" --build "$work/build" >"$work/build.log" 2>&1 || { tail -n 40 "$work/build.log"; exit 1; }
for app in "$work/build/app" "$work/build/library/app_of_library"; do
  "$app" | tee "$work/out"
  echo "masked_softmax_f32_${target}_rows block=64 task_rows=8 1" | cmp - "$work/out"
  if ldd "$app" | grep -iE 'halide|python'; then echo "the program needs Halide or Python at run time"; exit 1; fi
done

sed -i 's/"task_rows": 8/"task_rows": 9/' "$work/project/my-schedules/masked_softmax/$target.json"
if "$cmake" -S "$work/project" -B "$work/build" >"$work/refused.log" 2>&1 ||
  ! grep -q "$target.json: record 0: task_rows 9 is none of 2, 4, 8" "$work/refused.log"; then
  echo "a parameter that is in no space was not refused:"; cat "$work/refused.log"; exit 1
fi

tune=$work/prefix/share/attune/cmake/tune
"$cmake" -S "$tune" -B "$work/tune" -G "Unix Makefiles" -DHalide_DIR="$halide" >"$work/tune.log" 2>&1 ||
  { cat "$work/tune.log"; exit 1; }
sed -i '/PARTS_COMPILER/s/"\(.*\)"/"\1.1"/' "$work/prefix/share/attune/cmake/attune_installed_parts.cmake"
"$cmake" -S "$tune" -B "$work/compiled" -G "Unix Makefiles" -DHalide_DIR="$halide" >"$work/tune.log" 2>&1 ||
  { cat "$work/tune.log"; exit 1; }
for part in lowering sdpa_generator sdpa_backward_generator linear_stages; do
  if [ -d "$work/tune/CMakeFiles/attune_$part.dir" ] || [ ! -d "$work/compiled/CMakeFiles/attune_$part.dir" ]; then
    echo "$part is compiled anew though it is installed, or is not though the compiler is another"; exit 1
  fi
done
for op in sdpa sdpa_backward additive linear; do
  grep -q "\"$op\": {\"program\": " "$work/tune/attune_generators.json" || { echo "the tuner's project has no $op"; exit 1; }
done
if "$cmake" -S "$tune" -B "$work/without" -G "Unix Makefiles" -DCMAKE_DISABLE_FIND_PACKAGE_Halide=ON >"$work/tune.log" 2>&1 ||
  ! grep -q 'making kernels needs Halide 21.0.0' "$work/tune.log"; then
  echo "without Halide, the tuner's project does not say what it needs:"; cat "$work/tune.log"; exit 1
fi
