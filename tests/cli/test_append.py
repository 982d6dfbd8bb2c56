# SPDX-License-Identifier: MIT
"""attune run append and rope against NumPy: norm, RoPE, Hadamard rotation, and quantisation to int8 and int4, bit for bit."""
import numpy as np
import pytest
from conftest import Problem, normal
from element_types import BF16, F16, F32, F64
from judging import judge, reference_and_plain
from rows_numpy import Rope, int4_of, int8_by_scale, int8_of, rope_tables, steps

ROWS, HEADS, POSITIONS = 7, 2, 40


@pytest.fixture
def rope(attune, tmp_path):
    p = Problem(attune, tmp_path, "rope", x="x.npy", out="o.npy")
    p.save(x=normal(np.random.default_rng(20), ROWS, HEADS, 24), at=np.array([3, 0, 39, 7, 7, 12, 1]))
    return p


def with_steps(rng, channels, name):
    """Words, arrays, and steps() of some kinds of steps."""
    words, arrays, how, dim, offset = [], {}, {}, channels, 0
    if "norm" in name:
        arrays["w"] = how["weight"] = normal(rng, *((HEADS, channels) if "heads" in name else (channels,)))
        how["eps"] = 1e-3
        words += ["--norm-weight", "w.npy", "--norm-eps", "1e-3"]
    if "part" in name:
        dim, offset = channels - 8, 4
        words += ["--rope-dim", str(dim), "--rope-offset", str(offset)]
    if "tables" in name:
        arrays["cos"], arrays["sin"] = rope_tables(500, POSITIONS, dim)
        words += ["--cos", "cos.npy", "--sin", "sin.npy"]
    if "base" in name:
        words += ["--rope-base", "10000", "--rope-scaling", "2.5"]
    if "base" in name or "tables" in name:
        tables = rope_tables(500, POSITIONS, dim) if "tables" in name else rope_tables(10000, POSITIONS, dim, 2.5)
        how["rope"] = Rope(*tables, offset, "interleaved" in name)
        words += ["--positions", "at.npy"] + (["--interleaved"] if "interleaved" in name else [])
    if "hadamard" in name:
        how["hadamard"] = True
        words += ["--hadamard"]
    return words, arrays, how


KINDS = ["norm", "norm heads", "tables", "base", "tables interleaved", "base interleaved", "base part",
         "tables part interleaved", "hadamard", "norm heads base hadamard", "norm tables part interleaved hadamard"]


@pytest.mark.parametrize("of", [F32, F64, F16, BF16], ids=lambda of: of.name)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rank", [3, 4])
def test_rope(rope, of, kind, rank):
    rng = np.random.default_rng(21)
    words, arrays, how = with_steps(rng, 24, kind)
    x, at = rope.load("x"), rope.load("at")
    if rank == 4:  # (B, H, S, D), with positions (B, S)
        x, at = normal(rng, 3, HEADS, ROWS, 24), rng.integers(0, POSITIONS, (3, ROWS))
    if "w" in arrays:
        arrays["w"] = how["weight"] = of.of(arrays["w"])
    x = of.of(x)
    rope.save(**arrays, x=x, at=at)
    got = rope.succeeds(*words, *(["--dtype", "bf16"] if of is BF16 else []))
    rows = np.swapaxes(x, -3, -2) if rank == 4 else x  # (..., T, H, D)

    def compute(dtype, order):
        y = steps(rows, at, dtype, order, **how)
        return np.swapaxes(y, -3, -2) if rank == 4 else y

    exact, plain = reference_and_plain(compute, of)
    judge("out", got, plain, exact, of)


def test_rotation_is_its_own_inverse(rope):
    rope.succeeds("--hadamard")
    rope.succeeds("--hadamard", x="o.npy", out="back.npy")
    assert np.abs(rope.load("back") - rope.load("x")).max() < 2e-6


def test_rows_of_nothing(rope):
    rope.save(x=np.zeros((0, HEADS, 24), np.float32), at=np.zeros(0, np.int32))
    assert rope.succeeds("--rope-base", "100", "--positions", "at.npy").shape == (0, HEADS, 24)


