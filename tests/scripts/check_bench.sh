#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# scripts/bench --autoscheduled leaves the options of the build as they were, also where a benchmark fails; under mpirun one
# rank of each host measures. CMake, the programs and the report are stand-ins.
# usage: check_bench.sh SOURCE_DIR
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/scripts" "$root/bin" "$root/build/native/bench" "$root/build/native/tools"
cp "$1/scripts/bench" "$root/scripts"
cat >"$root/scripts/provision" <<END
attune_root=$root
attune_say() { :; }
attune_provision() { :; }
attune_configure_build() { cp "\$attune_root/build/native/CMakeCache.txt" "\$attune_root/built_with"; }
END
cat >"$root/bin/cmake" <<END
#!/usr/bin/env bash
for word; do case \$word in -D*) echo "\${word#-D}" | sed 's/=/:BOOL=/' >"$root/build/native/CMakeCache.txt" ;; esac; done
END
echo 'print()' >"$root/scripts/bench_report.py"
printf '#!/bin/sh\ntrue\n' >"$root/build/native/bench/attune_plain"
printf '#!/bin/sh\ntrue\n' >"$root/build/native/tools/attune"
chmod +x "$root/bin/cmake" "$root/build/native/bench/attune_plain" "$root/build/native/tools/attune"
cache=$root/build/native/CMakeCache.txt

expect() { [ "$(cat "$1")" = "ATTUNE_AUTOSCHEDULED:BOOL=$2" ] || { echo "$3: $1 has $(cat "$1"), expected $2"; exit 1; }; }
for before in OFF ON; do
  for result in true false; do
    echo "ATTUNE_AUTOSCHEDULED:BOOL=$before" >"$cache"
    printf '#!/bin/sh\n%s\n' $result >"$root/build/native/bench/attune_bench"
    chmod +x "$root/build/native/bench/attune_bench"
    code=true
    PATH=$root/bin:$PATH "$root/scripts/bench" --autoscheduled >"$root/log" 2>&1 || code=false
    [ $code = $result ] || { echo "a benchmark that is $result makes the script $code"; cat "$root/log"; exit 1; }
    expect "$root/built_with" ON "with $before before"
    expect "$cache" $before "with $before before, and a benchmark that is $result"
  done
done

# Two hosts of two ranks: of each host one measures.
printf '#!/bin/sh\necho measured >>"%s/measured"\n' "$root" >"$root/build/native/bench/attune_bench"
for rank in 0 1 2 3; do
  printf '#!/bin/sh\necho host%d\n' $((rank / 2)) >"$root/bin/hostname"
  chmod +x "$root/bin/hostname"
  for launcher in "OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=$((rank % 2))" \
    "PMI_RANK=$rank PMI_SIZE=4 MPI_LOCALRANKID=$((rank % 2))"; do
    # shellcheck disable=SC2086
    env $launcher PATH="$root/bin:$PATH" "$root/scripts/bench" --out "$root/out" >"$root/log" 2>&1 ||
      { echo "rank $rank fails"; cat "$root/log"; exit 1; }
  done
done
times=$(wc -l <"$root/measured")
[ "$times" = 4 ] || { echo "of four ranks, twice, $times measured, expected 4"; exit 1; }
[ "$(ls "$root/out")" = "host0
host1" ] || { echo "results are in $(ls "$root/out")"; exit 1; }
if env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 PATH="$root/bin:$PATH" "$root/scripts/bench" --autoscheduled \
  >"$root/log" 2>&1; then
  echo "--autoscheduled is taken under mpirun"
  exit 1
fi
echo "scripts/bench: the options of the build stay; a rank of each host measures"
