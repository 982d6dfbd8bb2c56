# SPDX-License-Identifier: MIT
"""The shared objects of attune.define(): built with an installed library and kept in the user's cache folder."""
from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from attune._attune import UnsupportedError, version
from attune._results import BuildError

PROJECT = pathlib.Path(__file__).resolve().parent / "user_module"
LEAST_CMAKE = (3, 28)


def cache_folder() -> pathlib.Path:
    """$XDG_CACHE_HOME/attune, or ~/.cache/attune."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (pathlib.Path(base) if os.path.isabs(base) else pathlib.Path.home() / ".cache") / "attune"


def installed_library() -> pathlib.Path:
    """The prefix that ATTUNE_ROOT names."""
    root = os.environ.get("ATTUNE_ROOT")
    if not root:
        raise UnsupportedError("attune.define: needs an installed library with its development files: name its prefix in "
                               "ATTUNE_ROOT")
    prefix = pathlib.Path(root).resolve()
    headers = prefix / "include" / "attune" / "version.h"
    if not headers.exists():
        raise UnsupportedError(f"attune.define: no library is installed in ATTUNE_ROOT, {prefix}")
    found = re.search(r'ATTUNE_VERSION_STRING "(.*?)"', headers.read_text())
    if not found or found[1] != version():
        raise UnsupportedError(f"attune.define: the library in {prefix} is of version {found and found[1]}, this package of "
                               f"{version()}")
    if not any(prefix.glob("lib*/libattune.a")) and not any(prefix.glob("lib/*/libattune.a")):
        raise UnsupportedError(f"attune.define: there is no libattune.a in {prefix}")
    return prefix


def _cmake() -> str:
    """A CMake that is new enough: beside this Python, or on PATH."""
    folders = [os.path.dirname(sys.executable), *os.environ.get("PATH", "").split(os.pathsep)]
    for folder in dict.fromkeys(folders):
        program = shutil.which("cmake", path=folder) if folder else None
        if not program:
            continue
        text = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        found = re.search(r"version (\d+)\.(\d+)", text)
        if found and tuple(map(int, found.groups())) >= LEAST_CMAKE:
            return program
    raise UnsupportedError("attune.define: needs CMake {}.{} or later: pip install cmake".format(*LEAST_CMAKE))


def _halide() -> pathlib.Path | None:
    """The folder of Halide's CMake package, of the pip package halide; None: CMake looks for one, as it does for others."""
    spec = importlib.util.find_spec("halide")
    folders = [pathlib.Path(where) for where in (spec.submodule_search_locations or [])] if spec else []
    for folder in folders:
        for package in sorted(folder.glob("lib*/cmake/Halide")):
            return package
    return None


def _compiler() -> str:
    name = os.environ.get("CXX") or "c++"
    path = shutil.which(name)
    if not path:
        raise UnsupportedError(f"attune.define: needs a C++20 compiler, and there is no {name}")
    return path


def _included(source: pathlib.Path, seen: dict[pathlib.Path, bytes]) -> None:
    """The source and the files beside it that it includes, with their content."""
    source = source.resolve()
    if source in seen:
        return
    seen[source] = source.read_bytes()
    for name in re.findall(rb'^\s*#\s*include\s*"([^"]+)"', seen[source], re.M):
        file = source.parent / os.fsdecode(name)
        if file.is_file():
            _included(file, seen)


def _digest(*parts: object) -> str:
    found = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        found.update(str(len(data)).encode() + b":" + data)
    return found.hexdigest()[:24]


def _stamp(path: pathlib.Path) -> tuple[str, int, int]:
    stat = path.stat()
    return str(path), stat.st_size, stat.st_mtime_ns


def _toolchain(prefix: pathlib.Path, compiler: str, halide: pathlib.Path | None) -> str:
    """A digest of the library, the compiler, Halide, this machine's CPU and the project."""
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    library = sorted(p for pattern in ("lib*/libattune*.a", "lib/*/libattune*.a", "share/attune/cmake/*.cmake")
                     for p in prefix.glob(pattern))
    if halide:
        library += sorted(halide.parents[1].glob("libHalide.so*"))
    cpu = next((line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), "")
    return _digest(version(), compiler, said, halide, cpu, *map(_stamp, library),
                   *((PROJECT / name).read_bytes() for name in sorted(os.listdir(PROJECT))))


