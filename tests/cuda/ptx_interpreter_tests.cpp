// The interpreter that stands in for the driver: what it makes of instructions for which lanes or time matter, by the manual
// of PTX.
#include "ptx/program.h"
#include "tests/support/catch.h"

namespace {

using Words = std::vector<std::uint32_t>;

// One warp runs `body`; %rd1 is the address of `in`, %rd3 that of the lane's `each` words of the result, %r1 the number of the
// lane.
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
    all(copy_row + wait_for(0) + read_word, unknown, 0);  // a group that is not closed is not waited for
    all(copy_row + close_group + close_group + wait_for(1) + read_word, 0, 4);
    // Of two groups the older; what was there before is gone as soon as it is copied over.
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

TEST_CASE("ptx: lanes that part meet again", "[ptx]") {
    // An exchange and a barrier refuse a warp that is not whole. One branch goes to the instruction that follows it.
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
