// SPDX-License-Identifier: MIT
// Functions of our modules in kernels: each is found, for vectors of any size, in assembly and bitcode alike.
#include "generators/math/exp2.h"
#include "lowering/instructions/bf16.h"
#include "lowering/instructions/powers.h"
#include "tests/lowering/code.h"
#include "tests/support/catch.h"
#include <filesystem>
#include <fstream>
#include <regex>
#include <unistd.h>

namespace {
using namespace Halide;

const Target zen4("x86-64-linux-avx-avx2-f16c-fma-sse41-avx512-avx512_skylake-avx512_cannonlake-avx512_zen4-no_runtime");

// A kernel as assembly and as bitcode.
std::string made(Func out, const std::vector<Argument> &arguments, OutputFileType type, const Target &target = zen4) {
    const std::filesystem::path file = std::filesystem::temp_directory_path() / ("attune_lowering_" + std::to_string(getpid()));
    Pipeline pipeline(out);
    attune::lower(pipeline, {}, target);
    pipeline.compile_to({{type, file.string()}}, arguments, "kernel", target);
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    std::filesystem::remove(file);
    return text.str();
}
}  // namespace

TEST_CASE("powers are instructions for one float and for vectors of any size", "[lowering]") {
    for (const int lanes : {1, 8, 16, 24, 64}) {
        INFO(lanes << " lanes");
        ImageParam x(Float(32), 1, "x");
        Func out("out");
        Var i("i");
        const attune::PowerInstructions powers = attune::power_instructions(zen4);
        out(i) = powers.scaled(x(i) * 2.0f, powers.nearest(x(i)));
        if (lanes > 1) out.vectorize(i, lanes, TailStrategy::RoundUp);
        const std::string assembly = made(out, {x}, OutputFileType::assembly),
                          bitcode = made(out, {x}, OutputFileType::bitcode);
        CHECK(has(assembly, "vscalefps"));
        CHECK((has(assembly, "vrndscaleps\t$8") || has(assembly, "vroundps\t$8")));
        CHECK_FALSE(has(assembly, "attune_"));  // no call is left
        CHECK(has(bitcode, lanes == 1 ? "llvm.x86.avx512.mask.scalef.ps.128" : "llvm.x86.avx512.mask.scalef.ps.512"));
    }
    CHECK_FALSE(attune::power_instructions(Target("x86-64-linux-avx-avx2-fma-sse41")).nearest);
}

TEST_CASE("Halide's functions for bf16 are there", "[lowering]") {
    ImageParam x(Float(32), 1, "x"), y(BFloat(16), 1, "y");
    Func rounded("rounded"), dot("dot"), out("out");
    Var i("i");
    RDom r(0, 2, "r");
    rounded(i) = attune::rounding_to_bf16(zen4)(x(i));
    rounded.vectorize(i, 32, TailStrategy::RoundUp);
    CHECK(has(made(rounded, {x}, OutputFileType::assembly), "vcvtne2ps2bf16"));
    dot(i) += cast<float>(y(i * 2 + r)) * cast<float>(y(r));
    dot.update().atomic().vectorize(r).vectorize(i, 16, TailStrategy::RoundUp);
    dot.vectorize(i, 16, TailStrategy::RoundUp);
    CHECK(has(made(dot, {y}, OutputFileType::assembly), "vdpbf16ps"));
}

TEST_CASE("bf16 is rounded by an instruction on AArch64", "[lowering]") {
    const Target bf16("arm-64-linux-armv86a-no_runtime");
    for (const int lanes : {1, 4, 6, 8, 16}) {
        INFO(lanes << " lanes");
        ImageParam x(Float(32), 1, "x");
        Func rounded("rounded");
        Var i("i");
        rounded(i) = attune::rounding_to_bf16(bf16)(x(i));
        if (lanes > 1) rounded.vectorize(i, lanes, TailStrategy::RoundUp);
        const std::string assembly = made(rounded, {x}, OutputFileType::assembly, bf16);
        CHECK(has(assembly, lanes == 1 ? "bfcvt\t" : "bfcvtn\t"));
        CHECK_FALSE(has(assembly, "attune_"));
    }
}

TEMPLATE_TEST_CASE("products and sums are one instruction on AArch64", "[lowering]", float, double) {
    const Target arm64("arm-64-linux-no_runtime");
    ImageParam x(type_of<TestType>(), 1, "x");
    Var i("i");
    const Expr a = x(i), b = x(i + 64), c = x(i + 128);
    const auto assembly_of = [&](const Expr &value, int lanes) {
        Func out("row");
        out(i) = value;
        if (lanes > 1) out.vectorize(i, lanes, TailStrategy::RoundUp);
        return made(out, {x}, OutputFileType::assembly, arm64);
    };
    for (const int lanes : {1, 2, 3, 4, 6, 8, 16}) {
        INFO(lanes << " lanes");
        const std::string sum = assembly_of(a * b + c, lanes), difference = assembly_of(c - a * b, lanes),
                          negated = assembly_of(a * b - c, lanes);
        CHECK(has(sum, lanes == 1 ? "fmadd\t" : "fmla\t"));
        CHECK(has(difference, lanes == 1 ? "fmsub\t" : "fmls\t"));
        CHECK(has(negated, lanes == 1 ? "fnmsub\t" : "fmla\t"));
        for (const std::string *of : {&sum, &difference, &negated}) {
            CHECK_FALSE(has(*of, "fmul\t"));
            CHECK_FALSE(has(*of, "attune_"));
        }
    }
    // The exponential rounds no product: that with the factor that finds the integer is one of its own.
    Param<TestType> factor("factor");
    Func power("power");
    power(i) = attune::exp2_nonpositive(x(i), factor);
    power.vectorize(i, 16, TailStrategy::RoundUp);
    const std::string assembly = made(power, {x, factor}, OutputFileType::assembly, arm64);
    CHECK(has(assembly, "fmla\t"));
    CHECK_FALSE(std::regex_search(assembly, std::regex("fmul\tv")));
}
