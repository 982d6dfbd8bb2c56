# SPDX-License-Identifier: MIT
"""Options of attention and of the other commands that make no sense: one clear line naming the option, nothing written."""
import numpy as np
import pytest


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "abc", ""])
def test_softcap(problem, text):
    problem.fails("--softcap", "--softcap", text)


@pytest.mark.parametrize("text", ["1.5", "-0.1", "nan", "inf", "half", ""])
def test_dropout(problem, attune, text):
    problem.fails("--dropout", "--dropout", text)
    before = problem.files()
    done = attune("run", "dropout-mask", "--shape", "2,3,4", "--dropout", text, "--out", "mask.npy", cwd=problem.folder)
    assert done.returncode == 2 and done.stderr.startswith("attune: --dropout: ") and problem.files() == before


@pytest.mark.parametrize("option, most", [
    ("--seed", 2**64 - 1), *((f"--dropout-{name}", 2**32 - 1)
                             for name in ("offset", "first-query", "first-key", "first-head", "heads"))])
def test_seed(problem, option, most):
    for text in ("-1", "1.5", "x", "", str(most + 1)):
        problem.fails(option, "--dropout", "0.5", option, text)
    problem.fails(option, option, "1", says="--dropout")


@pytest.mark.parametrize("text", ["2,3", "2,3,4,5,6", "2,,3", "2,-3,4", "a,b,c", "1.5,2,3", "", "99999999999999999999,1,1"])
def test_shape_of_a_mask(problem, attune, text):
    done = attune("run", "dropout-mask", "--shape", text, "--dropout", "0.5", "--out", "mask.npy", cwd=problem.folder)
    assert done.returncode == 2 and done.stderr.startswith("attune: --shape: ") and not (problem.folder / "mask.npy").exists()


def test_mask_beyond_the_limit(problem, attune):
    for shape in ("1,65536,65536", "4294967296,4294967296,4"):
        done = attune("run", "dropout-mask", "--shape", shape, "--dropout", "0.5", "--out", "mask.npy", cwd=problem.folder)
        assert done.returncode == 2 and "2^31" in done.stderr and not (problem.folder / "mask.npy").exists()


BROADCAST = [(3, 4, 3, 5), (2, 3, 3, 5), (2, 4, 2, 5), (2, 4, 3, 4), (2, 4, 3, 0), (2, 2, 3, 5), (3, 4), (5, 3), (4,),
             (0,), (), (1, 2, 4, 3, 5), (2,) * 20]


@pytest.mark.parametrize("option", ["--mask", "--bias"])
@pytest.mark.parametrize("shape", BROADCAST)
def test_shapes_that_do_not_broadcast(problem, option, shape):
    problem.save(bad=np.ones(shape, bool if option == "--mask" else np.float32))
    problem.fails(option, option, "bad.npy")


@pytest.mark.parametrize("option", ["--mask", "--bias"])
@pytest.mark.parametrize("shape", [(3, 3, 4, 3, 5), (2, 2, 4, 3, 5), (2, 2, 3, 4, 3, 5), (2, 4, 3, 5)])
def test_shapes_that_do_not_broadcast_to_more_than_four_extents(problem, option, shape):
    problem.save(**{n: np.stack([problem.load(n)] * 3, axis=1) for n in "qkv"})  # (2, 3, heads, ...)
    problem.save(bad=np.ones(shape, bool if option == "--mask" else np.float32))
    problem.fails(option, option, "bad.npy")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint16, np.int16, np.uint32, np.uint64, np.complex64])
def test_type_of_a_mask(problem, dtype):
    problem.save(bad=np.ones((3, 5), dtype))
    problem.fails("--mask", "--mask", "bad.npy", says="expected bool")


@pytest.mark.parametrize("dtype, value", [(np.uint8, 2), (np.uint8, 255), (np.int8, -1), (np.int32, 2),
                                          (np.int64, 2**32), (np.int64, -1)])
