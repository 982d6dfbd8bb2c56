# SPDX-License-Identifier: MIT
"""A program that makes kernels refuses a kernel whose arguments differ from the runtime's: a line names the first.

usage: check_refusals.py GENERATOR_PROGRAM FOLDER
"""

import os
import subprocess
import sys

program, folder = sys.argv[1:]
SAYS = "; generators/arguments/kernel_arguments.cpp says "
WRONG = {
    "swapped": "argument 1 of generator capture_sum is sums_keys (bool)" + SAYS + "sums (buffer of rank 2)",
    "missing": "argument 2 of generator capture_sum is grad_capture (buffer of rank 2)" + SAYS + "sums_keys (bool)",
    "extra": "argument 3 of generator capture_sum is more (bool)" + SAYS + "grad_capture (buffer of rank 2)",
    "type": "argument 2 of generator capture_sum is sums_keys (int32)" + SAYS + "sums_keys (bool)",
    "rank": "argument 1 of generator capture_sum is sums (buffer of rank 3)" + SAYS + "sums (buffer of rank 2)",
    "name": "argument 1 of generator capture_sum is sum (buffer of rank 2)" + SAYS + "sums (buffer of rank 2)",
}


def emit(wrong):
    command = [program, "-g", "capture_sum", "-f", wrong, "-n", wrong, "-o", folder, "-e", "object",
               "target=x86-64-linux-user_context-no_bounds_query-no_runtime", f"wrong={wrong}"]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")


os.makedirs(folder, exist_ok=True)
failures = []
for wrong, message in WRONG.items():
    done = emit(wrong)
    if done.returncode == 0 or done.stdout != f"attune: {wrong}: {message}\n":
        failures.append(f"{wrong}: exit status {done.returncode}, expected {message}, got {done.stdout}")
done = emit("nothing")
if done.returncode:
    failures.append(f"the right list: {done.stdout}")
print("\n".join(failures) or f"{len(WRONG)} wrong generators are refused")
sys.exit(bool(failures))
