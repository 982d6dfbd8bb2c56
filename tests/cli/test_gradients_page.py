# SPDX-License-Identifier: MIT
"""The commands of docs/gradients.md run as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np


def test_commands_of_the_page_about_gradients(attune, tmp_path):
    page = Path(__file__).parents[2] / "docs" / "gradients.md"
    commands = "\n".join(re.findall(r"```sh\n(.*?)```", page.read_text(), re.S))
    assert commands.count("attune run") == 2
    shell = f'set -e\nattune() {{ "{attune.path}" "$@"; }}\npython3() {{ "{sys.executable}" "$@"; }}\n{commands}'
    done = subprocess.run(["bash", "-c", shell], cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=300)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
    for name, like in (("dq", "q"), ("dk", "k"), ("dv", "v"), ("dbias", "bias")):
        gradient = np.load(tmp_path / f"{name}.npy")
        assert gradient.shape == np.load(tmp_path / f"{like}.npy").shape and np.abs(gradient).max() > 0
    i, j = np.ogrid[:6, :9]
    assert not np.load(tmp_path / "dbias.npy")[j > i + 3].any()