@pytest.mark.parametrize("option, words, says", [
    ("--positions", ["--rope-base", "100"], "RoPE needs it"),
    ("--positions", ["--rope-base", "100", "--positions", "negative.npy"], "must not be negative"),
    ("--positions", ["--cos", "c.npy", "--sin", "c.npy", "--positions", "at.npy"], "have 9 positions"),
    ("--sin", ["--cos", "c.npy", "--positions", "at.npy"], "is not given"),
    ("--cos", ["--cos", "w.npy", "--sin", "c.npy", "--positions", "at.npy"], "expected (positions, dim / 2)"),
    ("--rope-base", ["--rope-base", "0", "--positions", "at.npy"], "more than 1"),
    ("--rope-base", ["--rope-base", "1", "--positions", "at.npy"], "more than 1"),
    ("--rope-base", ["--rope-base", "ten", "--positions", "at.npy"], "not a number"),
    ("--rope-base", ["--rope-base", "9", "--cos", "c.npy", "--sin", "c.npy", "--positions", "at.npy"], "beside tables"),
    ("--rope-scaling", ["--rope-base", "9", "--rope-scaling", "0", "--positions", "at.npy"], "more than 0"),
    ("--rope-dim", ["--rope-dim", "8"], "without tables and base"),
    ("--rope-dim", ["--rope-base", "9", "--rope-dim", "7", "--positions", "at.npy"], "even"),
    ("--rope-dim", ["--rope-base", "9", "--rope-dim", "x"], "not a whole number"),
    ("--rope-offset", ["--rope-base", "9", "--rope-dim", "8", "--rope-offset", "17", "--positions", "at.npy"], "exceed"),
    ("--interleaved", ["--interleaved"], "RoPE"),
    ("--norm-eps", ["--norm-eps", "1e-5"], "--norm-weight"),
    ("--norm-eps", ["--norm-weight", "w.npy", "--norm-eps", "-1"], "negative"),
    ("--norm-weight", ["--norm-weight", "short.npy"], "last extent"),
    ("--hadamard", ["--hadamard", "--x", "x12.npy"], "multiple of 8"),
    ("--x", ["--hadamard", "--x", "w.npy"], "expected (T, H, D)"),
])
def test_bad_steps(rope, option, words, says):
    rope.save(negative=np.arange(ROWS) - 3, c=np.ones((9, 12), np.float32), w=np.ones(24, np.float32),
              short=np.ones(23, np.float32), x12=np.ones((ROWS, HEADS, 12), np.float32))
    x = None if "--x" in words else "x.npy"
    rope.fails(option, *words, says=says, x=x)


SLOTS = np.array([16, 47, -1, 0, 33, 1, 18])  # of three pages of 16 rows


@pytest.fixture
def append(attune, tmp_path):
    """Rows for new pages; one row is nowhere."""
    p = Problem(attune, tmp_path, "append", key="k.npy", value="v.npy", slots="slots.npy", pool="3,16", key_out="ko.npy",
                value_out="vo.npy")
    rng = np.random.default_rng(22)
    p.save(k=normal(rng, ROWS, HEADS, 64), v=normal(rng, ROWS, HEADS, 32), slots=SLOTS, at=np.array([3, 0, 39, 7, 7, 12, 1]))
    return p


OUT = dict(key_scale_out="ks.npy", value_scale_out="vs.npy")
OUT4 = OUT | dict(key_minimum_out="km.npy", value_minimum_out="vm.npy")


def appended(append, *words, **given):
    done = append.run(*words, **given)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", ""), done.stderr


def in_pool(rows, pool=None):
    """The rows in the pages of their slots; others are those of `pool`, or 0."""
    out = np.zeros((48, *rows.shape[1:]), rows.dtype) if pool is None else pool.reshape(48, *pool.shape[2:]).copy()
    out[SLOTS[SLOTS >= 0]] = rows[SLOTS >= 0]
    return out.reshape(3, 16, *rows.shape[1:])


def check_pages(append, name, pages, before=(None, None, None)):
    for file, expected, pool in zip(("o", "s", "m"), (pages.rows, pages.scale, pages.minimum), before):
        if expected is not None:
            got = append.load(name + file)
            assert got.dtype == expected.dtype and np.array_equal(got, in_pool(expected, pool)), name + file


