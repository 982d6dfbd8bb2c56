// SPDX-License-Identifier: MIT
// Each pass on the intermediate code of a small pipeline: its result, and its refusals.
#include "generators/math/transpose.h"
#include "lowering/passes/async_copies.h"
#include "schedules/amx_tiles.h"
#include "schedules/transpose.h"
#include "tests/lowering/code.h"
#include "tests/support/catch.h"

namespace {
using namespace Halide;
using namespace attune;

const Target avx512("x86-64-linux-avx-avx2-f16c-fma-sse41-avx512-avx512_skylake-no_runtime");
const Target amx("x86-64-linux-avx-avx2-f16c-fma-sse41-avx512-avx512_skylake-avx512_cannonlake-avx512_zen4-avx512_"
                 "sapphirerapids-no_runtime");
const Target cuda("x86-64-linux-cuda-cuda_capability_80-no_runtime");

std::string refusal(const std::function<void()> &lowered) {
    try {
        lowered();
    } catch (const CompileError &e) {
        return e.what();
    }
    return "";
}

// Sums of the rows of x.
struct RowSums {
    ImageParam x{Float(32), 2, "x"};
    Func sum{"sum"}, out{"out"};
    Var i{"i"};
    RDom r{0, 256, "r"};

    RowSums() {
        sum(i) += x(r, i);
        out(i) = sum(i);
        sum.compute_at(out, i);
        x.dim(0).set_bounds(0, 256);
    }
    LoweredLoop loop() const { return {sum, 1, r.x.name()}; }
    Code code(const Passes &passes) { return code_of(out, {x}, passes, avx512); }
};

// A product of 32 x 64 and 64 x 32 elements of bf16, in four tiles.
struct Tiles {
    ImageParam a{BFloat(16), 2, "a"}, b{BFloat(16), 3, "b"};
    Func product{"product"}, tiles, out{"out"};
    Var x{"x"}, y{"y"};
    RDom r{0, 64, "r"};

    explicit Tiles(bool joined) {
        product(x, y) += cast<float>(a(r, y)) * cast<float>(b(r % 2, x, r / 2));
        out(x, y) = product(x, y);
        tiles = product.in(out);
        tiles.compute_at(out, Var::outermost()).bound_extent(x, 32).bound_extent(y, 32);
        out.bound(x, 0, 32).bound(y, 0, 32).vectorize(x, 16);
        RVar step("step"), term("term");
        product.update().split(r, step, term, amx_tile_depth);
        schedule_amx_tiles(tiles, product, {x, 32}, {y, 32}, term, step, joined ? 4 : 1);
        b.dim(0).set_bounds(0, 2).dim(1).set_stride(2);
        a.dim(0).set_min(0), a.dim(1).set_min(0), b.dim(1).set_min(0), b.dim(2).set_min(0);
    }
    Code code(const Passes &passes) { return code_of(out, {a, b}, passes, amx); }
};
}  // namespace

TEST_CASE("tiles that share factors take their steps together", "[lowering]") {
    const Code code = Tiles(true).code({.join_amx_tiles = true});
    CHECK(count(code.before, "tile_matmul") == 4);
    CHECK(count(code.before, "for (product.s1.") == 4);
    CHECK(count(code.after, "tile_matmul") == 4);
    CHECK(count(code.after, "for (product.s1.") == 1);
    CHECK(has(refusal([] { RowSums().code({.join_amx_tiles = true}); }), "a kernel whose AMX tiles are to be joined has none"));
}

TEST_CASE("tiles are loaded past L1", "[lowering]") {
    const Code code = Tiles(true).code({.join_amx_tiles = true, .load_tiles_past_l1 = true});
    CHECK(count(code.after, "attune_tileloaddt1_bf16(") == count(code.before, "tile_load("));
    CHECK_FALSE(has(code.after, "tile_load("));
    CHECK(has(refusal([] { RowSums().code({.load_tiles_past_l1 = true}); }), "loads AMX tiles past L1 has none"));
}