def test_values_of_a_mask(problem, dtype, value):
    bad = np.ones((3, 5), dtype)
    bad[2, 4] = value
    problem.save(bad=bad)
    assert f"holds {value}," in problem.fails("--mask", "--mask", "bad.npy")


def test_bytes_of_a_damaged_mask(problem):
    problem.save(bad=np.ones((3, 5), bool))
    content = bytearray((problem.folder / "bad.npy").read_bytes())
    content[-1] = 77
    (problem.folder / "bad.npy").write_bytes(content)
    problem.fails("--mask", "--mask", "bad.npy", says="77")


@pytest.mark.parametrize("dtype", [bool, np.int32, np.complex64])
def test_types_of_floats(problem, dtype):
    for option, shape in (("--bias", (3, 5)), ("--alibi", (4,)), ("--sinks", (4,))):
        problem.save(bad=np.ones(shape, dtype))
        problem.fails(option, option, "bad.npy", says="expected float32, float64 or float16")


def test_bias_of_another_type(problem):
    problem.save(bad=np.ones((3, 5)))
    problem.fails("--bias", "--bias", "bad.npy", says="--dtype")


@pytest.mark.parametrize("option, shapes", [("--alibi", [(3,), (5,), (0,), (), (3, 4), (2, 3), (2, 4, 1)]),
                                            ("--sinks", [(3,), (5,), (0,), (), (2, 4), (4, 1)])])
def test_shapes_per_head(problem, option, shapes):
    for shape in shapes:
        problem.save(bad=np.ones(shape, np.float32))
        problem.fails(option, option, "bad.npy")


def test_values_beyond_float32(problem):
    problem.save(bad=np.full(4, 1e300))
    for option in ("--alibi", "--sinks"):
        problem.fails(option, option, "bad.npy", says="beyond the range of float32")


@pytest.mark.parametrize("option", ["--mask", "--bias", "--alibi", "--sinks", "--score-weight"])
def test_missing_files(problem, option):
    problem.fails(option, option, "none.npy", says="no such file")
    problem.fails(option, option, "", says="empty")


@pytest.mark.parametrize("option", ["--mask", "--bias", "--alibi", "--sinks"])
def test_output_is_an_option_s_file(problem, option):
    problem.save(x=np.ones(4, np.float32))
    problem.fails("--out", option, "x.npy", out="x.npy", says=f"is also the file of {option}")


@pytest.mark.parametrize("text", ["4", "-1", "x", "1.5", ""])
def test_weights_mode(problem, text):
    problem.fails("--weights-mode", "--weights", "w.npy", "--weights-mode", text)


def test_options_without_what_they_belong_to(problem):
    problem.fails("--weights-mode", "--weights-mode", "1", says="--weights")
    problem.fails("--average-weights", "--average-weights", says="--weights")


def test_score(problem):
    for text in ("dot-product", "additive", "", "DOT"):
        problem.fails("--score", "--score", text)
    problem.fails("--score-weight", "--score", "general")
    for shape in ((8, 7), (7, 8), (8,), (8, 8, 1), (0, 8)):
        problem.save(bad=np.ones(shape, np.float32))
        problem.fails("--score-weight", "--score", "general", "--score-weight", "bad.npy")
    problem.save(W=np.ones((8, 8), np.float32))
    problem.fails("--score-weight", "--score-weight", "W.npy")
    problem.fails("--score-weight", "--score", "cosine", "--score-weight", "W.npy")


@pytest.mark.parametrize("option, shapes", [("w_query", [(7, 7), (0, 8), (7,), (7, 8, 1)]), ("w_key", [(7, 5), (6, 4), (7,)]),
                                            ("b_query", [(6,), (7, 1), (), (0,)]), ("b_key", [(6,), (7, 1)]),
                                            ("w_score", [(6,), (7, 1), ()])])
def test_shapes_of_additive(additive, option, shapes):
    for shape in shapes:
        additive.save(bad=np.ones(shape, np.float32))
        additive.fails("--" + option.replace("_", "-"), **{option: "bad.npy"})