def stored_by(rows, store):
    if store.startswith("int4"):
        group = store[5:]
        return int4_of(rows, rows.shape[-1] if group == "all" else int(group))
    return int8_of(rows, np.float16 if store == "int8-f16" else np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("store", ["int8", "int8-f16", "int4:32", "int4:all"])
def test_quantised_rows(append, store, dtype):
    for name in "kv":
        rows = append.load(name).astype(dtype)
        rows[4, 1] = 0
        rows[2] = np.nan  # nowhere
        append.save(**{name: rows})
    appended(append, "--store", store, **(OUT4 if "int4" in store else OUT))
    for name in "kv":
        rows = np.where(SLOTS[:, None, None] < 0, 0, append.load(name))
        check_pages(append, name, stored_by(rows, store))


def test_no_rows(append):
    append.save(k=np.zeros((0, HEADS, 64), np.float32), v=np.zeros((0, HEADS, 32), np.float32), slots=np.zeros(0, np.int64))
    appended(append, "--store", "int8", **OUT)
    assert append.load("ko").shape == (3, 16, HEADS, 64) and not append.load("ko").any() and not append.load("ks").any()


def test_groups_of_64(append):
    append.save(v=normal(np.random.default_rng(1), ROWS, HEADS, 128))
    appended(append, "--store", "int4:64", **OUT4)
    for name in "kv":
        check_pages(append, name, int4_of(append.load(name), 64))


def test_scales_of_the_caller_s_own(append):
    rng = np.random.default_rng(23)
    append.save(ks=np.float32([0.01]), vs=rng.uniform(0.005, 0.02, (HEADS, 32)).astype(np.float32))
    appended(append, "--store", "int8", key_scale="ks.npy", value_scale="vs.npy")
    for name in "kv":
        pages = int8_by_scale(append.load(name), append.load(name + "s"))
        assert np.array_equal(append.load(name + "o"), in_pool(pages.rows))


@pytest.mark.parametrize("of", [F32, F64, F16, BF16], ids=lambda of: of.name)
def test_rows_as_they_are(append, of):
    append.save(k=of.of(append.load("k")), v=of.of(append.load("v")))
    appended(append, *(["--dtype", "bf16"] if of is BF16 else []))
    for name in "kv":
        assert np.array_equal(append.load(name + "o"), in_pool(append.load(name)))


def test_pages_that_hold_rows_already(append):
    """Other rows, scales and minima stay; keys and values are stored in different ways; slots may be int32."""
    rng = np.random.default_rng(24)
    bytes_of = lambda type, low, high, *shape: rng.integers(low, high, shape).astype(type)
    before = dict(kp=bytes_of(np.int8, -127, 128, 3, 16, HEADS, 64), vp=bytes_of(np.uint8, 0, 256, 3, 16, HEADS, 16),
                  ks=normal(rng, 3, 16, HEADS), vs=normal(rng, 3, 16, HEADS, 1).astype(np.float16),
                  vm=normal(rng, 3, 16, HEADS, 1).astype(np.float16))
    append.save(**{"b" + name: array for name, array in before.items()}, slots=SLOTS.astype(np.int32))
    appended(append, pool=None, key_pages="bkp.npy", value_pages="bvp.npy", key_scale="bks.npy", value_scale="bvs.npy",
             value_minimum="bvm.npy", **OUT, value_minimum_out="vm.npy")
    check_pages(append, "k", int8_of(append.load("k")), (before["kp"], before["ks"], None))
    check_pages(append, "v", int4_of(append.load("v"), 32), (before["vp"], before["vs"], before["vm"]))


@pytest.mark.parametrize("kind", KINDS)
def test_steps_of_append(append, kind):
    """Rows in pages have the bits of attune run rope, and are quantised from these."""
    words, arrays, _ = with_steps(np.random.default_rng(25), 64, kind)
    append.save(**arrays)
    Problem(append.program, append.folder, "rope", x="k.npy", out="kr.npy").succeeds(*words)
    Problem(append.program, append.folder, "rope", x="v.npy", out="vr.npy").succeeds("--hadamard")
    appended(append, *words, "--rotate-values")
    for name in "kv":
        assert np.array_equal(append.load(name + "o"), in_pool(append.load(name + "r")))
    for store in ("int8", "int8-f16", "int4:32"):
        appended(append, *words, "--rotate-values", "--store", store, **(OUT4 if "int4" in store else OUT))
        for name in "kv":
            check_pages(append, name, stored_by(append.load(name + "r"), store))


@pytest.mark.parametrize("option, words, says", [
    ("--slots", ["--slots", "twice.npy"], "named twice"), ("--slots", ["--slots", "beyond.npy"], "must be from -1 to 47"),
    ("--slots", ["--slots", "short.npy"], "number of entries"), ("--slots", ["--slots", "k.npy"], "expected int32 or int64"),
    ("--store", ["--store", "int2"], "is not same, int8"), ("--store", ["--store", "int4:64"], "32 channels of --value"),
    ("--pool", ["--pool", "3"], "PAGES,ROWS"), ("--pool", ["--pool", "3,-16"], "PAGES,ROWS"),
    ("--pool", ["--pool", "3,16", "--key-pages", "kp.npy"], "beside --key-pages"),
    ("--pool", ["--pool", "2147483647,2147483647"], "2^31"),
    ("--key-pages", ["--pool", "3,17"], "multiple of 16"),
    ("--key-pages", [], "is required, or --pool"), ("--value-pages", ["--key-pages", "kp.npy"], "is required, or --pool"),
    ("--store", ["--key-pages", "kp.npy", "--value-pages", "vp.npy", "--store", "int8"], "only for --pool"),
    ("--key-scale", ["--key-pages", "kp8.npy", "--value-pages", "vp.npy"], "pages of i8 need it"),
    ("--key-scale", ["--key-pages", "kp4.npy", "--value-pages", "vp.npy"], "pages of u8 need it"),
    ("--key-minimum", ["--key-pages", "kp4.npy", "--value-pages", "vp.npy", "--key-scale", "s4.npy", "--key-scale-out",
                       "a.npy"], "pages of u8 need it"),
    ("--key-scale", ["--key-pages", "kp.npy", "--value-pages", "vp.npy", "--key-scale", "one.npy"], "have none"),
    ("--key-scale", ["--store", "int8", "--key-scale", "none.npy", "--value-scale", "one.npy"], "no such file"),
    ("--key-scale", ["--store", "int8", "--key-scale", "zero.npy", "--value-scale", "one.npy"], "more than 0"),
    ("--key-scale", ["--store", "int8", "--key-scale", "double.npy", "--value-scale", "one.npy"], "must be f32"),
    ("--key-scale", ["--store", "int8", "--key-scale", "s8.npy", "--value-scale", "one.npy"], "is made with --pool"),
    ("--key-pages", ["--key-pages", "slots.npy", "--value-pages", "vp.npy"], "expected float32, float64, float16, int8"),
    ("--key-pages", ["--key-pages", "kp64.npy", "--value-pages", "vp.npy"], "--dtype converts"),
    ("--key-scale-out", ["--store", "int8"], "is required"),
    ("--key-scale-out", ["--pool", "3,16", "--key-scale-out", "a.npy"], "is only for pages that hold it"),
    ("--value-minimum-out", ["--store", "int8", "--key-scale-out", "a.npy", "--value-scale-out", "b.npy", "--value-minimum-out",
                             "c.npy"], "is only for pages that hold it"),
    ("--key-out", ["--pool", "3,16", "--key-out", "k.npy"], "is also the file of --key"),
    ("--value", ["--pool", "3,16", "--value", "v3.npy"], "number of heads"),
    ("--key", ["--pool", "3,16", "--key", "nan.npy", "--store", "int8", "--key-scale-out", "a.npy", "--value-scale-out",
               "b.npy"], "row 3 is quantised and holds NaN or Inf"),
    ("--positions", ["--pool", "3,16", "--rope-base", "100"], "RoPE needs it"),
    ("--rope-offset", ["--pool", "3,16", "--rope-base", "100", "--rope-dim", "70", "--positions", "at.npy"], "exceed"),
    ("--rotate-values", ["--pool", "3,16", "--rotate-values", "--value", "v12.npy"], "multiple of 8"),
])
def test_bad_append(append, option, words, says):
    nan = append.load("k")
    nan[3, 1, 5] = np.nan
    append.save(twice=np.array([1, 2, 3, 4, 5, 6, 1]), beyond=np.array([1, 2, 3, 4, 5, 6, 48]), short=np.arange(6), nan=nan,
                kp=np.zeros((3, 16, HEADS, 64), np.float32), kp64=np.zeros((3, 16, HEADS, 64)),
                vp=np.zeros((3, 16, HEADS, 32), np.float32), kp8=np.zeros((3, 16, HEADS, 64), np.int8),
                kp4=np.zeros((3, 16, HEADS, 32), np.uint8), s4=np.zeros((3, 16, HEADS, 1), np.float16),
                s8=np.zeros((3, 16, HEADS), np.float32), one=np.float32([1]), zero=np.float32([0]), double=np.array([1.0]),
                v3=np.ones((ROWS, 3, 32), np.float32), v12=np.ones((ROWS, HEADS, 12), np.float32))
    given = {name: None for name in append.given if "--" + name.replace("_", "-") in words}
    if option in ("--key-pages", "--value-pages") or "--key-pages" in words:
        given["pool"] = None
    append.fails(option, *words, says=says, **given)
