#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Programs of C and of C++ that link an installed library by its C API: the commands of docs/c.md, by gcc and by clang; a CMake
# project of C alone; the shared library loaded and unloaded; and its exported names, which are those of the headers and
# of the table.
# usage: check_c.sh PREFIX SOURCE_DIR
set -euo pipefail
prefix=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
library=$(find "$prefix" -name libattune.so)
[ -n "$library" ] || { echo "no libattune.so is installed"; exit 1; }
export PREFIX=$work/prefix
mkdir "$PREFIX"
cp -r "$prefix/." "$PREFIX"  # a tree that was moved after it was installed
[ -d "$PREFIX/lib" ] || ln -s lib64 "$PREFIX/lib"
cp "$source/examples/c_attention.c" "$work"
cd "$work"
# The page's block without a language is what the example prints.
awk '/^```/ { if (inside && plain) exit; inside = !inside; plain = $0 == "```"; next } inside && plain' \
  "$source/docs/c.md" >expected
[ -s expected ] || { echo "docs/c.md does not show what the example prints"; exit 1; }

# The header by itself, strictly.
for compiler in gcc "gcc -m64 -fshort-enums" clang; do
  command -v "${compiler%% *}" >/dev/null || { echo "there is no ${compiler%% *}"; continue; }
  for language in "c -std=c11" "c -std=c17" "c++ -std=c++17" "c++ -std=c++20"; do
    echo '#include <attune/attune_c.h>' |
      $compiler -x $language -Wall -Wextra -pedantic -Werror -I"$PREFIX/include" -fsyntax-only -
  done
done

# The page's commands; each makes ./c_attention. Where it is linked dynamically, the loader has to find the library.
if command -v pkg-config >/dev/null; then
  sed -n '/^```sh$/,/^```$/{/^```/!p}' "$source/docs/c.md" | grep -e '^gcc' -e '^export' >commands
  [ "$(grep -c '^gcc' commands)" -ge 3 ] || { echo "docs/c.md has fewer than three commands of gcc"; exit 1; }
  for compiler in gcc clang; do
    command -v $compiler >/dev/null || { echo "there is no $compiler"; continue; }
    while read -r command; do
      case $command in
      export*) eval "$command" ;;
      *)
        rm -f c_attention
        eval "${command/#gcc/$compiler}" 2>log || { cat log; exit 1; }
        if grep -v -e dlopen -e 'In function' -e '^/usr/bin/ld: ' log | grep -i warning; then exit 1; fi
        ./c_attention | cmp - expected
        needed=$(readelf -d c_attention | grep -c libattune || true)
        case $command in *"rpath"*) [ "$needed" = 1 ] ;; *) [ "$needed" = 0 ] ;; esac ||
          { echo "linked in another way than the page says: $command"; exit 1; } ;;
      esac
    done <commands
  done
fi

# A project without C++, and one of C++ by the shared library.
plain=/usr/bin/cmake
[ -x $plain ] || plain=cmake
$plain -S "$source/tests/install/c" -B build -G "Unix Makefiles" -DCMAKE_PREFIX_PATH="$PREFIX" \
  -DEXAMPLE="$work/c_attention.c" -DCMAKE_C_FLAGS="-Wall -Wextra -pedantic -Werror" >log 2>&1 || { cat log; exit 1; }
$plain --build build >log 2>&1 || { cat log; exit 1; }
build/app | cmp - expected
build/load "$PREFIX/lib/libattune.so"
g++ -std=c++17 "$source/tests/install/compilers/main.cpp" -I"$PREFIX/include" -L"$PREFIX/lib" -lattune \
  -Wl,-rpath,"$PREFIX/lib" -o of_cpp
./of_cpp >/dev/null

"$source/tests/install/check_exports.sh" "$library" "$PREFIX/include"
readelf -d "$library" >dynamic
grep -qE 'soname: \[libattune\.so\.[0-9]+\.[0-9]+\]' dynamic || { cat dynamic; exit 1; }
if ldd "$library" | grep -iE 'halide|python'; then echo "the library needs Halide or Python at run time"; exit 1; fi
