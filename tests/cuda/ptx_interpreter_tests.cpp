// SPDX-License-Identifier: MIT
// Tests of the interpreter that replaces the driver, against the PTX manual: instructions for which lanes or time matter.
#include "ptx/program.h"
#include "tests/support/catch.h"

namespace {

using Words = std::vector<std::uint32_t>;

// Runs `body` on one warp; %rd1 is the address of `in`, %rd3 that of the lane's `each` words of the result, %r1 the number of
// the lane.
Words run(const std::string &body, const Words &in, int each) {
    const std::string ptx = ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
                            "ld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\nmov.u32 %r1, %tid.x;\n"
                            "mul.wide.u32 %rd3, %r1, " +
                            std::to_string(4 * each) + ";\nadd.s64 %rd3, %rd2, %rd3;\n" + body + "ret;\n}\n";
    Words out(static_cast<std::size_t>(32 * each));
    std::uint64_t addresses[] = {reinterpret_cast<std::uint64_t>(in.data()), reinterpret_cast<std::uint64_t>(out.data())};
    void *arguments[] = {&addresses[0], &addresses[1]};
    const auto module = ptx::parse(ptx);
    ptx::run(module->kernels.at("k"), {1, 1, 1}, {32, 1, 1}, 1024, arguments);
    return out;
}

constexpr std::uint32_t unknown = ptx::unknown_byte * 0x01010101u;

// Lane n copies 16 bytes of `in` to the same place in shared memory; %r2, %rd4.
const std::string own_row = "shl.b32 %r2, %r1, 4;\nmul.wide.u32 %rd4, %r1, 16;\nadd.s64 %rd4, %rd1, %rd4;\n";
const std::string copy_row = "cp.async.cg.shared.global [%r2], [%rd4], 16;\n", close_group = "cp.async.commit_group;\n";
std::string wait_for(int groups) { return "cp.async.wait_group " + std::to_string(groups) + ";\n"; }
const std::string read_word = "ld.shared.b32 %r3, [%r2];\nst.global.b32 [%rd3], %r3;\n";

Words numbered(std::size_t size) {
    Words words(size);
    for (std::size_t n = 0; n < size; n++) words[n] = static_cast<std::uint32_t>(2 * n | (2 * n + 1) << 16);
    return words;
}

}  // namespace

TEST_CASE("ptx: a copy is not there before its lane has waited for its group", "[ptx]") {
    const Words in = numbered(256);
    auto all = [&](const std::string &body, std::uint32_t first, std::size_t step) {
        const Words out = run(own_row + body, in, 1);
        for (std::size_t lane = 0; lane < 32; lane++) CHECK(out[lane] == (step ? in[first + step * lane] : first));
    };
    all(copy_row + close_group + wait_for(0) + read_word, 0, 4);
    all(copy_row + close_group + read_word, unknown, 0);
    all(copy_row + close_group + wait_for(1) + read_word, unknown, 0);
    all(copy_row + wait_for(0) + read_word, unknown, 0);  // an open group is not waited for
    all(copy_row + close_group + close_group + wait_for(1) + read_word, 0, 4);
    // Waiting for the older of two groups; old contents are gone as soon as they are copied over.
    const std::string second = "add.s64 %rd4, %rd4, 512;\n" + copy_row + close_group;
    all(copy_row + close_group + wait_for(0) + second + wait_for(0) + read_word, 128, 4);
    all(copy_row + close_group + wait_for(0) + second + wait_for(1) + read_word, unknown, 0);
}

TEST_CASE("ptx: what a copy does not read is 0", "[ptx]") {
    const Words in = numbered(128);
    const std::string half = "mov.u32 %r4, 8;\ncp.async.cg.shared.global [%r2], [%rd4], 16, %r4;\n";
    const Words out = run(own_row + half + close_group + wait_for(0) +
                              "ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r2];\nst.global.v4.b32 [%rd3], {%r5, %r6, %r7, %r8};\n",
                          in, 4);
    for (std::size_t n = 0; n < out.size(); n++) CHECK(out[n] == (n % 4 < 2 ? in[n] : 0));
}

