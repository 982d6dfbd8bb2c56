#!/bin/sh
# SPDX-License-Identifier: MIT
# A program that makes kernels at once: fake.o beside it, with the arguments behind it, so that each has code of its own.
# Parameters that the file `slow` holds take for ever.
arguments=$*
while [ $# -gt 0 ]; do
  case $1 in
    -n) name=$2 ;;
    -o) folder=$2 ;;
  esac
  shift
done
[ ! -e "$(dirname "$0")/slow" ] || echo " $arguments " | grep -vqf "$(dirname "$0")/slow" || exec sleep 1000
cp "$(dirname "$0")/fake.o" "$folder/$name.o"
echo "$arguments" | sed 's/ -n [^ ]*//; s/ -o [^ ]*//' >>"$folder/$name.o"
