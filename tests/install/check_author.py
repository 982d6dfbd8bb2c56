"""The files and commands of docs/write-your-own-attention.md, as a reader follows them: from an installed build to gradients.

usage: check_author.py BUILD_DIR SOURCE_DIR CMAKE HALIDE_DIR
"""

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
for name, language in (("score.h", "cpp"), ("CMakeLists.txt", "cmake"), ("main.cpp", "cpp")):
    if f"```{language}\n{(author / name).read_text()}```" not in page:
        sys.exit(f"the page does not show tests/install/author/{name} verbatim")
if f"```cpp\n{(author / 'score.h').read_text()}```" not in (source / "README.md").read_text():
    sys.exit("the README does not show tests/install/author/score.h verbatim")
install, make, another, variants, numbers = re.findall(r"```sh\n(.*?)```", page, re.S)
printed = re.search(r"```\n(gradient of .*?)```", page, re.S)[1]

with tempfile.TemporaryDirectory() as temporary:
    work = pathlib.Path(temporary)
    (work / "checkout" / "build").mkdir(parents=True)
    (work / "checkout" / "build" / "native").symlink_to(build)
    shutil.copytree(author, work / "project")
    path = f"{pathlib.Path(sys.executable).parent}:{cmake.parent}:/usr/bin:/bin"
    environment = {"HOME": str(work), "PATH": path, "Halide_DIR": sys.argv[4], "LC_ALL": "C"}

    def run(commands, folder):
        start = time.monotonic()
        done = subprocess.run(["bash", "-ec", commands], cwd=work / folder, env=environment, encoding="utf-8",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            sys.exit(f"{commands}\nexits with {done.returncode}:\n{done.stdout}")
        return done.stdout, time.monotonic() - start

    run(install, "checkout")
    for path in [*(work / "attune" / "share").rglob("*"), *(work / "attune").glob("lib*/cmake/**/*")]:
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
    run(numbers, "project")
    rows = (work / "project" / "build" / "recency.attention" / "recency_variants.inc").read_text()
    if not re.search(r"recency_f64_dany_\w+_prefill_short.*chunk=32 .*\n.*a guess", rows):
        sys.exit(f"the numbers of the page are not those of the kernel:\n{rows}")
