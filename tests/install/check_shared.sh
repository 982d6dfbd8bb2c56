#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the project of check_subproject.sh again, with Attune as a shared library: of the same kernels. It exports the API and
# the names of the runtime that other archives' kernels call, and nothing else; and its installed files are enough.
# usage: check_shared.sh WORK_DIR SOURCE_DIR CMAKE, after check_subproject.sh in WORK_DIR
set -euo pipefail
work=$1 source=$2 cmake=$3
"$cmake" -DBUILD_SHARED_LIBS=ON -DCMAKE_BUILD_TYPE=Release "$work/build" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$cmake" --build "$work/build" >"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }
if grep 'kernel masked_softmax' "$work/log"; then echo "a shared library makes its kernels anew"; exit 1; fi
"$work/build/app" | tee "$work/out"
printf '\n0.5 0.5 0.5 0.5 0.5 0.5 1.5\nmasked_softmax: no variant for f64 is linked in that this CPU runs\n' | cmp - "$work/out"

rm -rf "$work/prefix"
"$cmake" --install "$work/build" --prefix "$work/prefix" >"$work/log"
library=$(find "$work/prefix" -name 'libattune.so')
version=$(sed -n 's/^#define ATTUNE_VERSION_STRING "\(.*\)"/\1/p' "$work/prefix/include/attune/version.h")
readelf -d "$library" >"$work/dynamic"
grep -qF "soname: [libattune.so.${version%.*}]" "$work/dynamic" || { cat "$work/dynamic"; exit 1; }
[ -e "$library.$version" ] || { echo "there is no $library.$version"; exit 1; }
if find "$work/prefix" -name '*.a' | grep .; then echo "archives are installed beside a shared library"; exit 1; fi
if ldd "$library" | grep -iE 'halide|python'; then echo "the library needs Halide or Python at run time"; exit 1; fi

"$source/tests/install/check_exports.sh" "$library" "$work/prefix/include"

# A project that finds it by CMake, and one by pkg-config.
"$cmake" -S "$source/tests/install/shared" -B "$work/found" -G "Unix Makefiles" -DCMAKE_PREFIX_PATH="$work/prefix" \
  >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$cmake" --build "$work/found" >"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }
"$work/found/app" | tee "$work/out"
echo '0.5 0.5 0.25 0.25 0.25 0.25' | cmp - "$work/out"
command -v pkg-config >/dev/null || { echo "SKIPPED: the part that needs pkg-config"; exit; }
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name attune.pc)")
# shellcheck disable=SC2046
g++ -std=c++17 "$source/tests/install/shared/main.cpp" $(pkg-config --cflags --libs attune) \
  -Wl,-rpath,"$(dirname "$library")" -o "$work/by_pkg_config"
"$work/by_pkg_config" | cmp - "$work/out"
ldd "$work/by_pkg_config" >"$work/loaded"
grep -q 'libattune.so' "$work/loaded" || { echo "the program does not load the shared library"; cat "$work/loaded"; exit 1; }