TEST_CASE("a block is transposed by shuffles of whole vectors", "[lowering]") {
    ImageParam in(Float(32), 2, "in");
    Var row("row"), column("column"), in_block("in_block"), column_block("column_block");
    const BlockTranspose block("block", 16, {}, [&](const Expr &r, const Expr &c) { return in(c, r); });
    Func out("out");
    out(row, column) = block(row, column, {});
    out.split(column, column_block, in_block, 16, TailStrategy::RoundUp).align_bounds(row, 16);
    schedule_blocks(Stage(out), out, row, in_block, column_block, {block});
    const Code code = code_of(out, {in}, {.whole_vectors = true}, avx512);
    const std::string first_two = "0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)";
    CHECK(has(code.before, "block_0[ramp(0, 1, 16)] = shuffle(block_rows[ramp(0, 1, 30)], " + first_two));
    CHECK(has(code.after, "block_0[ramp(0, 1, 16)] = shuffle(block_rows[ramp(0, 1, 16) aligned(16, 0)], "
                          "block_rows[ramp(16, 1, 16) aligned(16, 0)], " +
                              first_two));
    CHECK(has(code.before, "shuffle(block_rows[ramp(2, 1, 30)]"));
    CHECK_FALSE(has(code.after, "shuffle(block_rows[ramp(2, "));
}

TEST_CASE("an array with constant places has a stack slot of its own", "[lowering]") {
    ImageParam in(Float(32), 2, "in");
    Func copy("copy"), table("table"), out("out");
    Var i("i"), j("j");
    copy(i, j) = in(i, j) * 2.0f, table(i, j) = in(i, j) + 1.0f;
    out(i, j) = copy(i, j) + table(clamp(cast<int>(in(i, j)), 0, 7), j);
    out.bound(i, 0, 8).unroll(i);
    copy.compute_at(out, j).store_in(MemoryType::Stack).bound(i, 0, 8).unroll(i);
    table.compute_at(out, j).store_in(MemoryType::Stack).bound(i, 0, 8).unroll(i);
    const Code code = code_of(out, {in}, {.pin_stack_slots = true}, avx512);
    CHECK(has(code.before, "allocate copy[float32 * 8]"));
    CHECK(has(code.after, "allocate copy[float32x4 * 2]"));
    CHECK(has(code.after, "allocate table[float32 * 8]"));
    const Target few_registers("x86-64-linux-avx-avx2-fma-sse41-no_runtime");
    const Code same = code_of(out, {in}, {.pin_stack_slots = true}, few_registers);
    CHECK(same.before == same.after);
}

TEST_CASE("broadcast operands are lanes of a vector on AArch64", "[lowering]") {
    ImageParam x(Float(32), 1, "scalars"), q(Float(32), 2, "vectors");
    Func sum, out;
    Var i("i");
    Param<int> given("given");
    const auto code = [&](const Expr &rounds, const Target &target) {
        RDom k(0, rounds, "k");
        sum = Func("total"), out = Func("row");
        sum(i) += q(i, k) * x(k);
        out(i) = sum(i);
        out.bound(i, 0, 8).vectorize(i, 4).unroll(i);
        sum.compute_root().bound(i, 0, 8).store_in(MemoryType::Stack).vectorize(i, 4).unroll(i);
        sum.update().reorder(i, k).vectorize(i, 4).unroll(i);
        return code_of(out, {x, q, given}, {}, target);
    };
    const Target arm64("arm-64-linux-no_runtime");
    const Code all = code(64, arm64);
    CHECK(count(all.before, "x4(scalars[") == 2);  // two vectors of sums
    CHECK(count(all.after, "x4(scalars[") == 0);
    CHECK(count(all.after, "extract_element") == 2 * 16);  // 16 rounds
    CHECK(count(all.after, "scalars[ramp(") == 2 * 16);
    // 16 divides no 66 rounds: the loop is unrolled by 2, where no four scalars meet.
    const Code some = code(66, arm64);
    CHECK(count(some.after, "extract_element") == 0);
    CHECK(count(some.after, "x4(scalars[") == 2 * 2);
    const Code same = code(64, avx512);
    CHECK(same.before == same.after);
    // A number of rounds that a call gives, which may be negative: a loop for the rest.
    const Code any = code(given, arm64);
    CHECK(count(any.after, "extract_element") == 2 * 16);
    CHECK(has(any.after, ".rest, 0, max(given, 0) % 16"));
}

