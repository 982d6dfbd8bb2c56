#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Reads scripts/provision in other shells, from another folder: it works, or says what it needs and fails.
# usage: check_provision.sh SOURCE_DIR
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# All that would be installed is there.
mkdir -p "$work/bin" "$work/venv"
printf '#!/bin/sh\necho install ok installed\n' >"$work/bin/dpkg-query"
chmod +x "$work/bin/dpkg-query"
cp "$source/requirements.txt" "$work/venv/requirements.installed"
cd "$work"
script=". $source/scripts/provision && attune_venv=$work/venv && attune_provision && echo \"\$attune_root \${PATH%%:*}\""
for shell in bash zsh; do
  command -v $shell >/dev/null || { echo "$shell is not installed"; continue; }
  said=$(PATH=$work/bin:$PATH $shell -c "$script" 2>&1) || { echo "$shell: $said"; exit 1; }
  [ "$said" = "$source $work/venv/bin" ] || { echo "$shell: $said"; exit 1; }
done
# A package that cannot be installed ends the script with an error.
printf '#!/bin/sh\nexit 1\n' >"$work/bin/dpkg-query"
for program in apt-get sudo; do
  printf '#!/bin/sh\necho none >&2\nexit 1\n' >"$work/bin/$program"
  chmod +x "$work/bin/$program"
done
for shell in bash zsh; do
  command -v $shell >/dev/null || continue
  if PATH=$work/bin:$PATH $shell -c ". $source/scripts/provision && attune_root=$work && attune_provision" >/dev/null 2>&1; then
    echo "$shell: packages that cannot be installed are passed over"; exit 1
  fi
done
for shell in dash "busybox sh"; do
  command -v ${shell%% *} >/dev/null || continue
  if said=$($shell -c "$script" 2>&1); then echo "$shell: succeeds: $said"; exit 1; fi
  case $said in *"needs bash or zsh"*) ;; *) echo "$shell: $said"; exit 1 ;; esac
done
echo "scripts/provision works, or says why not"
