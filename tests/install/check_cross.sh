#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Cross-builds the consumer project and the quickstart against an installed prefix of another architecture, and runs both by the
# emulator of the toolchain file.
# usage: check_cross.sh PREFIX SOURCE_DIR CMAKE TOOLCHAIN_FILE COMPILER EMULATOR...
set -euo pipefail
prefix=$1 source=$2 cmake=$3 toolchain=$4 compiler=$5
shift 5
command -v "$compiler" >/dev/null || { echo "SKIPPED: there is no $compiler"; exit 77; }
command -v "$1" >/dev/null || { echo "SKIPPED: there is no $1"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$source/tests/install/consumer" "$work/consumer"
cp "$source/examples/quickstart.cpp" "$work/consumer"
cat >>"$work/consumer/CMakeLists.txt" <<'EOF'
add_executable(quickstart quickstart.cpp)
target_link_libraries(quickstart PRIVATE attune::attune)
EOF
"$cmake" -S "$work/consumer" -B "$work/build" -G "Unix Makefiles" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_TOOLCHAIN_FILE="$toolchain" -DCMAKE_DISABLE_FIND_PACKAGE_Halide=ON >"$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }
"$cmake" --build "$work/build" >"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }
"$@" "$work/build/consumer" | tee "$work/out"
printf '[2,3,4,5]\n[10,11,12,13]\n' | cmp - "$work/out"
[ "$("$@" "$work/build/softmax")" = "0.0321 0.0871 0.2369 0.6439" ] || { echo "wrong weights of a softmax"; exit 1; }
ATTUNE_VERBOSE=1 "$@" "$work/build/quickstart" 2>&1 | tee "$work/out"
grep -q '_arm64' "$work/out" || { echo "the quickstart ran no kernel of arm64"; exit 1; }
