# SPDX-License-Identifier: MIT
"""The files and commands of docs/write-your-own-attention.md, as a reader follows them: from an installed build to gradients.

usage: check_author.py BUILD_DIR SOURCE_DIR CMAKE HALIDE_DIR [--tune]    the commands that tune, too
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

build, source, cmake = (pathlib.Path(arg) for arg in sys.argv[1:4])
page = (source / "docs" / "write-your-own-attention.md").read_text()
author = source / "tests" / "install" / "author"


def shown(name):
    """The text of an author's file without the line that names the licence, which no page shows."""
    return re.sub(r"\A(//|#) SPDX-License-Identifier: .*\n", "", (author / name).read_text())


for name, language in (("score.h", "cpp"), ("CMakeLists.txt", "cmake"), ("main.cpp", "cpp")):
    if f"```{language}\n{shown(name)}```" not in page:
        sys.exit(f"the page does not show tests/install/author/{name} verbatim")
if f"```cpp\n{shown('score.h')}```" not in (source / "README.md").read_text():
    sys.exit("the README does not show tests/install/author/score.h verbatim")
install, make, another, variants, parameters, tune = re.findall(r"```sh\n(.*?)```", page, re.S)
printed = re.search(r"```\n(gradient of .*?)```", page, re.S)[1]

SLOW = {"kv_block": 32, "tile_q": 16, "key_tile": 2, "channel_tile": 1}
# A program that lists the variants of the project's library.
LIST = r"""#include <attune/variants.h>
#include <cstdio>
#include <recency.h>
int main() {
    auto *volatile forward = &recency::forward;  // so that the library is linked in
    (void)forward;
    for (const attune::VariantInfo &v : attune::variants())
        if (v.op == "user_recency" && v.dtype == attune::DType::f32)
            std::printf("%s %s\n", std::string(v.name).c_str(), std::string(v.parameters).c_str());
}
"""
WRONG = """#pragma once
#include <attune/generator/attention.h>
struct Wrong {
    attune::Capture rate{"rate", 1};
    Halide::Expr score(Halide::Expr x, attune::Index at) const { return x - rate(at.h); }
    Halide::Expr mask(attune::Index at) const { return at.j <= at.position; }
};
"""


def check_tuner(project, run, tune):
    """From slow parameters the commands of the page find better ones; a candidate that computes something else is rejected."""
    file = project / "parameters" / "recency" / "generic.json"
    file.write_text(json.dumps({"schema": 1, "op": "recency", "target": "generic", "records": [
        {"dtype": "f32", "head_dim": 0, "schedule": "prefill", "class": of, "parameters": SLOW} for of in ("long", "short")]}))
    (project / "list.cpp").write_text(LIST)
    (project / "wrong_score.h").write_text(WRONG)
    with open(project / "CMakeLists.txt", "a") as lists:
        lists.write("add_executable(list list.cpp)\ntarget_link_libraries(list PRIVATE recency)\n"
                    "attune_add_attention(wrong SOURCE wrong_score.h TYPE Wrong SCHEDULES prefill)\n"
                    "set_target_properties(wrong PROPERTIES EXCLUDE_FROM_ALL ON)\n")  # but for its generator
    start = time.monotonic()
    output = run("cmake --build build --target list wrong.generator && build/list", "project")[0]
    slow = "channel_tile=1 key_tile=2 kv_block=32 tile_q=16"
    if set(re.findall(r"_prefill_\w+ (.*)", output)) != {slow}:
        sys.exit(f"the slow parameters are not in use:\n{output}")
    # The first candidates are better than the slow parameters: two minutes show as much as the three of the page.
    output = run(tune.replace(" --time 3 ", " --time 2 "), "project")[0]
    print(output, end="")
    records = [record for name in (project / "parameters" / "recency").glob("*.json") if name != file
               for record in json.loads(name.read_text())["records"]]
    provenance = records[0]["provenance"] if len(records) == 1 else {}
    if provenance.get("halide") != "21.0.0" or "captures made up" not in provenance["how"] or not (
            provenance["us"] > 0 and provenance["shape"] and provenance["command"].startswith("attune tune ")):
        sys.exit(f"the tuner wrote {records}")
    parameters = records[0]["parameters"]
    tuned = " ".join(f"{name}={value}" for name, value in sorted(parameters.items()))
    output = run("build/list", "project")[0]
    if slow == tuned or not re.search(rf"_prefill_{records[0]['class']} {tuned}$", output, re.M):
        sys.exit(f"{tuned} was written, but the library has\n{output}")

    # Candidates of other KV blocks are kernels of another struct from now on.
    generators = project / "build" / "attune_generators.json"
    known = json.loads(generators.read_text())
    program, wrong = (known["programs"][f"{name}.generator"] for name in ("recency", "wrong"))
    mixed = project / "mixed"
    mixed.write_text('#!/bin/sh\ncase " $* " in\n'
                     f'*" kv_block={parameters["kv_block"]} "*) exec {program["file"]} "$@";;\nesac\n'
                     f'exec {wrong["file"]} "$@"\n')
    mixed.chmod(0o755)
    program["file"] = str(mixed)
    generators.write_text(json.dumps(known))
    other = " ".join(f"{name}={value * (2 if name == 'kv_block' else 1)}" for name, value in parameters.items())
    compare = ('"$HOME/attune/bin/attune" compare recency --build build --shapes shapes.csv --processes 1 '
               f'--contender "in use=prefill" --contender "other=prefill {other}"')
    output = run(compare, "project", exits_with=1)[0]
    print(output, end="")
    rows = {row.split("|")[1].strip(): row for row in output.splitlines() if row.startswith("|")}
    if ": out: maximum error" not in rows["other"] or ": out" in rows["in use"]:
        sys.exit("a candidate that computes something else was not rejected, or one that does not was")
    print(f"{time.monotonic() - start:.1f} s to tune and to compare")


