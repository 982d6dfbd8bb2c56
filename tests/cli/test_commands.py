# SPDX-License-Identifier: MIT
"""attune variants, attune doctor, --help, --version."""
import re

import pytest


def test_json_has_every_field(variants):
    assert variants
    for v in variants:
        assert set(v) == {"name", "op", "dtype", "head_dim", "target", "schedule", "shape_class", "kind", "parameters",
                          "provenance", "measured", "cost_measured", "dispatched", "runs_here", "why_not"}
        assert v["runs_here"] == (v["why_not"] == "")
        # A variant's name says what it is.
        size = f"d{v['head_dim'] or 'any'}" if v["kind"] else ""
        kind = v["kind"] if v["kind"] != "plain" else ""
        parts = [v["op"], v["dtype"], size, v["target"], v["schedule"], v["shape_class"], kind]
        assert v["name"] == "_".join(p for p in parts if p)
        assert v["kind"] in ("", "plain", "scored", "training", "weights")
    assert len({v["name"] for v in variants}) == len(variants)
    assert any(v["schedule"] == "root" and v["runs_here"] for v in variants)
    assert {"sdpa", "additive", "linear", "batch_dot", "masked_softmax", "dropout_mask"} <= {v["op"] for v in variants}


def test_table_says_the_same(attune, variants):
    lines = attune("variants").stdout.splitlines()
    assert lines[0].split()[0] == "name" and all(len(line) <= 160 for line in lines)
    assert [line.split()[0] for line in lines[1:-1] if not line.startswith(" ")] == [v["name"] for v in variants]
    here = [v for v in variants if v["runs_here"]]
    guessed = sum("measured: false" in v["provenance"] for v in here)
    assert guessed == sum(not v["measured"] for v in here)
    assert lines[-1] == f"{len(variants)} variants, {len(here)} run here, {guessed} of these not measured"
    text = " ".join(" ".join(lines).split())
    for v in variants:
        row = next(line for line in lines if line.split()[0] == v["name"]).split()
        size = str(v["head_dim"]) if v["head_dim"] else "any"
        assert row[:6] == [v["name"], v["dtype"], size, v["schedule"], v["shape_class"] or "-", v["kind"] or "-"]
        assert " ".join(v["parameters"].split()) in text and v["why_not"] in text


def test_table_is_aligned(attune):
    lines = [line for line in attune("variants").stdout.splitlines()[:-1] if not line.startswith(" ")]
    starts = [m.start() for m in re.finditer(r"(?:(?<=  )|^)\S", lines[0])]
    for line in lines:
        assert all(line[at - 1] == " " for at in starts[1:]) and all(line[at] != " " for at in starts), line


def test_doctor(attune, variants):
    done = attune("doctor")
    assert done.returncode == 0 and done.stderr == ""
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith("  ")}
    assert {"cpu", "features", "threads", "gpu", "cmake", "ninja", "python3", "nvcc", "ptxas", "halide",
            "generic"} <= set(lines)
    assert re.search(r"^  threads +\d+ by default, limited by the (affinity|cgroup CPU quota|library); \d+ of \d+ processors "
                     r"allowed, CPU quota (none|[\d.e+]+)$", lines["threads"])
    for v in variants:
        assert ("not usable" not in lines[v["target"]]) == v["runs_here"]


def test_doctor_measures(attune):
    done = attune("doctor", "--measure")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith(attune("doctor").stdout.split("\ntools")[0].split("\nvariants")[0].split("threads")[0])
    measured = done.stdout.split("\nmeasured")[1]
    lanes = int(re.search(r"vectors +\S+, (\d+) lanes of f32\n", measured)[1])
    clock = float(re.search(r"clock +([\d.]+) GHz", measured)[1])
    assert lanes in (1, 4, 8, 16) and 0.05 < clock < 10
    for name in ("f32", "f64"):
        rate, of_cycle = re.search(rf"  {name} +(\S+) GFLOP/s on one thread \((\S+) instructions a cycle\)", measured).groups()
        assert float(rate) > 0 and 0 < float(of_cycle) < 5
    reads = [float(rate) for rate in re.findall(r"read at (\S+) GB/s on one thread", measured)]
    assert reads and min(reads) > 0


def test_doctor_names_missing_tools(attune, tmp_path):
    done = attune("doctor", env={"PATH": str(tmp_path)})
    assert done.returncode == 0 and done.stdout.count("not on PATH") == 6
    (tmp_path / "ninja").write_text("#!/bin/sh\n")
    (tmp_path / "ninja").chmod(0o755)
    (tmp_path / "cmake").write_text("not executable")
    text = attune("doctor", env={"PATH": str(tmp_path)}).stdout
    assert text.count("not on PATH") == 5 and str(tmp_path / "ninja") in text


def test_version(attune):
    done = attune("--version")
    assert done.returncode == 0 and re.fullmatch(r"attune \d+\.\d+\.\d+\n", done.stdout)


COMMANDS = ("sdpa", "sdpa-backward", "additive", "additive-backward", "mha", "varlen", "paged", "append", "rope", "kv-append",
            "merge", "masked-softmax", "linear", "batch-dot", "dropout-mask", "linear-backward", "masked-softmax-backward",
            "mha-backward", "varlen-backward")


@pytest.mark.parametrize("version, will_do", [("3.28.0", True), ("3.28", True), ("4.1.2", True), ("3.27.9", False),
                                              ("3.25.1", False), ("2.99", False), ("3.3.0", False), ("of today", False)])
