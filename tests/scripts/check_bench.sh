#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# scripts/bench --autoscheduled leaves the options of the build as they were, also where a benchmark fails. CMake, the programs
# and the report are stand-ins.
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
echo "scripts/bench: the options of the build stay"