with tempfile.TemporaryDirectory() as temporary:
    work = pathlib.Path(temporary)
    (work / "checkout" / "build").mkdir(parents=True)
    (work / "checkout" / "build" / "native").symlink_to(build)
    shutil.copytree(author, work / "project")
    path = f"{pathlib.Path(sys.executable).parent}:{cmake.parent}:/usr/bin:/bin"
    # One job: the other cores are those of other tests.
    environment = {"HOME": str(work), "PATH": path, "Halide_DIR": sys.argv[4], "LC_ALL": "C", "CMAKE_BUILD_PARALLEL_LEVEL": "1"}

    def run(commands, folder, exits_with=0):
        start = time.monotonic()
        done = subprocess.run(["bash", "-ec", commands], cwd=work / folder, env=environment, encoding="utf-8",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != exits_with:
            sys.exit(f"{commands}\nexits with {done.returncode}:\n{done.stdout}")
        return done.stdout, time.monotonic() - start

    run(install, "checkout")
    for path in [*(work / "attune" / "share").rglob("*"), *(work / "attune").glob("lib*/cmake/**/*"),
                 *(work / "attune").glob("lib*/attune/**/*")]:
        if path.is_file() and any(str(folder).encode() in path.read_bytes() for folder in (build, source)):
            sys.exit(f"{path} names a folder of the build")
    output, seconds = run(make, "project")
    print(printed, end="")
    if not output.endswith(printed):
        sys.exit(f"is what the page says is printed, but it is:\n{output}")
    print(f"{seconds:.1f} s from the sources to these")
    if re.search("halide|python", run("ldd build/gradients", "project")[0], re.I):
        sys.exit("the program needs Halide or Python at run time")
    print(f"{run(another, 'project')[1]:.1f} s to add a second attention, load of the machine {os.getloadavg()[0]:.1f}")
    print(run(variants, "project")[0], end="")
    run(parameters, "project")
    rows = (work / "project" / "build" / "recency.attention" / "recency_variants.inc").read_text()
    if not re.search(r"recency_f64_dany_\w+_prefill_short.*kv_block=32 .*\n.*a guess", rows):
        sys.exit(f"the parameters of the page are not those of the kernel:\n{rows}")
    if "--tune" in sys.argv:
        check_tuner(work / "project", run, tune)