def test_doctor_asks_cmake_for_its_version(attune, tmp_path, version, will_do):
    (tmp_path / "cmake").write_text(f"#!/bin/sh\necho 'cmake version {version}'\necho\necho 'CMake suite 99.9'\n")
    (tmp_path / "cmake").chmod(0o755)
    text = attune("doctor", env={"PATH": f"{tmp_path}:/usr/bin:/bin"}).stdout
    line = re.search(r"^  cmake .*", text, re.M)[0]
    assert str(tmp_path / "cmake") in line and (version in line or "version unknown" in line)
    assert ("needed: 3.28 or later" in line) != will_do, line


@pytest.mark.parametrize("where, name", [("share/cmake/Halide", "PATH"), ("lib64/cmake/Halide", "CMAKE_PREFIX_PATH"),
                                         ("any", "Halide_DIR")])
def test_doctor_looks_for_halide(attune, tmp_path, where, name):
    folder = tmp_path / where
    folder.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    clean = {"Halide_DIR": "", "Halide_ROOT": "", "CMAKE_PREFIX_PATH": "", "PATH": str(tmp_path / "bin")}
    env = clean if name == "PATH" else {**clean, name: str(folder if name == "Halide_DIR" else tmp_path)}
    line = lambda: re.search(r"^  halide .*", attune("doctor", env=env).stdout, re.M)[0]
    assert "not found" in line() and "pip install halide==21.0.0" in line()
    (folder / "HalideConfigVersion.cmake").write_text('set(PACKAGE_VERSION "19.0.1")\n')
    assert str(folder) in line() and "version 19.0.1, needed: 21.0.0" in line()
    (folder / "HalideConfigVersion.cmake").write_text(
        '# of Halide\nset(PACKAGE_VERSION "21.0.0")\nset(PACKAGE_VERSION_EXACT)\n')
    assert str(folder) in line() and "version 21.0.0 (" in line() and "needed" not in line()


@pytest.mark.parametrize("command", [(), ("run",), *(("run", name) for name in COMMANDS), ("variants",), ("doctor",)])
def test_help_has_an_example(attune, command):
    done = attune(*command, "--help")
    assert done.returncode == 0 and done.stderr == ""
    assert "Example" in done.stdout and " ".join(("attune", *command)) in done.stdout


CALL = "dtype threads variant"
PICTURE = "heatmap labels-query labels-key"
DROPOUT = "dropout seed dropout-offset dropout-first-query dropout-first-key dropout-first-head dropout-heads"
INPUTS = f"query key value scale softcap bias alibi mask causal offset window valid-lens cache-lens sinks {DROPOUT} {CALL}"
POOL = "key-pages key-scale key-minimum value-pages value-scale value-minimum"
STEPS = "norm-weight norm-eps rope-base rope-scaling cos sin rope-dim rope-offset interleaved positions hadamard"
ATTENTION = f"{INPUTS} out lse weights weights-mode average-weights {PICTURE}"


@pytest.mark.parametrize("command, options", [
    ("sdpa", f"{ATTENTION} score score-weight invariant"),
    ("sdpa-backward", f"{INPUTS} score score-weight in-out in-lse grad-out grad-lse grad-query grad-key grad-value grad-bias "
                      "grad-slopes grad-sinks grad-score-weight"),
    ("additive", f"{ATTENTION} w-query w-key b-query b-key w-score b-score"),
    ("mha", f"{ATTENTION} heads kv-heads w-query w-key w-value w-out b-query b-key b-value b-out"),
    ("mha-backward", f"{INPUTS} heads kv-heads w-query w-key w-value w-out b-query b-key b-value b-out grad-out grad-query "
                     "grad-key grad-value grad-w-query grad-w-key grad-w-value grad-w-out grad-b-query grad-b-key grad-b-value "
                     "grad-b-out grad-bias grad-slopes grad-sinks"),
    ("linear-backward", f"x weight grad-out grad-x grad-weight grad-bias {CALL}"),
    ("masked-softmax-backward", f"scores in-out grad-out grad-scores valid-lens fill {CALL}"),
    ("varlen", f"query key value cu-seqlens-q cu-seqlens-k out lse score scale softcap alibi causal offset window sinks "
               f"invariant {DROPOUT} {CALL}"),
    ("varlen-backward", "query key value cu-seqlens-q cu-seqlens-k in-out in-lse grad-out grad-lse grad-query grad-key "
                        "grad-value grad-slopes grad-sinks score scale softcap alibi causal offset window sinks "
                        f"{DROPOUT} {CALL}"),
    ("paged", f"query {POOL} cu-seqlens-q block-table lens indptr out lse weight-sums group-sums not-causal distance-bias "
              f"tree-mask positions prefix-table prefix-lens prefix-of scale softcap alibi window sinks invariant {CALL}"),
    ("append", f"key value slots {POOL} pool store {STEPS} rotate-values key-out key-scale-out key-minimum-out value-out "
               "value-scale-out value-minimum-out dtype threads"),
    ("rope", f"x out {STEPS} dtype threads"),
    ("kv-append", "key value key-cache value-cache cache-lens new-lens when-full key-out value-out dtype threads"),
    ("merge", "part out-a lse-a out-b lse-b out lse dtype threads"),
    ("masked-softmax", f"scores out valid-lens fill {PICTURE} {CALL}"),
    ("linear", f"x weight bias out packed {CALL}"),
    ("batch-dot", f"a x out {CALL}"),
    ("dropout-mask", f"shape out {DROPOUT} threads")])
def test_help_names_every_option(attune, command, options):
    text = attune("run", command, "--help").stdout
    assert set(re.findall(r"^  --([a-z-]+)", text, re.M)) == set(options.split())


def test_help_of_run_names_every_command(attune):
    text = attune("run", "--help").stdout
    assert set(COMMANDS) == set(re.findall(r"^  ([a-z][a-z-]+)  ", text, re.M))