TEST_CASE("sums over pairs of bf16 are dot products on AArch64", "[lowering]") {
    ImageParam x(BFloat(16), 1, "scalars"), q(BFloat(16), 2, "vectors");
    Var i("i");
    const auto code = [&](const Target &target) {
        Func sum("total"), out("row");
        RDom k(0, 2, 0, 32, "k");
        sum(i) += cast<float>(q(i * 2 + k.x, k.y)) * cast<float>(x(k.y * 2 + k.x));
        out(i) = sum(i);
        out.bound(i, 0, 8).vectorize(i, 4).unroll(i);
        sum.compute_root().bound(i, 0, 8).store_in(MemoryType::Stack).vectorize(i, 4).unroll(i);
        sum.update().reorder(k.x, i, k.y).atomic().vectorize(k.x).vectorize(i, 4).unroll(i);
        return code_of(out, {x, q}, {}, target);
    };
    const Code dots = code(Target("arm-64-linux-armv86a-no_runtime"));
    CHECK(count(dots.before, "vector_reduce_add(") == 2);
    CHECK(count(dots.after, "vector_reduce_add(") == 0);
    CHECK(count(dots.after, "attune_bf16_dot(") == 2 * 16);  // 16 rounds
    // Four pairs that are lanes of one vector of eight bf16.
    CHECK(count(dots.after, "extract_element(reinterpret<float32x4>(scalars[ramp(") == 2 * 16);
    const Code widened = code(Target("arm-64-linux-arm_dot_prod-arm_fp16-no_runtime"));
    CHECK(count(widened.after, "attune_bf16_dot(") == 0);
}

TEST_CASE("sums of two rows by two columns are matrix products of int8 on AArch64", "[lowering]") {
    ImageParam x(Int(8), 3, "digits"), y(Int(8), 3, "keys");
    Var column("column"), row("row");
    const auto code = [&](const Target &target, int terms) {
        Func sum("total"), out("row");
        RDom k(0, terms, 0, 16, "k");
        sum(column, row) += cast<int32_t>(x(k.x, row, k.y)) * cast<int32_t>(y(k.x, column, k.y));
        out(column, row) = sum(column, row);
        out.bound(column, 0, 2).bound(row, 0, 2).vectorize(column).vectorize(row);
        sum.compute_root().bound(column, 0, 2).bound(row, 0, 2).store_in(MemoryType::Stack).vectorize(column).vectorize(row);
        sum.update().reorder(k.x, column, row, k.y).atomic().vectorize(k.x).vectorize(column).vectorize(row);
        for (ImageParam *in : {&x, &y}) in->dim(1).set_stride(terms);
        return code_of(out, {x, y}, {}, target);
    };
    const Target i8mm("arm-64-linux-arm_dot_prod-armv86a-no_runtime");
    const Code matrix = code(i8mm, 8);
    CHECK(count(matrix.before, "vector_reduce_add(") == 1);
    CHECK(count(matrix.after, "vector_reduce_add(") == 0);
    CHECK(count(matrix.after, "attune_int8_matrix(total[") == 1);
    // The first factor has the rows: its lanes are those of the digits.
    CHECK(has(matrix.after.substr(matrix.after.find("attune_int8_matrix(")), "digits["));
    CHECK(matrix.after.find("digits[") < matrix.after.find("keys["));
    const Code of_four = code(i8mm, 4);
    CHECK(of_four.before == of_four.after);
    const Code dots = code(Target("arm-64-linux-arm_dot_prod-no_runtime"), 8);
    CHECK(dots.before == dots.after);
}

