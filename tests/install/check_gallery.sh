#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs a build into an empty prefix, builds the gallery of attentions there, or some entries, and runs it: each entry
# against its formula, with pictures. The page of the gallery shows every struct as it is.
# usage: check_gallery.sh BUILD_DIR SOURCE_DIR CMAKE HALIDE_DIR [ENTRY...]
set -euo pipefail
build=$1 source=$2 cmake=$3 halide=$4
shift 4
some=$(IFS=';' && echo "$*")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
page=$(cat "$source/docs/attention-gallery.md")
entries=()
for cpp in "$source"/examples/attention_gallery/*.cpp; do
  header=${cpp%.cpp}.h entry=$(basename "$cpp" .cpp)
  [ -f "$header" ] || continue
  entries+=("$entry")
  [[ $page == *"$(sed -n '/^struct/,$p' "$header")"* ]] || { echo "the page does not show the struct of $entry"; exit 1; }
  [[ $page == *"(pictures/$entry.svg)"* && -f $source/docs/pictures/$entry.svg ]] || { echo "no picture of $entry"; exit 1; }
done
"$cmake" --install "$build" --prefix "$work/prefix" >"$work/install.log"
cp -r "$source/examples/attention_gallery" "$work/gallery"
"$cmake" -S "$work/gallery" -B "$work/build" -G "Unix Makefiles" -DCMAKE_PREFIX_PATH="$work/prefix" -DHalide_DIR="$halide" \
  -DATTENTION_GALLERY_ENTRIES="$some" >"$work/configure.log" 2>&1 || { cat "$work/configure.log"; exit 1; }
"$cmake" --build "$work/build" >"$work/build.log" 2>&1 || { tail -n 40 "$work/build.log"; exit 1; }
mkdir "$work/pictures"
"$work/build/attention_gallery" --picture "$work/pictures" | tee "$work/out"
((!$#)) || entries=("$@")
for entry in "${entries[@]}"; do
  grep -q "^$entry .* ok$" "$work/out" && [ -s "$work/pictures/$entry.svg" ] || { echo "$entry did not run"; exit 1; }
done
if ldd "$work/build/attention_gallery" | grep -iE 'halide|python'; then
  echo "the gallery needs Halide or Python at run time"; exit 1
fi
