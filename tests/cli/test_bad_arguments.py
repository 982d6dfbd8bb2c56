# SPDX-License-Identifier: MIT
"""Arguments that make no sense, alone or together: one clear line naming the argument, exit code 2, nothing written."""
import os

import numpy as np
import pytest


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "abc", "1.5x", "", " 1", "0x10"])
def test_scale(problem, text):
    problem.fails("--scale", "--scale", text)


@pytest.mark.parametrize("text", ["-3", "2.5", "many", "", "99999999999999999999", "1000000"])
def test_threads(problem, text):
    problem.fails("--threads", "--threads", text)


@pytest.mark.parametrize("text", ["-2,0", "0,-2", "3", "3,", ",3", "a,b", "1,2,3", "1.5,2", "", "99999999999999999999,0",
                                  "1 ,2"])
def test_window(problem, text):
    problem.fails("--window", "--window", text)


@pytest.mark.parametrize("text", ["1.5", "99999999999999999999", "-99999999999999999999", "--", ""])
def test_offset(problem, text):
    problem.fails("--offset", "--causal", "offset", "--offset", text)


def test_offset_missing(problem):
    problem.fails("--causal", "--causal", "offset", says="--offset")


@pytest.mark.parametrize("text", ["left", "TOP-LEFT", "top_left", "", "none"])
def test_causal(problem, text):
    problem.fails("--causal", "--causal", text)


@pytest.mark.parametrize("text", ["f8", "half", "float32", ""])
def test_dtype(problem, text):
    problem.fails("--dtype", "--dtype", text)


def test_mixed_types(problem):
    for argument in ("key", "value"):
        problem.save(bad=problem.load(argument[0]).astype(np.float64))
        problem.fails(f"--{argument}", says="--dtype", **{argument: "bad.npy"})


def test_unknown_variant(problem):
    problem.fails("--variant", "--variant", "sdpa_f32_d1_nothing", says="sdpa_f32_d1_nothing")
    problem.fails("--variant", "--variant", "", says="empty")


def test_variant_of_another_type(problem):
    problem.fails("--variant", "--variant", "sdpa_f64_dany_generic_root")


def test_forced_variant_from_the_environment(problem):
    done = problem.run(env={"ATTUNE_FORCE_VARIANT": "sdpa_f32_d1_nothing"})
    assert done.returncode == 2 and "sdpa_f32_d1_nothing" in done.stderr and done.stderr.count("\n") == 1
    assert not (problem.folder / "o.npy").exists()


@pytest.mark.parametrize("argument, shape", [("key", (3, 2, 5, 8)), ("key", (2, 2, 5, 7)), ("key", (2, 5, 8)),
                                             ("value", (3, 2, 5, 6)), ("value", (2, 1, 5, 6)), ("value", (2, 2, 4, 6)),
                                             ("value", (2, 2, 5, 0)), ("value", (2, 5, 6)), ("query", (2, 4, 3, 0))])
def test_shapes_that_do_not_match(problem, argument, shape):
    problem.save(bad=np.ones(shape, np.float32))
    problem.fails(f"--{argument}", **{argument: "bad.npy"})


@pytest.mark.parametrize("heads", [0, 3, 8])
def test_heads_that_do_not_divide(problem, heads):
    problem.save(bad=np.ones((2, heads, 5, 8), np.float32))
    problem.fails("--key", key="bad.npy", value="bad.npy", says="heads")


def test_results_beyond_the_limit(problem):
    # Small files whose result would be huge.
    long = np.ones((1, 1, 70000, 1), np.float32)
    problem.save(q=long, k=long, v=long,
                 wide=np.ones((1, 1, 1, 70000), np.float32), one=np.ones((1, 1, 1, 1), np.float32))
    problem.fails("--weights", "--weights", "w.npy", "--window", "0,0", says="2^31")
    problem.fails("--out", key="one.npy", value="wide.npy", says="2^31")
    problem.save(none=np.ones((1, 1, 0, 2**40), np.float32))
    problem.fails("--out", key="k.npy", value="none.npy", says="2^31")


@pytest.mark.parametrize("lens", [[6, 1], [-1, 1], [1], [1, 2, 3], [[1, 2], [3, 4]], [[[1]]], 3])
def test_valid_lens(problem, lens):
    problem.save(lens=np.array(lens, np.int32))
    problem.fails("--valid-lens", "--valid-lens", "lens.npy")


@pytest.mark.parametrize("off", [[1], [1, 2, 3], [[1, 2]], 3])
def test_offsets(problem, off):
    problem.save(off=np.array(off, np.int32))
    problem.fails("--offset", "--causal", "offset", "--offset", "off.npy")


OUTPUTS = {"--out": "o.npy", "--lse": "lse.npy", "--weights": "w.npy", "--heatmap": "w.svg"}


def with_output(problem, argument, path):
    files = {**OUTPUTS, argument: path}
    more = [x for name, file in files.items() if name != "--out" for x in (name, file)]
    return dict(arguments=more, out=files["--out"])


