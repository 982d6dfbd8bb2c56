# SPDX-License-Identifier: MIT
"""Input files that are not what they should be: one clear line naming the argument, exit code 2, nothing written."""
import io
import os
import pickle
import resource
import struct
import warnings

import numpy as np
import pytest

GOOD = np.ones((2, 4, 3, 8), np.float32)  # the shape of q.npy


def npy(header, data=b"", version=(1, 0), length=None):
    """A .npy file of any header."""
    text = header.encode("latin1")
    size = struct.pack("<H" if version[0] == 1 else "<I", len(text) if length is None else length)
    return b"\x93NUMPY" + bytes(version) + size + text + data


def header(descr="'<f4'", order="False", shape="(2, 4, 3, 8)", more=""):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, {more}}}\n"


@pytest.fixture(params=["query", "key", "value"])
def argument(request):
    return request.param


@pytest.fixture
def refuses(problem):
    """Refuses these bytes as the query file."""
    def check(content, says, argument="--query"):
        (problem.folder / "bad.npy").write_bytes(content)
        return problem.fails(argument, query="bad.npy", says=says)
    return check


def test_missing(problem, argument):
    problem.fails(f"--{argument}", says="no such file", **{argument: "none.npy"})


def test_missing_optional(problem):
    problem.fails("--valid-lens", "--valid-lens", "none.npy", says="no such file")
    problem.fails("--offset", "--offset", "none.npy", says="no such file")
    problem.fails("--labels-query", "--heatmap", "w.svg", "--labels-query", "none.txt", says="no such file")
    problem.fails("--labels-key", "--heatmap", "w.svg", "--labels-key", "none.txt", says="no such file")


def test_directory(problem, argument):
    (problem.folder / "folder").mkdir()
    problem.fails(f"--{argument}", says="is a directory", **{argument: "folder"})


def test_pipe(problem):
    os.mkfifo(problem.folder / "pipe")
    done = problem.run(query="pipe")
    assert done.returncode == 2 and done.stderr == "attune: --query: pipe: is not a regular file\n"


def test_name_with_a_line_break(problem):
    assert "no?such.npy" in problem.fails("--query", query="no\nsuch.npy")


@pytest.mark.parametrize("content", [b"", b"\x93NUM", b"hello, world\n", b"\x92NUMPY" + bytes(100), bytes(200)])
def test_not_npy(refuses, content):
    refuses(content, "is not a .npy file")


def test_npz(problem, refuses):
    np.savez(problem.folder / "many.npz", GOOD)
    problem.fails("--query", query="many.npz", says=".npz")


def test_unknown_version(refuses):
    for version in ((0, 0), (4, 0), (255, 255), (1, 128), (1, 1), (2, 3), (3, 1), (3, 255)):
        refuses(npy(header(), GOOD.tobytes(), version), f"version {version[0]}.{version[1]} of the format")


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_truncated_header(refuses, version):
    whole = npy(header(), b"", version)
    for size in range(6, len(whole)):
        refuses(whole[:size], "truncated in its header")


def test_header_length_beyond_the_file(refuses):
    refuses(npy(header(), GOOD.tobytes(), (2, 0), length=2**32 - 1), "truncated in its header")


@pytest.mark.parametrize("size, version", [(2 << 20, (2, 0)), (10001, (2, 0)), (10001, (1, 0))])
def test_huge_header(refuses, size, version):
    refuses(npy(header().ljust(size), GOOD.tobytes(), version), "expected at most 10000")


def test_largest_header(problem):
    (problem.folder / "q.npy").write_bytes(npy(header().ljust(10000), problem.load("q").tobytes()))
    problem.succeeds()


@pytest.mark.parametrize("missing", [1, 4, 100, GOOD.nbytes])
def test_truncated_data(refuses, missing):
    refuses(npy(header(), GOOD.tobytes()[:-missing]), "truncated")


@pytest.mark.parametrize("dtype, shape, argument", [("<f2", (1, 2, 2**23, 129), "key"), ("|b1", (2**16, 2**15), "mask"),
                                                    ("<i4", (2, 2**31), "valid-lens"), ("<f8", (2, 2**30), "bias")])
def test_arrays_beyond_the_limit_are_not_read(problem, dtype, shape, argument):
    """Refused by the header: what the elements take is more than the process may have."""
    if os.environ.get("ATTUNE_SANITIZED") == "1":
        pytest.skip("the address sanitizer cannot run in limited address space")
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n"
    with open(problem.folder / "bad.npy", "wb") as file:
        file.write(npy(text))
        file.truncate(file.tell() + int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize)
    words = [] if argument == "key" else ["--" + argument, "bad.npy"]
    done = problem.run(*words, limit=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)),
                       key="bad.npy" if argument == "key" else "k.npy")
    assert done.returncode == 2 and done.stderr == (f"attune: --{argument}: bad.npy: has shape "
                                                    f"{str(shape)}, more than 2^31 - 1 elements\n"), done
    (problem.folder / "bad.npy").unlink()