TEST_CASE("products are fused with the sums that take them on AArch64", "[lowering]") {
    ImageParam x(Float(32), 1, "x"), y(Float(32), 1, "y");
    Var i("i");
    const auto code = [&](const Expr &value, const Target &target = Target("arm-64-linux-no_runtime")) {
        Func out("row");
        out(i) = value;
        return code_of(out, {x, y}, {}, target);
    };
    const Expr a = x(i), b = y(i), c = x(i + 1);
    CHECK(has(code(a * b + c).after, "attune_fmadd_f32(x["));
    CHECK(has(code(c + a * b).after, "attune_fmadd_f32(x["));
    CHECK(has(code(a * b - c).after, "attune_fnmsub_f32("));
    CHECK(has(code(c - a * b).after, "attune_fmsub_f32("));
    CHECK(has(code(cast<double>(a) * cast<double>(b) + cast<double>(c)).after, "attune_fmadd_f64("));
    const Code of_two = code(a * b + c * x(i + 2));
    CHECK(count(of_two.after, "attune_fmadd_f32(") == 1);
    CHECK(count(of_two.after, "*") == count(of_two.before, "*") - 1);
    // A product that a let names, because two sums take it: of its factors in both.
    const Expr product = a * b;
    const Code of_name = code((product + c) / (product - c));
    CHECK(count(of_name.before, "let ") == 1 + count(code(a * b + c).before, "let "));
    CHECK(has(of_name.after, "attune_fmadd_f32("));
    CHECK(has(of_name.after, "attune_fnmsub_f32("));
    for (const Expr &rounded : {strict_float(a * b + c), strict_float(a * b) + c, a * b, a + c, -(a * b)}) {
        const Code same = code(rounded);
        CHECK(same.before == same.after);
    }
    const Code elsewhere = code(a * b + c, avx512);
    CHECK(elsewhere.before == elsewhere.after);
}

TEST_CASE("the last vector of a row is a masked load", "[lowering]") {
    ImageParam in(Float(32), 1, "in");
    Param<int> last("last");
    Func out("out");
    Var i("i");
    out(i) = in(min(i, last));
    out.vectorize(i, 16, TailStrategy::RoundUp);
    in.dim(0).set_min(0);
    const Code code = code_of(out, {in, last}, {.masked_tail_loads = {in}}, avx512);
    CHECK(has(code.before, "in[min(ramp("));
    CHECK_FALSE(has(code.after, "in[min(ramp("));
    CHECK(has(code.after, "<= x16("));
    const Code other = code_of(out, {in, last}, {}, avx512);
    CHECK(other.before == other.after);
}

TEST_CASE("each round of a loop prefetches for a later one", "[lowering]") {
    RowSums sums;
    const Code code = sums.code({.prefetches = {{sums.x, PrefetchLines{sums.loop(), sums.loop(), 8}}}});
    CHECK_FALSE(has(code.before, "llvm.prefetch"));
    CHECK(count(code.after, "llvm.prefetch.p0(") == 1);
    CHECK(has(code.after, "+ 8"));
    const std::string message = refusal([] {
        RowSums other;
        const LoweredLoop no_loop{other.out, 0, "no_loop"};
        other.code({.prefetches = {{other.x, PrefetchLines{no_loop, no_loop, 8}}}});
    });
    CHECK(has(message, "nothing to fetch: no loop over no_loop of out"));
}

TEST_CASE("a loop prefetches the lines of out that a later loop stores", "[lowering]") {
    ImageParam x(Float(32), 2, "x");
    Func squares("squares"), out("out");
    Var j("j"), i("i");
    squares(j, i) = x(j, i) * x(j, i);
    out(j, i) = squares(j, i) + squares(255 - j, i);
    squares.compute_at(out, i).vectorize(j, 16);
    out.bound(j, 0, 256).vectorize(j, 16);
    const PrefetchStores stores{{out, 0, "j"}, {squares, 0, "j"}, 1};
    const Code code = code_of(out, {x}, {.prefetches = {{{}, stores}}}, avx512);
    CHECK_FALSE(has(code.before, "llvm.prefetch"));
    CHECK(count(code.after, "llvm.prefetch.p0(") == 1);
    CHECK(code.after.find("llvm.prefetch.p0(") < code.after.find("for (out.s0.j"));
    const std::string message = refusal([&] {
        const PrefetchStores none{{out, 0, "no_loop"}, {squares, 0, "j"}, 1};
        code_of(out, {x}, {.prefetches = {{{}, none}}}, avx512);
    });
    CHECK(has(message, "nothing to fetch: no loop over no_loop of out stores out"));
}

TEST_CASE("runs of lines are prefetched for the next round of a loop around", "[lowering]") {
    RowSums sums;
    const LoweredLoop rows{sums.out, 0, sums.i.name()};
    const Code code = sums.code({.prefetches = {{sums.x, PrefetchRuns{sums.loop(), 16, {rows}, {{sums.loop(), 256}}}}}});
    CHECK(count(code.after, "llvm.prefetch.p0(") == 1);
    CHECK(has(code.after, "allocate runs"));
    const Code row_by_row = sums.code({.prefetches = {{sums.x, PrefetchRows{{sums.loop()}, 16, {rows}}}}});
    CHECK(count(row_by_row.after, "llvm.prefetch.p0(") == 1);
    CHECK(has(row_by_row.after, "allocate lines_left"));
}