# Messages in a line of the build about a mistake of the author: by the compiler, by CMake, or by the program that writes the
# header of the library.
_MISTAKES = (re.compile(r"static assertion failed: (attune: .*)"), re.compile(r"^\S+: (attune: .*)$", re.M),
             re.compile(r"(attune_add_attention\(.*)"), re.compile(r"^(\S+?:\d+:\d+: (?:fatal )?error: .*)$", re.M),
             re.compile(r"^.*?([^\s:]+: error: .*)$", re.M), re.compile(r"^(attune: .*)$", re.M))


def _mistake(output: str) -> str | None:
    for pattern in _MISTAKES:
        if found := pattern.search(output):
            line = found[1]
            if pattern is _MISTAKES[2]:  # CMake breaks lines
                line = " ".join(re.split(r"\n\n|\nCall Stack", output[found.start():])[0].split())
            return line.removeprefix("attune: ").strip()
    return None


class _Steps:
    """The output of the build's commands. Once they take more than a second, a line on stderr for each step."""

    def __init__(self, name: str):
        self.name, self.output, self.start, self.waiting = name, [], time.monotonic(), []

    def say(self, step: str) -> None:
        self.waiting.append(f"attune: {self.name}: {step}")
        if time.monotonic() - self.start > 1:
            print(*self.waiting, sep="\n", file=sys.stderr, flush=True)
            self.waiting = []

    def run(self, command: list[str], environment: dict[str, str]) -> bool:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              env=environment, stdin=subprocess.DEVNULL) as process:
            try:
                for line in process.stdout:
                    self.output.append(line)
                    if re.match(r"\[\d+/\d+\] ", line):
                        self.say(line.rstrip())
            except BaseException:
                process.terminate()
                raise
        return process.returncode == 0


def build(name: str, source: pathlib.Path | str, type_name: str, more: list[str]) -> pathlib.Path:
    """The shared object of an attention, from the cache or built. `source` is a path, or the text of one."""
    prefix, compiler, halide = installed_library(), _compiler(), _halide()
    toolchain = _toolchain(prefix, compiler, halide)
    files: dict[pathlib.Path, bytes] = {}
    if isinstance(source, pathlib.Path):
        _included(source, files)
    content = [str(source).encode()] if not files else [part for path in files for part in (path.name.encode(), files[path])]
    digest = _digest(toolchain, name, type_name, *more, *content)
    objects, project = cache_folder() / "attentions", cache_folder() / f"project-{toolchain}"
    target = objects / f"{name}-{digest}.so"
    if target.exists():
        return target
    cmake = _cmake()
    for folder in (objects, project):
        folder.mkdir(parents=True, exist_ok=True)
    with open(project / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one build at a time; another process may have built the same
        if target.exists():
            return target
        if not files:
            path = project / f"{name}_attention.h"
            lines = "" if "attune/generator/attention.h" in str(source) else "#include <attune/generator/attention.h>\n"
            path.write_text(f'{lines}#line 1 "{name}"\n{source}\n', encoding="utf-8")
        else:
            path = source.resolve()
        folder, steps = project / "build", _Steps(name)
        environment = {**os.environ, "LC_ALL": "C", "PATH": os.pathsep.join(
            [os.path.dirname(sys.executable), os.environ.get("PATH", "")])}
        ninja = ["-G", "Ninja"] if shutil.which("ninja", path=environment["PATH"]) else []
        configure = [cmake, "-S", str(PROJECT), "-B", str(folder), *ninja, "-DCMAKE_BUILD_TYPE=Release",
                     f"-DCMAKE_CXX_COMPILER={compiler}", f"-DATTUNE_ROOT={prefix}", f"-DNAME={name}", f"-DSOURCE={path}",
                     f"-DTYPE={type_name}", f"-DMORE={';'.join(more)}", *([f"-DHalide_DIR={halide}"] if halide else [])]
        steps.say("configuring")
        # The header first: its program finds mistakes.
        done = steps.run(configure, environment) and all(
            steps.run([cmake, "--build", str(folder), "--target", made, "--parallel"], environment)
            for made in (f"{name}_header", "attune_user_module"))
        made = folder / f"{name}.so"
        if not done or not made.exists():
            output = "".join(steps.output)
            line = _mistake(output)
            if line and "making kernels needs" in line:
                raise UnsupportedError(f"attune.define: {line.split(': ', 1)[-1]}")
            if line:
                raise BuildError(line, output)
            log = project / f"{name}.log"
            log.write_text(output, encoding="utf-8")
            raise RuntimeError(f"attune.define: the build of {name} failed, see {log}")
        partial = objects / f".{name}-{digest}.{os.getpid()}"
        shutil.copy2(made, partial)
        os.replace(partial, target)
    return target