def test_headers_are_compared_before_elements_are_read(problem):
    if os.environ.get("ATTUNE_SANITIZED") == "1":
        pytest.skip("the address sanitizer cannot run in limited address space")
    with open(problem.folder / "v.npy", "wb") as file:
        file.write(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2, 5, 90000000), }\n"))
        file.truncate(file.tell() + 2 * 2 * 5 * 90000000 * 8)
    done = problem.run(limit=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)))
    assert (done.returncode, done.stderr) == (2, "attune: --value: is float64 and --query is float32; --dtype converts\n"), done
    (problem.folder / "v.npy").unlink()


@pytest.mark.parametrize("more", [1, 4, 1000])
def test_trailing_bytes(refuses, more):
    refuses(npy(header(), GOOD.tobytes() + bytes(more)), f"{more} bytes after the array")


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">i4"])
def test_big_endian(problem, argument, dtype):
    problem.save(bad=problem.load(argument[0]).astype(dtype))
    problem.fails(f"--{argument}", says="big-endian", **{argument: "bad.npy"})


@pytest.mark.parametrize("dtype, name", [(np.int32, "int32"), (np.int64, "int64"), (np.uint8, "uint8"), (bool, "bool"),
                                         (np.complex64, "complex64"), (np.complex128, "complex128"), (">f2", "float16"),
                                         ("U3", "<U3"), ("S3", "|S3"), ("M8[s]", "<M8[s]")])
def test_other_types(problem, argument, dtype, name):
    problem.save(bad=problem.load(argument[0]).astype(np.float32).astype(np.int64).astype(dtype))
    problem.fails(f"--{argument}", says=name, **{argument: "bad.npy"})


def test_structured_type(problem):
    problem.save(bad=np.zeros((2, 4, 3, 8), [("x", "<f4"), ("(odd])", "<i4", (2,))]))
    problem.fails("--query", query="bad.npy", says="structured")


class Bomb:
    def __reduce__(self):
        return (os.mkdir, ("exploded",))


def test_objects_are_not_unpickled(problem, refuses):
    refuses(npy(header("'|O'", shape="(1,)"), pickle.dumps([Bomb()])), "never unpickled")
    assert not (problem.folder / "exploded").exists()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint32, np.int8, bool])
def test_integers_of_other_types(problem, dtype):
    problem.save(bad=np.ones(2, dtype))
    problem.fails("--valid-lens", "--valid-lens", "bad.npy", says="expected int32 or int64")
    problem.fails("--offset", "--offset", "bad.npy", says="expected int32 or int64")


@pytest.mark.parametrize("value", [2**31, -2**31 - 1, 2**63 - 1, -2**63])
def test_int64_out_of_range(problem, value):
    problem.save(bad=np.array([1, value], np.int64))
    problem.fails("--valid-lens", "--valid-lens", "bad.npy", says="beyond the range of int32")
    problem.fails("--offset", "--offset", "bad.npy", says="beyond the range of int32")


def test_float64_out_of_range(problem):
    v = problem.load("v").astype(np.float64)
    v[1, 1, 1, 1] = 1e300
    problem.save(bad=v)
    problem.fails("--value", "--dtype", "f32", value="bad.npy", says="beyond the range of float32")


@pytest.mark.parametrize("shape", ["(9223372036854775807,)", "(4611686018427387904, 4)", "(4294967296, 4294967296, 4294967296)",
                                   "(0, 9223372036854775807, 9223372036854775807)", "(2305843009213693952, 1, 1)"])
def test_shapes_whose_product_overflows(refuses, shape):
    refuses(npy(header(shape=shape), bytes(4)), "too large")


@pytest.mark.parametrize("shape", ["(1000000, 1000, 1000, 1000)", "(1, 1, 1152921504606846975)"])
def test_huge_shapes_in_tiny_files(refuses, shape):
    refuses(npy(header(shape=shape), bytes(64)), "truncated")


@pytest.mark.parametrize("shape, says", [("(-1, 4)", "negative"), ("(99999999999999999999,)", "beyond 2^63"),
                                         ("(1.5, 2)", "'shape'"), ("(192)", "one extent is written (192,)"),
                                         ("192", "'shape'"), ("(02, 4, 3, 8)", "'shape'"),
                                         ("(2, 4, 3, True)", "'shape'"), ("(2, 4, 3, 8) 1", "parsed"),
                                         ("(2, 4, None)", "'shape'"),
                                         ("(2 4, 3, 8)", "'shape'"), ("(+2, 4, 3, 8)", "'shape'"), ("(2,, 4, 3, 8)", "'shape'"),
                                         ("(2, 4", "'shape'"), ("[2, 4]", "'shape'"), ("()()", "parsed"), ("(,)", "'shape'"),
                                         ("(" + "1," * 65 + ")", "more than 64")])
