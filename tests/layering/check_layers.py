# SPDX-License-Identifier: MIT
"""The layers hold what they may, by reading the sources.

generators/  no target, vector width, tile or scheduling directive, and nothing of schedules/ or lowering/;
             programs/ and *_generator.cpp are wiring: they include all of them and never branch on a target
  attention/equations/  nothing but itself, generators/math and generators/arguments: no form, no block, no lane
  attention/forward/    equations; attention/backward/ and attention/gpu/ forms of forward/ too, and none of each other
schedules/   no equation: no Func but wrappers, no arithmetic on Func values
lowering/    no schedule, and of generators/ the folders math and arguments alone
runtime/ tools/ bench/ examples/  no Halide.h
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
DIRECTIVES = (
    "compute_at compute_root compute_with compute_inline store_at store_root store_in hoist_storage vectorize unroll parallel "
    "serial split fuse tile reorder reorder_storage rename bound bound_extent align_bounds align_storage rfactor atomic "
    "prefetch specialize gpu gpu_blocks gpu_threads gpu_tile in clone_in fold_storage async partition never_partition"
).split()
failures = []


def code_of(path):
    text = path.read_text()
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)
    return re.sub(r"//[^\n]*|\"(\\.|[^\"\\])*\"", "", text)


def forbid(path, pattern, why):
    for number, line in enumerate(code_of(path).splitlines(), 1):
        if re.search(pattern, line):
            failures.append(f"{path.relative_to(ROOT)}:{number}: {why}: {line.strip()}")


def forbid_include(path, pattern, why):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if re.match(r"\s*#\s*include\s*\"" + pattern, line):
            failures.append(f"{path.relative_to(ROOT)}:{number}: {why}: {line.strip()}")


def sources(folder):
    return [p for p in sorted((ROOT / folder).rglob("*")) if p.suffix in (".h", ".cpp", ".cc", ".hpp")]


def is_wiring(path):
    return path.parent.name == "programs" or path.name.endswith("_generator.cpp")


checked = 0
for path in sources("generators"):
    checked += 1
    if is_wiring(path):
        forbid(path, r"\b(has_feature|natural_vector_size|\.arch\b|\.os\b|bits ==)", "a generator branches on the target")
        forbid(path, r"\.(" + "|".join(d for d in DIRECTIVES if d != "in") + r")\s*\(", "a scheduling directive in the wiring")
    else:
        forbid(path, r"\bTarget\b|natural_vector_size|get_target", "names a target")
        forbid(path, r"[.>](" + "|".join(DIRECTIVES) + r")\s*\(", "a scheduling directive in an algorithm")
        forbid_include(path, r"(lowering|schedules|generators/programs)/", "an algorithm includes what is made of it")

# The parts of attention that each part may include.
PARTS = {"equations": (), "forward": ("equations",), "backward": ("equations", "forward"), "gpu": ("equations", "forward")}
for part, others in PARTS.items():
    for path in sources(f"generators/attention/{part}"):
        known = "|".join((part, *others))
        forbid_include(path, rf"generators/(?!math/|arguments/|attention/({known})/)", f"{part}/ includes another part")
        if part == "equations":
            forbid(path, r"(?i)\b\w*(kv_block|chunk|lane|warp|hint|tile)\w*\b", "an equation knows how it is computed")
for path in (ROOT / "generators/programs").glob("sdpa*"):
    forbid(path, r"schedule_name\s*[=!]=", "a schedule is told by its name and not by its row of the table")
equation = ROOT / "generators/attention/equations/blocked_softmax.h"
if len(equation.read_text().splitlines()) > 120:
    failures.append(f"{equation.relative_to(ROOT)}: has more than 120 lines: it is read as one page")

for path in sources("schedules"):
    checked += 1
    forbid(path, r"\bFunc\s*\(\s*|\bFunc\s+\w+\s*\(\s*\"|\bRDom\b", "a Func or reduction of its own in a schedule")
    forbid(path, r"\b(select|exp|log|cast|sum|maximum|tanh)\s*\(", "arithmetic in a schedule")
    forbid_include(path, r"generators/programs/", "a schedule includes wiring")

for path in sources("lowering"):
    checked += 1
    forbid_include(path, r"(schedules|generators/(?!(math|arguments)/))", "includes a schedule or an equation in lowering")

for folder in ("runtime", "tools", "bench", "examples"):
    for path in sources(folder):
        checked += 1
        forbid(path, r"#\s*include\s*[<\"]Halide\.h", "includes Halide.h outside generators, schedules and lowering")

print("\n".join(failures))
print(f"{checked} files read, {len(failures)} broken rules")
sys.exit(1 if failures or checked < 20 else 0)