TEST_CASE("a tile of keys looks its entry of a table up once", "[lowering]") {
    ImageParam x(Float(32), 1, "x"), table(Int(32), 1, "table");
    Func sum("sum"), out("out");
    Var tile("tile"), k("k");
    RDom r(0, 4, "r");
    const Expr key = tile * 4 + r;
    sum(tile) += x(unsafe_promise_clamped(key + table(key / 16), 0, 999));
    out(tile) = sum(tile);
    sum.compute_at(out, tile);
    const auto lifted = [&](const LoweredLoop &loop) {
        return code_of(out, {x, table}, {.lifted_shifts = {{table, loop}}}, avx512);
    };
    const Code code = lifted({out, 0, tile.name()});
    CHECK(count(code.before, "table[") == 1);
    CHECK(count(code.after, "table[") == 1);
    CHECK(code.after.find("let table.of_tile") < code.after.find("for (sum.s1.r"));
    CHECK(has(code.before, "for (sum.s1.r"));
    const std::string message = refusal([&] { lifted({sum, 0, "no_loop"}); });
    CHECK(has(message, "no loop over no_loop of sum reads table"));
}

TEST_CASE("Halide's prefetches go into all caches", "[lowering]") {
    RowSums sums;
    const Code code = sums.code({.prefetches = {{sums.x, PrefetchRegion{sums.sum.update(), sums.r.x, 8}}}});
    CHECK(has(code.before, "prefetch("));
    CHECK(has(code.after, "llvm.prefetch.p0("));
    RowSums as_it_is;
    const PrefetchRegion non_temporal{as_it_is.sum.update(), as_it_is.r.x, 8, true};
    const Code same = as_it_is.code({.prefetches = {{as_it_is.x, non_temporal}}});
    CHECK(has(same.before, "prefetch("));
    CHECK(same.before == same.after);
}

TEST_CASE("a loop takes its bounds from its conditions", "[lowering]") {
    ImageParam in(Float(32), 1, "in");
    Param<int> begin("begin"), end("end");
    Func out("trimmed");
    Var i("i");
    RDom r(0, 100, "r");
    // A condition that Halide's solver does not analyse.
    r.where((cast<int>(r >= begin) & 1) != 0);
    r.where((cast<int>(r < end) & 1) != 0);
    out(i) += in(r);
    const Code code = code_of(out, {in, begin, end}, {.trim_gpu_loops = true}, avx512);
    CHECK(has(code.before, "for (trimmed.s1.r$x, 0, 100)"));
    CHECK(has(code.before, "if ((int32("));
    CHECK(has(code.after, "let taken_begin = max(0, begin)"));
    CHECK(has(code.after, "for (trimmed.s1.r$x.taken, 0, max((min(0 + 100, end) - taken_begin)"));
    CHECK_FALSE(has(code.after, "if ((int32("));
    CHECK(has(refusal([] { RowSums().code({.trim_gpu_loops = true}); }), "has no loop under a condition"));
}

TEST_CASE("registers outside a loop over threads are a thread's own", "[lowering]") {
    ImageParam in(Float(32), 2, "in");
    Func sum("lane_sum"), out("out");
    Var x("x"), y("y"), thread("thread"), block("block");
    RDom r(0, 64, "r");
    sum(x, y) += in(x, r) * cast<float>(y);
    out(x, y) = sum(x, y);
    out.bound(y, 0, 4).split(x, block, thread, 32).reorder(y, thread, block).gpu_blocks(block).gpu_threads(thread).unroll(y);
    sum.compute_at(out, block).store_in(MemoryType::Register).reorder(y, x).unroll(y).gpu_threads(x);
    sum.update().reorder(y, x, r).unroll(y).gpu_threads(x);
    const Code code = code_of(out, {in}, {.thread_local_registers = true}, cuda);
    CHECK(has(code.before, "lane_sum.0[.thread_id_x + 96] = "));
    CHECK_FALSE(has(code.after, "lane_sum.0[.thread_id_x"));
    CHECK(has(code.after, "lane_sum.0[96] = "));
    CHECK(has(refusal([] { RowSums().code({.thread_local_registers = true}); }), "has no register array that threads index"));
}

