#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the project of tests/install/compilers against an installed prefix, in one of several ways.
# usage: check_compilers.sh PREFIX SOURCE_DIR cxx17|clang|lto|pkg_config
set -euo pipefail
prefix=$1 source=$2 how=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
project=$source/tests/install/compilers
expected='[2,3,4,5]\n[10,11,12,13]\nkey: extents (2, 11, 2) with their strides need 44 elements, the memory has 40\n'
runs() { "$1" | tee "$work/out"; printf "$expected" | cmp - "$work/out"; }

for needed in $([ "$how" != pkg_config ] || echo pkg-config) $([ "$how" != clang ] || echo clang++); do
  command -v "$needed" >/dev/null || { echo "SKIPPED: there is no $needed"; exit 77; }
done
if [ "$how" = pkg_config ]; then
  # A tree that was moved after it was installed.
  cp -r "$prefix" "$work/moved"
  export PKG_CONFIG_PATH
  PKG_CONFIG_PATH=$(dirname "$(find "$work/moved" -name attune.pc)")
  version=$(sed -n 's/^#define ATTUNE_VERSION_STRING "\(.*\)"/\1/p' "$prefix/include/attune/version.h")
  [ "$(pkg-config --modversion attune)" = "$version" ] || { echo "attune.pc and version.h differ"; exit 1; }
  libdir=$(dirname "$PKG_CONFIG_PATH")
  for static in "" --static; do
    if [ -n "$static" ]; then how_linked=-static; else how_linked=-Wl,-rpath,$libdir; fi
    # shellcheck disable=SC2046,SC2086
    g++ -std=c++17 -O1 "$project/main.cpp" $how_linked $(pkg-config --cflags $static --libs attune) -o "$work/app" \
      2>"$work/log" || { cat "$work/log"; exit 1; }
    runs "$work/app"
    # The kernels of avx2 that are installed beside take part.
    if [ -n "$(find "$prefix" -name libattune_fallback.a)" ]; then
      ATTUNE_FORCE_VARIANT=sdpa_f32_dany_avx2_prefill_short_training "$work/app" | cmp - "$work/out"
    fi
  done
  exit
fi

options=()
case $how in
cxx17) ;;
clang) options=(-DCMAKE_CXX_COMPILER=clang++) ;;
lto) options=(-DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON -DCMAKE_POLICY_DEFAULT_CMP0069=NEW -DCMAKE_BUILD_TYPE=Release) ;;
*) echo "there is no $how"; exit 1 ;;
esac
cmake -S "$project" -B "$work/build" -G "Unix Makefiles" -DCMAKE_PREFIX_PATH="$prefix" "${options[@]}" >"$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }
cmake --build "$work/build" --verbose >"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }
if [ "$how" = lto ] && ! grep -q -e -flto "$work/log"; then echo "-flto was not given"; exit 1; fi
if [ "$how" = clang ] && ! grep -q clang++ "$work/log"; then echo "clang++ was not used"; exit 1; fi
runs "$work/build/app"