def test_arguments_of_additive(additive):
    for text in ("nan", "inf", "1e999", "abc", ""):
        additive.fails("--b-score", b_score=text)
    for shape in ((2,), (1, 1), (0,)):
        additive.save(bad=np.ones(shape, np.float32))
        additive.fails("--b-score", b_score="bad.npy", says="one number")
    # Without projections the widths must agree; a bias belongs to a projection.
    assert additive.run(w_query=None).returncode == 2 and additive.run(w_query=None, w_key=None).returncode == 2
    additive.save(b=np.ones(8, np.float32))
    additive.fails("--b-query", w_query=None, b_query="b.npy")
    additive.fails("--score", "--score", "cosine", says="not an argument here")


def test_heads_that_do_not_divide(mha):
    mha.save(wq=np.ones((512, 8), np.float32))
    assert "512" in mha.fails("--heads", heads="7", says="not divisible by 7 heads")


@pytest.mark.parametrize("text", ["0", "-4", "2.5", "many", "", "4294967296", "99999999999999999999"])
def test_heads(mha, text):
    mha.fails("--heads", heads=text)
    mha.fails("--kv-heads", kv_heads=text)


@pytest.mark.parametrize("option, shape, names", [
    ("w_query", (16, 7), "w-query"), ("w_query", (12, 8), "w-query b-query w-key"), ("w_key", (8, 5), "w-key"),
    ("w_key", (6, 6), "w-key b-key"), ("w_value", (10, 6), "w-value"), ("w_value", (9, 7), "w-value kv-heads b-value"),
    ("w_out", (9, 19), "w-out"), ("w_out", (8, 20), "b-out"), ("b_query", (15,), "b-query"), ("b_key", (16,), "b-key"),
    ("b_value", (1,), "b-value"), ("b_out", (0,), "b-out")])
def test_shapes_of_multi_head(mha, option, shape, names):
    mha.save(bad=np.ones(shape, np.float32))
    done = mha.run(**{option: "bad.npy"})
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and not (mha.folder / "o.npy").exists()
    assert any(done.stderr.startswith(f"attune: --{name}: ") for name in names.split()), done.stderr


def test_inputs_of_multi_head(mha):
    for name in ("query", "key", "value"):
        for shape in ((2, 8), (8,), (2, 4, 5, 8)):
            mha.save(bad=np.ones(shape, np.float32))
            assert mha.run(**{name: "bad.npy"}).returncode == 2
    mha.save(bad=mha.load("wk").astype(np.float64))
    mha.fails("--w-key", w_key="bad.npy", says="--dtype")
    done = mha.program("run", "mha", "--query", "q.npy", cwd=mha.folder)
    assert done.returncode == 2 and done.stderr.startswith("attune: --")


def test_softmax(softmax):
    for text in ("one", "", "0"):
        softmax.fails("--fill", "--fill", text)
    for lens in ([6, 1], [-1, 1], [1], [[1, 2], [3, 4]], 3):
        softmax.save(lens=np.array(lens, np.int32))
        softmax.fails("--valid-lens", "--valid-lens", "lens.npy")
    for shape in ((5,), ()):
        softmax.save(bad=np.ones(shape, np.float32))
        softmax.fails("--scores", scores="bad.npy", says="expected (B, H, Sq, Sk)")
    softmax.save(s=np.ones((2, 2, 3, 4, 5), np.float32), lens=np.array([1, 2, 3, 4]))
    softmax.fails("--valid-lens", "--valid-lens", "lens.npy", says="leading extents (2, 2)")
    softmax.fails("--heatmap", "--heatmap", "s.npy", says="is also the file of --scores")


def test_linear(linear):
    for name, shape in (("weight", (5, 7)), ("weight", (8,)), ("bias", (4,)), ("bias", (5, 1)), ("x", ()), ("weight", (0, 8))):
        linear.save(bad=np.ones(shape, np.float32))
        linear.fails(f"--{name}", **{name: "bad.npy"})
    linear.save(x=np.ones((70000, 1), np.float32), w=np.ones((70000, 1), np.float32))
    linear.fails("--out", bias=None, says="2^31")


