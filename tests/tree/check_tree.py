#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks of the tree's text, by reading its files: check_tree.py SOURCE_DIR CHECK...

Each thing that is wrong is a line FILE:LINE: what; then the exit code is 1. Checks: format, columns, licence, pipes, subjects,
spelling, links, paths, options, promises, version.
"""
import re
import sys

import page_checks
import text_checks
from tree import Tree


def version(tree):
    """CITATION.cff has the version of CMakeLists.txt."""
    project = re.search(r"^project\(\w+ VERSION ([\d.]+)", tree.text("CMakeLists.txt"), re.M)[1]
    for number, line in tree.lines("CITATION.cff"):
        if line.startswith("version:") and line.split()[1:] != [project]:
            yield f"CITATION.cff:{number}: CMakeLists.txt has version {project}"


CHECKS = {"format": text_checks.form, "columns": text_checks.columns, "licence": text_checks.licence,
          "pipes": text_checks.pipes, "subjects": text_checks.subjects,
          "spelling": text_checks.spelling, "links": page_checks.links, "paths": page_checks.paths,
          "options": page_checks.options, "promises": page_checks.promises, "version": version}


def main():
    tree = Tree(sys.argv[1])
    if len(tree.sources) < 20 or len(tree.pages) < 5:
        sys.exit(f"{tree.root}: {len(tree.sources)} sources and {len(tree.pages)} pages: not the tree")
    wrong = [f"{line} ({name})" for name in sys.argv[2:] for line in CHECKS[name](tree)]
    print("\n".join([*wrong, f"{len(tree.files)} files, {', '.join(sys.argv[2:])}: {len(wrong)} wrong"]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