TEST_CASE("ptx: matrices are dealt out to lanes as the manual draws them", "[ptx]") {
    // Element (row, column) of matrix m is 64 m + 8 row + column.
    const Words in = numbered(128);
    for (const bool transposed : {false, true}) {
        const std::string load = std::string("ldmatrix.sync.aligned.m8n8.x4") + (transposed ? ".trans" : "") +
                                 ".shared.b16 {%r5, %r6, %r7, %r8}, [%r2];\nst.global.v4.b32 [%rd3], {%r5, %r6, %r7, %r8};\n";
        const Words out = run(own_row + copy_row + close_group + wait_for(0) + load, in, 4);
        for (unsigned lane = 0; lane < 32; lane++)
            for (unsigned m = 0; m < 4; m++) {
                const unsigned one = lane / 4, two = lane % 4 * 2;
                const unsigned first = 64 * m + (transposed ? 8 * two + one : 8 * one + two);
                CHECK(out[lane * 4 + m] == (first | (first + (transposed ? 8 : 1)) << 16));
            }
    }
}

TEST_CASE("ptx: a product of matrices of tf32 deals elements as the manual draws them and does not read their last bits",
          "[ptx]") {
    // a is 16 x 8 with one element per row: row i has i + 1 in column i % 8; b(k, j) is 100 k + j. All have bits that are not
    // read.
    Words in(16 * 8 + 8 * 8);
    auto word = [](float x) { return std::bit_cast<std::uint32_t>(x) | 0x1fff; };
    for (std::size_t i = 0; i < 16; i++) in[i * 8 + i % 8] = word(static_cast<float>(i + 1));
    for (std::size_t k = 0; k < 8; k++)
        for (std::size_t j = 0; j < 8; j++) in[128 + k * 8 + j] = word(static_cast<float>(100 * k + j));
    const std::string of_lane = "shr.u32 %r2, %r1, 2;\nand.b32 %r3, %r1, 3;\n"         // g and t: row and column
                                "mad.lo.s32 %r4, %r2, 32, 0;\nshl.b32 %r5, %r3, 2;\n"  // 8 words per row
                                "add.s32 %r4, %r4, %r5;\nmul.wide.u32 %rd4, %r4, 1;\nadd.s64 %rd4, %rd1, %rd4;\n"
                                "ld.global.b32 %r10, [%rd4];\nld.global.b32 %r11, [%rd4+256];\n"
                                "ld.global.b32 %r12, [%rd4+16];\nld.global.b32 %r13, [%rd4+272];\n"
                                "shl.b32 %r6, %r3, 5;\nshl.b32 %r7, %r2, 2;\nadd.s32 %r6, %r6, %r7;\n"
                                "mul.wide.u32 %rd5, %r6, 1;\nadd.s64 %rd5, %rd1, %rd5;\n"
                                "ld.global.b32 %r14, [%rd5+512];\nld.global.b32 %r15, [%rd5+640];\nmov.b32 %f1, 0f3f800000;\n";
    const Words out =
        run(of_lane + "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f2, %f3, %f4, %f5}, {%r10, %r11, %r12, %r13}, "
                      "{%r14, %r15}, {%f1, %f1, %f1, %f1};\nst.global.v4.b32 [%rd3], {%f2, %f3, %f4, %f5};\n",
            in, 4);
    for (std::size_t lane = 0; lane < 32; lane++)
        for (std::size_t n = 0; n < 4; n++) {
            const std::size_t row = lane / 4 + n / 2 * 8, column = lane % 4 * 2 + n % 2;
            CHECK(std::bit_cast<float>(out[lane * 4 + n]) == static_cast<float>((row + 1) * (100 * (row % 8) + column) + 1));
        }
}

