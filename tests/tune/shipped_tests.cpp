// SPDX-License-Identifier: MIT
// The gate accepts the shipped kernels: for each op with checks, in f32 and bf16, one variant of each schedule and kind for
// this machine's target.
#include "bench/cases/shapes.h"
#include "tests/support/catch.h"
#include "tests/support/variant_grid.h"
#include "tools/tune/gate.h"
#include <set>
#include <tuple>

namespace {

bench::Shape small_shape(const attune::VariantInfo &v) {
    bench::Shape s;
    s.op = v.op == "additive_separable" ? "additive" : v.op == "transposed_dot" ? "linear_backward" : std::string(v.op);
    s.dtype = v.dtype;
    s.b = 2, s.h = 4, s.kv = s.attention() ? 2 : 1, s.q = 70, s.k = 150;
    s.d = s.dv = v.head_dim ? v.head_dim : 64;
    s.options.weights = v.kind == "weights", s.options.bias = v.kind == "scored", s.options.dropout = v.kind == "training";
    return s;
}

}  // namespace

TEST_CASE("gate: what ships passes", "[tune]") {
    // Variants for one row or few count apart, since they refuse what others take.
    std::set<std::tuple<std::string_view, attune::DType, std::string_view, std::string_view, bool>> seen;
    int passed = 0;
    for (const attune::VariantInfo &v : attune::variants()) {
        const bool of_type = v.dtype == attune::DType::f32 || v.dtype == attune::DType::bf16;
        const bool taken = v.runs_here && v.dispatched && v.schedule != "root" && of_type;
        if (!taken || attune::tune::awkward_checks(v, 1).empty()) continue;
        if (!seen.emplace(v.op, v.dtype, v.schedule, v.kind, attune_test::is_for_few_rows(v)).second) continue;
        std::string last;
        const attune::tune::GateJob job{
            .variant = std::string(v.name), .shapes = {small_shape(v)}, .threads = 2, .expected = {}};
        const attune::tune::Judgement judged = judge_candidate(job, [&](const std::string &text) { last = text; });
        INFO(v.name << " " << v.parameters << ": " << judged.reason << " at " << last);
        CHECK(judged.right);
        CHECK(judged.error_ratio <= 1);
        passed++;
    }
    CHECK(passed > 0);
}
