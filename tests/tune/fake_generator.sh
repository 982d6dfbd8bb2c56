#!/bin/sh
# A program that makes kernels at once: fake.o beside it, with the arguments behind it, so that each has code of its own.
arguments=$*
while [ $# -gt 0 ]; do
  case $1 in
    -n) name=$2 ;;
    -o) folder=$2 ;;
  esac
  shift
done
cp "$(dirname "$0")/fake.o" "$folder/$name.o"
echo "$arguments" | sed 's/ -n [^ ]*//' >>"$folder/$name.o"