@pytest.fixture(params=list(OUTPUTS))
def output(request):
    return request.param


def refuses_output(problem, argument, path, says):
    given = with_output(problem, argument, path)
    return problem.fails(argument, *given["arguments"], out=given["out"], says=says)


def test_output_in_a_missing_folder(problem, output):
    refuses_output(problem, output, "none/o.npy", "folder does not exist")


def test_output_below_a_file(problem, output):
    refuses_output(problem, output, "q.npy/o.npy", "folder")


def test_output_is_a_directory(problem, output):
    (problem.folder / "folder").mkdir()
    refuses_output(problem, output, "folder", "is a directory")
    refuses_output(problem, output, "folder/", "is a directory")


def test_output_is_a_device(problem, output):
    refuses_output(problem, output, "/dev/null", "not a regular file")


def test_output_cannot_be_created(problem, output):
    refuses_output(problem, output, "/proc/attune-o.npy", "cannot be written")
    refuses_output(problem, output, "x" * 300, "cannot be written")


def test_output_is_write_protected(problem, output):
    if os.geteuid() == 0:
        pytest.skip("the superuser may write everywhere")
    (problem.folder / "locked").mkdir(mode=0o555)
    refuses_output(problem, output, "locked/o.npy", "cannot be written")


@pytest.mark.parametrize("name", ["q.npy", "k.npy", "v.npy", "./q.npy", "sub/../k.npy", "link.npy", "hard.npy", "lens.npy",
                                  "off.npy", "a.txt"])
def test_output_is_an_input(problem, output, name):
    (problem.folder / "sub").mkdir()
    (problem.folder / "link.npy").symlink_to("q.npy")
    os.link(problem.folder / "q.npy", problem.folder / "hard.npy")
    (problem.folder / "a.txt").write_text("a\n" * 5)
    problem.save(lens=np.array([1, 2], np.int32), off=np.array([1, 2], np.int32))
    given = with_output(problem, output, name)
    problem.fails(output, *given["arguments"], "--valid-lens", "lens.npy", "--offset", "off.npy", "--labels-key", "a.txt",
                  out=given["out"], says="is also the file of")


@pytest.mark.parametrize("a, b", [("--out", "--lse"), ("--out", "--weights"), ("--lse", "--heatmap"),
                                  ("--weights", "--heatmap")])
@pytest.mark.parametrize("exists", [False, True])
def test_two_outputs_in_one_file(problem, a, b, exists):
    if exists:
        (problem.folder / "same").write_bytes(b"old")
    files = {**OUTPUTS, a: "same", b: "./same"}
    more = [x for name, file in files.items() if name != "--out" for x in (name, file)]
    problem.fails(b, *more, out=files["--out"], says=f"is also the file of {a}")


def test_an_old_result_survives_a_failure(problem):
    (problem.folder / "o.npy").write_bytes(b"old")
    problem.fails("--value", value="none.npy")
    problem.fails("--scale", "--scale", "nan")
    assert (problem.folder / "o.npy").read_bytes() == b"old"


def test_usage(attune):
    for arguments, argument in [((), "command"), (("run",), "command"), (("fly",), "fly"), (("run", "fly"), "fly"),
                                (("--fast",), "--fast"), (("run", "sdpa"), "--query"), (("run", "linear"), "--x"),
                                (("run", "sdpa", "--query", "q.npy"), "--key"), (("run", "sdpa", "--query"), "--query"),
                                (("variants", "--xml"), "--xml"), (("tune", "sdpa", "--time", "-1"), "--time"),
                                (("tune", "sdpa", "--capture", "rate=1"), "--capture"), (("tune", "merge"), "merge"),
                                (("tune", "sdpa", "--picture", "none/p.svg"), "--picture"),
                                (("compare", "sdpa", "--picture", "/dev/null"), "--picture"),
                                (("compare", "sdpa", "--threads", "-1"), "--threads"),
                                (("tune", "sdpa", "--jobs", "1.5"), "--jobs"),
                                (("tune", "sdpa", "--threads", "0", "--variant", "nothing"), "sdpa"),
                                (("doctor", "now"), "now"), (("tune", "spda"), "spda"),
                                (("run", "sdpa", "--query", "a", "--query", "b"), "--query"),
                                (("run", "dropout-mask", "--shape", "1,1,1", "--out", "o"), "--dropout"),
                                (("variants", "--json", "a\nb"), "a?b")]:
        done = attune(*arguments)
        assert done.returncode == 2 and done.stdout == "", arguments
        assert done.stderr.startswith(f"attune: {argument}: ") and done.stderr.count("\n") == 1, (arguments, done.stderr)


def test_unknown_option_of_run(problem):
    problem.fails("--heads", "--heads", "3")
    problem.fails("more.npy", "more.npy")


@pytest.mark.parametrize("argument", ["query", "key", "value", "out"])
def test_empty_file_names(problem, argument):
    problem.fails(f"--{argument}", **{argument: ""})