TEST_CASE("lanes wait at the end of each round of a loop", "[lowering]") {
    // Passes over a row in shared memory, of which each reads what other lanes stored in the one before.
    ImageParam in(Float(32), 2, "in");
    Param<int> passes{"passes"};
    Func row("row"), out("out");
    Var d("d"), s("s"), b("b");
    RDom r(0, 64, 0, passes, "r");
    row(d, s, b) = in(d, b);
    row(r.x, (r.y + 1) % 2, b) = row(63 - r.x, r.y % 2, b) + 1.0f;
    out(d, b) = row(d, passes % 2, b);
    out.bound(d, 0, 64).gpu_blocks(b).gpu_threads(d);
    row.compute_at(out, b).store_in(MemoryType::GPUShared).bound(d, 0, 64).bound(s, 0, 2).gpu_threads(d);
    row.update().allow_race_conditions().gpu_threads(r.x);
    const Code code = code_of(out, {in, passes}, {.loop_barriers = {{row, 1, r.y.name()}}}, cuda);
    const auto loop = [&](const std::string &text) {
        const std::size_t begin = text.find("for (" + row.name() + ".s1." + r.y.name()), end = text.find("consume", begin);
        return text.substr(begin, end - begin);
    };
    CHECK(count(loop(code.after), "gpu_thread_barrier(2)") == count(loop(code.before), "gpu_thread_barrier(2)") + 1);
    CHECK(count(code.after, "gpu_thread_barrier") == count(code.before, "gpu_thread_barrier") + 1);
    CHECK(has(refusal([] { RowSums().code({.loop_barriers = {{Func("row"), 1, "none"}}}); }), "has no such loop"));
}

TEST_CASE("products of strict_float are rounded before they are added on CUDA", "[lowering]") {
    ImageParam in(Float(32), 1, "in");
    Func out("out");
    Var x("x"), block("block"), lane("lane");
    out(x) = strict_float(in(x)*in(x + 1) + in(x + 2)) + in(x)*3.0f;
    out.gpu_tile(x, block, lane, 32);
    const Code code = code_of(out, {in}, {.rounded_products = true}, cuda);
    CHECK(count(code.before, "strict_mul") > 0);
    CHECK(count(code.after, "strict_mul") == 0);
    CHECK(count(code.after, "llvm.nvvm.mul.rn.f(") == count(code.before, "strict_mul"));
    CHECK(has(refusal([] { RowSums().code({.rounded_products = true}); }), "has none of strict_float()"));
}

TEST_CASE("copies to shared memory are double buffered", "[lowering]") {
    Param<std::uint64_t> address("address");
    Func row("shared_row"), sum("sum"), out("out");
    Var lane("lane"), block("block"), w("w"), c("c"), thread("thread");
    RDom step(0, 8, "step");
    row(w, c) = copied_to_shared_memory(address + cast<std::uint64_t>((c * 128 + w) * 4), 16);
    sum(lane, block) += row(lane, step);
    out(lane, block) = sum(lane, block);
    out.bound(lane, 0, 32).gpu_blocks(block).gpu_threads(lane);
    sum.compute_at(out, block).store_in(MemoryType::Register).gpu_threads(lane);
    sum.update().reorder(lane, step).gpu_threads(lane);
    row.compute_at(sum, step).store_in(MemoryType::GPUShared).bound_extent(w, 128).split(w, thread, w, 4).vectorize(w);
    row.gpu_threads(thread);
    const Code code = code_of(out, {address}, {.async_copies = true}, cuda);
    INFO(code.before << code.after);
    CHECK(count(code.before, "attune_copied(") == 1);
    // The copies of the first iteration before the loop, those of the next one within it; two halves of shared memory.
    CHECK_FALSE(has(code.after, "attune_copied("));
    CHECK(count(code.after, "attune_copy(") == 2);
    CHECK(count(code.after, "attune_close_copies()") == 2);
    CHECK(count(code.after, "attune_wait_for_copies()") == 1);
    CHECK(has(code.before, "[uint32 * 128] in GPUShared"));
    CHECK(has(code.after, "[uint32 * 256] in GPUShared"));
    CHECK(has(refusal([] { RowSums().code({.async_copies = true}); }), "does neither"));
}
