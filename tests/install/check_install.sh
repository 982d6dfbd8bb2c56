#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs a build into an empty prefix and builds the consumer project there, with a CMake that knows nothing of Halide or
# of the virtual environment.
# usage: check_install.sh BUILD_DIR SOURCE_DIR BUILDING_CMAKE
set -euo pipefail
build=$1 source=$2 cmake=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$cmake" --install "$build" --prefix "$work/prefix" >"$work/install.log"
# Debian's own CMake if there is one, and no PATH beyond the system's.
export PATH=/usr/bin:/bin
plain=/usr/bin/cmake
[ -x $plain ] || { plain=$cmake; echo "no system CMake: $($cmake --version | sed -n 1p) builds the consumer"; }
cp -r "$source/tests/install/consumer" "$work/consumer"
$plain -S "$work/consumer" -B "$work/build" -G "Unix Makefiles" -DCMAKE_PREFIX_PATH="$work/prefix" \
  >"$work/configure.log" 2>&1 || { cat "$work/configure.log"; exit 1; }
$plain --build "$work/build" >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
if grep -rl -e "$build" -e "$source" "$work/prefix/lib"*/cmake; then echo "the package names the build folder"; exit 1; fi
# Only a call that makes kernels asks for Halide.
echo 'attune_add_attention(own SOURCE main.cpp TYPE Own)' >>"$work/consumer/CMakeLists.txt"
if $plain -S "$work/consumer" -B "$work/own" -G "Unix Makefiles" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_DISABLE_FIND_PACKAGE_Halide=ON >"$work/own.log" 2>&1 ||
  ! grep -q 'making kernels needs Halide 21.0.0' "$work/own.log"; then
  echo "without Halide, attune_add_attention() does not say what it needs:"; cat "$work/own.log"; exit 1
fi
"$work/build/consumer" | tee "$work/out"
printf '[2,3,4,5]\n[10,11,12,13]\n' | cmp - "$work/out"
# A program of one function has its kernels and no others, of the fallback neither.
[ "$("$work/build/softmax")" = "0.0321 0.0871 0.2369 0.6439" ] || { echo "wrong weights of a softmax"; exit 1; }
nm "$work/build/softmax" >"$work/symbols"
grep -q ' masked_softmax_f32_' "$work/symbols" || { echo "the program of a softmax has no kernels of it"; exit 1; }
if grep -E ' (sdpa|linear|additive|merge|masked_softmax_backward)_.*_argv$' "$work/symbols"; then
  echo "the program of a softmax has kernels of other functions"; exit 1
fi
# A variant of another op is forced for calls of that one, which this program does not have; an unknown name is refused.
ATTUNE_FORCE_VARIANT=sdpa_f32_dany_generic_root "$work/build/softmax" >/dev/null
if ATTUNE_FORCE_VARIANT=masked_softmax_f32_generic_rose "$work/build/softmax" 2>"$work/forced.log"; then
  echo "a variant that does not exist is forced"; exit 1
fi
grep -q 'there is no variant masked_softmax_f32_generic_rose' "$work/forced.log"
# The command of docs/link-by-hand.md, as it stands there; and that the order of its archives matters, as it says.
commands=$(sed -n '/^```sh$/,/^```$/{/^```/!p}' "$source/docs/link-by-hand.md")
command=$(head -n 1 <<<"$commands")
PREFIX=$work/prefix
[ -d "$PREFIX/lib" ] || ln -s lib64 "$PREFIX/lib"
cd "$work/consumer"
eval "$command"
./app | cmp - "$work/out"
if command -v pkg-config >/dev/null; then  # the other commands of that page
  while read -r command_of_page; do
    rm -f app
    eval "$command_of_page"
    case $command_of_page in g++*) ./app | cmp - "$work/out" ;; esac
  done < <(tail -n +2 <<<"$commands")
fi
in_order='-l:libattune.a -l:libattune_halide_runtime.a'
if eval "${command/$in_order/-l:libattune_halide_runtime.a -l:libattune.a}" 2>"$work/order.log"; then
  echo "the archives link in any order, docs/link-by-hand.md says they do not"; exit 1
fi
grep -q 'undefined reference to .attune_' "$work/order.log"
# A library of a target above avx2 has kernels of that one, too, for other CPUs.
if [ -e "$work/prefix"/lib*/libattune_fallback.a ]; then
  ATTUNE_FORCE_VARIANT=sdpa_f32_dany_avx2_prefill_short_training "$work/build/consumer" | cmp - "$work/out"
  if [ -x "$work/prefix/bin/attune" ]; then
    "$work/prefix/bin/attune" variants --json >"$work/variants.json"
    for name in sdpa_bf16_dany_avx2_prefill_long_training sdpa_backward_f16_dany_avx2_blocked_training \
      linear_f64_avx2_panels_many_rows masked_softmax_f32_avx2_rows; do
      grep -q "\"$name\"" "$work/variants.json" || { echo "the installed program has no $name"; exit 1; }
    done
  fi
fi
if ldd "$work/build/consumer" | grep -iE 'halide|python'; then
  echo "the consumer needs Halide or Python at run time"; exit 1
fi
