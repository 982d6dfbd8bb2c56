# SPDX-License-Identifier: MIT
"""The capabilities of this machine, as `attune doctor` prints them."""
from __future__ import annotations

import os
import platform
from typing import Any

from attune import _attune


def _cpu_info() -> dict[str, str]:
    found: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                name, colon, text = line.partition(":")
                if colon:
                    found.setdefault(name.strip(), text.strip())
    except OSError:
        pass
    return found


def doctor() -> dict[str, Any]:
    """Facts about this machine and the library: version, cpu, features, threads, targets (each with the variants linked in and
    what the machine lacks), variants, run_here, warning (empty if none) and environment."""
    cpu, variants = _cpu_info(), _attune.variants()
    return {
        "version": _attune.version(),
        "cpu": cpu.get("model name", "unknown"),
        "system": f"{platform.system()} {platform.machine()}",
        "features": cpu.get("flags", "").split(),
        "threads": _attune.default_threads(),
        "targets": [{**target, "variants": sum(v["target"] == target["name"] for v in variants)}
                    for target in _attune.targets()],
        "variants": len(variants),
        "run_here": sum(v["runs_here"] for v in variants),
        "warning": _attune.missing_variants(),
        "environment": {name: value for name, value in os.environ.items() if name.startswith("ATTUNE_")},
    }