TEST_CASE("ptx: lanes that part meet again", "[ptx]") {
    // An exchange and a barrier refuse an incomplete warp. One branch goes to the next instruction.
    const std::string part = "and.b32 %r4, %r1, 1;\nsetp.eq.s32 %p1, %r4, 0;\n@%p1 bra $even;\nmov.u32 %r5, 8;\nbra $met;\n"
                             "$even:\nmov.u32 %r5, 9;\nbra $met;\n$met:\nmov.u32 %r6, 1;\n"
                             "shfl.sync.bfly.b32 %r7, %r5, %r6, 31, -1;\n";
    const std::string loop = "mov.u32 %r8, 0;\n$again:\nadd.s32 %r8, %r8, 1;\nsetp.lt.s32 %p2, %r8, %r1;\n@%p2 bra $again;\n"
                             "bar.sync 0;\n";
    const Words out = run(part + loop + "st.global.v2.b32 [%rd3], {%r7, %r8};\n", {}, 2);
    for (std::uint32_t lane = 0; lane < 32; lane++) {
        CHECK(out[2 * lane] == (lane % 2 ? 9 : 8));
        CHECK(out[2 * lane + 1] == std::max(lane, 1u));
    }
}

TEST_CASE("ptx: a load of a signed number fills its register with the sign", "[ptx]") {
    const std::string load = "mul.wide.u32 %rd4, %r1, 4;\nadd.s64 %rd4, %rd1, %rd4;\n";
    const std::string store = "cvt.u32.u16 %r3, %rs1;\nst.global.b32 [%rd3], %r3;\n";
    Words in(32);
    for (std::size_t n = 0; n < in.size(); n++) in[n] = std::uint32_t(n * 17);
    const Words as_signed = run(load + "ld.global.s8 %rs1, [%rd4];\n" + store, in, 1);
    const Words as_bits = run(load + "ld.global.b8 %rs1, [%rd4];\n" + store, in, 1);
    for (std::size_t n = 0; n < in.size(); n++) {
        const std::uint32_t byte = in[n] & 255;
        CHECK(as_bits[n] == byte);
        CHECK(as_signed[n] == (byte < 128 ? byte : byte | 0xff00));
    }
}

TEST_CASE("ptx: a 16-bit float has a sign bit and is compared as a number", "[ptx]") {
    const std::string load = "mul.wide.u32 %rd4, %r1, 4;\nadd.s64 %rd4, %rd1, %rd4;\nld.global.b16 %rs1, [%rd4];\n";
    const std::string store = "cvt.u32.u16 %r3, %rs2;\nst.global.b32 [%rd3], %r3;\n";
    const Words in = [] {
        const std::uint32_t f16[] = {0x0000, 0x8000, 0x3c00, 0xbc00, 0x8001, 0xfc00, 0x7c00, 0xfe01};
        Words words(32);
        for (std::size_t n = 0; n < words.size(); n++) words[n] = f16[n % 8];
        return words;
    }();
    const Words magnitude = run(load + "abs.f16 %rs2, %rs1;\n" + store, in, 1);
    const Words negated = run(load + "neg.f16 %rs2, %rs1;\n" + store, in, 1);
    for (std::size_t n = 0; n < in.size(); n++) {
        CHECK(magnitude[n] == (in[n] & 0x7fff));
        CHECK(negated[n] == (in[n] ^ 0x8000));
    }
    // Zeros of either sign are equal, and a NaN is not equal to itself.
    const Words equal = run(load + "mov.b16 %rs3, 0;\nsetp.eq.f16 %p2, %rs1, %rs3;\nsetp.eq.f16 %p3, %rs1, %rs1;\n"
                                   "selp.b32 %r4, 1, 0, %p2;\nselp.b32 %r5, 2, 0, %p3;\nadd.s32 %r6, %r4, %r5;\n"
                                   "st.global.b32 [%rd3], %r6;\n",
                            in, 1);
    for (std::size_t n = 0; n < in.size(); n++) CHECK(equal[n] == (n % 8 < 2 ? 3u : n % 8 == 7 ? 0u : 2u));
}
