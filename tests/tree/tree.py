# SPDX-License-Identifier: MIT
"""The files of the tree, by kind, and how a check names a place in one."""
import functools
import pathlib
import subprocess

# Comments that begin a line, by the ending of a name; of a template, <name>.<ending>.in, by the ending before.
COMMENTS = {".h": "//", ".cpp": "//", ".c": "//", ".cl": "//", ".ll": ";", ".py": "#", ".cmake": "#", ".sh": "#", ".map": "#",
            ".pc": "#"}
CXX = (".h", ".cpp", ".c", ".cl")
# Files that programs write, in a form of their own.
GENERATED = ("schedules/sdpa/autoscheduled/", "bench/results/", "tests/golden/sdpa", "tests/golden/linear",
             "tests/golden/capture_gradient/")
TRIALS = "tests/tree/try_checks.py"  # has mistakes on purpose
NOT_OF_THE_TREE = ("build", "my-schedules", ".git", ".cache", "__pycache__", ".pytest_cache")


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()

    @functools.cached_property
    def files(self):
        """Names of all files that Git knows or would add, from the root; without Git all but the build folder."""
        listed = subprocess.run(["git", "-C", self.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                capture_output=True, text=True) if (self.root / ".git").exists() else None
        if listed and listed.returncode == 0 and listed.stdout:
            names = set(listed.stdout.split("\0")) - {""}
        else:
            names = {str(p.relative_to(self.root)) for p in self.root.rglob("*")
                     if not set(p.relative_to(self.root).parts) & set(NOT_OF_THE_TREE)}
        return sorted(name for name in names if (self.root / name).is_file())

    @functools.cached_property
    def folders(self):
        return {str(parent) for name in self.files for parent in pathlib.PurePath(name).parents}

    @functools.cached_property
    def pages(self):
        return [name for name in self.files if name.endswith(".md") and not name.startswith(GENERATED)]

    @functools.cached_property
    def sources(self):
        """The mark of a comment by the name of a source file: C++, CMake, Python, LLVM, shell and templates of them."""
        return {name: mark for name in self.files if (mark := self._comment_of(name))}

    def text(self, name):
        return (self.root / name).read_text(encoding="utf-8")

    def lines(self, name):
        return enumerate(self.text(name).split("\n"), 1)

    def _comment_of(self, name):
        path = pathlib.PurePath(name)
        if path.name == "CMakeLists.txt":
            return "#"
        suffix = path.suffixes[-2] if path.suffix == ".in" and len(path.suffixes) > 1 else path.suffix
        if suffix:
            return COMMENTS.get(suffix)
        with open(self.root / name, "rb") as file:
            return "#" if file.read(2) == b"#!" else None  # a script