def test_odd_shapes(refuses, shape, says):
    refuses(npy(header(shape=shape), GOOD.tobytes()), says)


@pytest.mark.parametrize("text", ["", "{", "}", "{}", "{'descr'}", "{'descr': }", "{'descr': '<f4'}", "[1, 2]", "\x00" * 50,
                                  "{" * 10000, "{'descr': [" + "(" * 60000, header() + "x", header(order="Maybe"),
                                  header(order="1"), header(descr="3"),
                                  header(descr="'<f4"), header(more="'descr': '<f4', "), header(more="'other': 1, ")])
def test_headers_that_cannot_be_parsed(refuses, text):
    refuses(npy(text, GOOD.tobytes()), "header")


def test_headers_that_only_version_3_refuses(problem, refuses):
    text = header(shape="(2L, 4L, 3L, 8L)")
    refuses(npy(text, GOOD.tobytes(), (3, 0)), "'shape'")
    (problem.folder / "q.npy").write_bytes(npy(text, problem.load("q").tobytes(), (2, 0)))
    problem.succeeds()


def accepted_by_numpy(content):
    """The shape that NumPy reads, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False).shape
        except Exception:
            return None


@pytest.mark.parametrize("seed", range(3))
def test_what_is_accepted_numpy_accepts(problem, seed):
    """Headers a few changes away from a legal one: where the program reads a file, NumPy reads the same shape."""
    rng = np.random.default_rng(seed)
    words = ["0", "1", "2", "00", "012", "-1", "1_0", "0x2", "True", "2L", "2 L", "(", ")", ",", ",,", "[", "]", "'", '"', "\\",
             "\n", "\r", "\v", "\f", "\t", " ", "#", "{", "}", ":", "u", "b", "None", "False", "\x00", "\xa0", "\n "]
    read = 0
    for _ in range(70):
        text = header(shape=rng.choice(["(2, 4, 3, 8)", "(192,)", "(1, 192)", "(192)", "(0, 4, 3, 8)"]))
        for _ in range(rng.integers(0, 3)):
            at = int(rng.integers(0, len(text)))
            text = text[:at] + str(rng.choice(words)) + text[at + int(rng.integers(0, 2)):]
        version = ((1, 0), (2, 0), (3, 0), (1, 2))[rng.integers(0, 4)]
        try:
            content = npy(text, b"" if "(0," in text else GOOD.tobytes(), version)
        except UnicodeEncodeError:
            continue
        (problem.folder / "bad.npy").write_bytes(content)
        done = problem.run(query="bad.npy")
        refused = done.returncode == 2 and ": bad.npy: " in done.stderr
        shape = accepted_by_numpy(content)
        assert refused or shape is not None, (seed, content[:200], done)
        read += not refused
    assert read, seed


@pytest.mark.parametrize("text", [header(shape="(2L, 4L, 3L, 8L)"), header().replace("'", '"'), header().replace(" ", ""),
                                  "{'shape': (2, 4, 3, 8), 'fortran_order': False, 'descr': '<f4'}"])
def test_headers_that_are_legal(problem, text):
    (problem.folder / "q.npy").write_bytes(npy(text, problem.load("q").tobytes()))
    problem.succeeds()


@pytest.mark.parametrize("shape", [(), (8,)])
def test_rank(problem, argument, shape):
    problem.save(bad=np.ones(shape, np.float32))
    problem.fails(f"--{argument}", says="expected (B, H, S, D), (B, S, D) or (S, D)", **{argument: "bad.npy"})


@pytest.mark.parametrize("shape", [(3, 8), (4, 3, 8), (1, 2, 4, 3, 8), (1,) * 32])
def test_ranks_that_differ(problem, shape):
    problem.save(bad=np.ones(shape, np.float32))
    problem.fails("--key", key="bad.npy", says="as many extents as --query has")
    problem.fails("--value", value="bad.npy", says="as many extents as --query has")
    problem.fails("--key", query="bad.npy", says="as many extents as --query has")


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_never_crash(problem, seed):
    rng = np.random.default_rng(seed)
    whole = (problem.folder / "q.npy").read_bytes()
    for _ in range(40):
        damaged = bytearray(whole)
        for at in rng.integers(0, 128, rng.integers(1, 5)):
            damaged[at] = rng.integers(0, 256)
        if rng.random() < 0.2:
            damaged = damaged[: rng.integers(0, len(damaged))]
        (problem.folder / "bad.npy").write_bytes(damaged)
        done = problem.run(query="bad.npy")
        assert done.returncode in (0, 2), (bytes(damaged[:128]), done)
        assert done.stderr.count("\n") == (done.returncode == 2)
