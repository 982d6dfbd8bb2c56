#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds examples/language_model as a project of its own that links an installed attune, and runs its tests.
# usage: check_language_model.sh PREFIX SOURCE_DIR CMAKE PYTHON
set -euo pipefail
prefix=$1 source=$2 cmake=$3 python=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$source/examples/language_model" "$work/source"
"$cmake" -S "$work/source" -B "$work/build" -G "Unix Makefiles" -DCMAKE_PREFIX_PATH="$prefix" >"$work/configure.log" 2>&1 ||
  { cat "$work/configure.log"; exit 1; }
"$cmake" --build "$work/build" >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
if grep -i warning "$work/build.log"; then exit 1; fi
ATTUNE_LANGUAGE_MODEL=$work/build/language_model PYTHONDONTWRITEBYTECODE=1 \
  "$python" -m pytest -q -rs -p no:cacheprovider "$source/tests/model"