def test_batch_dot(batch_dot):
    for shape in ((2, 3, 5), (3, 4, 5), (4, 5), (4,), (2, 2, 4, 5), (2, 1, 2, 4, 5)):
        batch_dot.save(bad=np.ones(shape, np.float32))
        batch_dot.fails("--x", x="bad.npy")


@pytest.mark.parametrize("command", ["additive", "mha", "softmax", "linear", "batch_dot"])
def test_of_every_command(request, command):
    problem = request.getfixturevalue(command)
    problem.fails("--threads", "--threads", "-1", says="at least 1, or 0")
    problem.fails("--threads", "--threads", "1.5")
    problem.fails("--dtype", "--dtype", "f8")
    problem.fails("--variant", "--variant", "nothing_f32", says="nothing_f32")
    problem.fails("--out", out="none/o.npy", says="folder does not exist")
    first, file = next(iter(problem.given.items()))
    problem.fails(f"--{first}", **{first: "none.npy"}, says="no such file")
    problem.fails("--out", out=file, says="is also the file of")
    problem.fails("--sideways", "--sideways")


OF_PARAMETERS = [("--variant", "*"), ("--picture", "p.svg"), ("--from", "generic"), ("--capture", "rate=1"), ("--threads", "1"),
                 ("--jobs", "1"), ("--strategy", "random"), ("--cold",), ("--identical", "1")]
OF_CONTENDERS = [("--contender", "root=root"), ("--build", "."), ("--capture", "rate=1"), ("--processes", "1")]
OF_ONE_OP = [("--dispatch",), ("--device",), ("--variant", "*"), ("--capture", "rate=1"), ("--picture", "p.svg"),
             ("--identical", "1")]


@pytest.mark.parametrize("command, option", [
    *((("tune", "sdpa", "--dispatch"), option) for option in OF_PARAMETERS), (("tune", "--dispatch"), ("--cold",)),
    *((("tune", "--all"), option) for option in OF_ONE_OP),
    *((("compare", "sdpa", "--dispatch"), option) for option in OF_CONTENDERS)])
def test_options_without_effect(attune, tmp_path, command, option):
    for words in ((*command, *option), (*command[:-1], *option, command[-1])):
        done = attune(*words, cwd=tmp_path)
        assert done.returncode == 2 and done.stdout == "", words
        assert done.stderr == f"attune: {option[0]}: cannot be given with {command[-1]}\n", (words, done.stderr)
        assert not any(tmp_path.iterdir()), "something was written"


def test_options_of_dispatch_alone(attune, tmp_path):
    for words, says in [(("compare", "sdpa", "--count", "3"), "--count: needs --dispatch"),
                        (("compare", "sdpa", "--seed", "3"), "--seed: needs --dispatch"),
                        (("compare", "sdpa", "--device"), "--device: needs --dispatch"),
                        (("compare", "sdpa", "--dispatch", "--device", "--threads", "1"),
                         "--threads: cannot be given with --device"),
                        (("tune", "sdpa", "--device"),
                         "--device: needs --dispatch: parameters of kernels for a device are swept by hand"),
                        (("tune", "sdpa", "--dispatch", "--records", "a", "b"), "--records: takes one file with --dispatch"),
                        (("tune", "sdpa", "--all"), "--all: is for every op, not for sdpa")]:
        done = attune(*words, cwd=tmp_path)
        assert done.returncode == 2 and done.stdout == "" and done.stderr == f"attune: {says}\n", (words, done.stderr)
        assert not any(tmp_path.iterdir()), "something was written"


def test_kernels_for_a_device_that_the_program_lacks(attune, tmp_path):
    for words in [("explain", "sdpa", "--device", "q=1"), ("tune", "--dispatch", "--device"),
                  ("compare", "sdpa", "--dispatch", "--device")]:
        done = attune(*words, cwd=tmp_path)
        assert done.returncode == 1 and done.stdout == "", (words, done.stdout)
        assert done.stderr == "attune: device: this program has no kernels for one (preset cuda)\n", (words, done.stderr)
