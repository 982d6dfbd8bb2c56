// SPDX-License-Identifier: MIT
// Bad options, bad Contexts and bad variants: refused by name and number; nothing is written.
#include "tests/support/refusals.h"
#include "tests/support/variant_grid.h"

using namespace attune_test;
using attune::Causal, attune::ConstView;

TEST_CASE("bad option: valid_lens negative or beyond the keys", "[sdpa][bad_input]") {
    const std::int32_t negative[] = {2, -1}, beyond[] = {6, 2}, deep[] = {5, 5, 0, 1, 9, 5}, least[] = {-2147483647 - 1, 0};
    refused(invalid, "valid_lens", {"1", "-1", "5"}, [&](Call &c) { c.options.valid_lens = ConstView(negative, {2}); });
    refused(invalid, "valid_lens", {"0", "6", "5"}, [&](Call &c) { c.options.valid_lens = ConstView(beyond, {2}); });
    refused(invalid, "valid_lens", {"(1, 1)", "9", "5"}, [&](Call &c) { c.options.valid_lens = ConstView(deep, {2, 3}); });
    refused(invalid, "valid_lens", {"-2147483648"}, [&](Call &c) { c.options.valid_lens = ConstView(least, {2}); });
}

TEST_CASE("bad option: valid_lens of a wrong shape, type or place", "[sdpa][bad_input]") {
    const std::int32_t lens[] = {1, 1, 1, 1, 1, 1, 1, 1};
    const float floats[] = {1, 1};
    refused(invalid, "valid_lens", {"3", "2"}, [&](Call &c) { c.options.valid_lens = ConstView(lens, {3}); });
    refused(invalid, "valid_lens", {"4", "3"}, [&](Call &c) { c.options.valid_lens = ConstView(lens, {2, 4}); });
    refused(invalid, "valid_lens", {"1", "2"}, [&](Call &c) { c.options.valid_lens = ConstView(lens, {1, 3}); });
    refused(invalid, "valid_lens", {"3"}, [&](Call &c) { c.options.valid_lens = ConstView(lens, {2, 1, 3}); });
    refused(invalid, "valid_lens", {"-2"}, [&](Call &c) { c.options.valid_lens = ConstView(lens, {-2}); });
    refused(invalid, "valid_lens", {"f32", "i32"}, [&](Call &c) { c.options.valid_lens = ConstView(floats, {2}); });
    refused(unsupported, "valid_lens", {"device"},
            [&](Call &c) { c.options.valid_lens = ConstView(lens, {2}), c.options.valid_lens.place = attune::Place::device; });
}

TEST_CASE("bad option: windows below -1", "[sdpa][bad_input]") {
    refused(invalid, "window", {"left", "-2"}, [](Call &c) { c.options.window.left = -2; });
    refused(invalid, "window", {"right", "-7"}, [](Call &c) { c.options.window.right = -7; });
    refused(invalid, "window", {"left", "-9223372036854775808"}, [](Call &c) { c.options.window.left = INT64_MIN; });
}

TEST_CASE("bad option: a scale that is no number", "[sdpa][bad_input]") {
    refused(invalid, "scale", {"nan"}, [](Call &c) { c.options.scale = std::nan(""); });
    refused(invalid, "scale", {"inf"}, [](Call &c) { c.options.scale = std::numeric_limits<double>::infinity(); });
    refused(invalid, "scale", {"-inf"}, [](Call &c) { c.options.scale = -std::numeric_limits<double>::infinity(); });
}

TEST_CASE("bad option: offsets", "[sdpa][bad_input]") {
    const std::int32_t offsets[] = {1, 2, 3, 4};
    const float floats[] = {1, 2};
    refused(invalid, "offset", {}, [](Call &c) { c.options.causal = Causal::offset; });
    refused(invalid, "offsets", {"offset"},
            [&](Call &c) { c.options.offset = 1, c.options.offsets = ConstView(offsets, {2}); });
    refused(invalid, "offsets", {"3", "2"}, [&](Call &c) { c.options.offsets = ConstView(offsets, {3}); });
    refused(invalid, "offsets", {"2"}, [&](Call &c) { c.options.offsets = ConstView(offsets, {2, 2}); });
    refused(invalid, "offsets", {"f32", "i32"}, [&](Call &c) { c.options.offsets = ConstView(floats, {2}); });
    refused(unsupported, "offsets", {"device"},
            [&](Call &c) { c.options.offsets = ConstView(offsets, {2}), c.options.offsets.place = attune::Place::device; });
}

TEST_CASE("bad option: the largest legal numbers of window and offset are no error", "[sdpa][bad_input]") {
    for (std::int64_t offset : {INT64_MAX, INT64_MIN, std::int64_t(0)})
        for (std::int64_t window : {INT64_MAX, std::int64_t(-1), std::int64_t(0)}) {
            SpoiledCall c;
            c.options.causal = Causal::offset, c.options.offset = offset, c.options.window = {window, window};
            const auto status = c.run();
            INFO(status.message());
            CHECK(status.ok());
            CHECK(c.arrays.out.all_written());
        }
}

TEST_CASE("bad option: threads below 1", "[sdpa][bad_input]") {
    for (int threads : {-1, -2, -2147483647, 2147483647}) {
        attune::Context context({.threads = threads});
        CHECK(context.status().code() == invalid);
        CHECK(message_defect(context.status().message(), "threads", {std::to_string(threads)}) == "");
        SpoiledCall call;
        const auto status =
            attune::scaled_dot_product_attention(context, call.query, call.key, call.value, call.out, call.options);
        CHECK(status.code() == context.status().code());
        CHECK(status.message() == context.status().message());
        CHECK(call.arrays.out.untouched());
        CHECK(call.arrays.lse.untouched());
        attune::Plan plan;
        CHECK(attune::plan_sdpa(context, {.queries = 4, .keys = 4, .head_dim = 8, .value_dim = 8}, plan).code() == invalid);
        context.release_scratch();
        CHECK(context.scratch_bytes() == 0);
    }
    CHECK(attune::Context({.threads = 1}).status().ok());
    CHECK(attune::Context().threads() >= 1);
}

TEST_CASE("bad option: half an allocator", "[sdpa][bad_input]") {
    attune::Context context({.allocator = {.allocate = [](void *, std::size_t, std::size_t) -> void * { return nullptr; }}});
    CHECK(context.status().code() == invalid);
    CHECK(message_defect(context.status().message(), "allocator", {}) == "");
}

TEST_CASE("bad option: a variant that does not exist", "[sdpa][bad_input]") {
    refused(invalid, "variant", {"sdpa_f32_d63_nowhere_prefill"},
            [](Call &c) { c.options.variant = "sdpa_f32_d63_nowhere_prefill"; });
    refused(invalid, "variant", {"x"}, [](Call &c) { c.options.variant = "x"; });
    refused(invalid, "variant", {}, [](Call &c) { c.options.variant = std::string_view("\0", 1); });
}

TEST_CASE("bad option: a variant of another type or head size, or of another machine", "[sdpa][bad_input]") {
    int tried = 0;
    for (const attune::VariantInfo &v : attune::variants()) {
        const std::string name(v.name);
        if (v.op != "sdpa") {
            refused(v.runs_here ? invalid : unsupported, "variant", {name}, [&](Call &c) { c.options.variant = name; });
        } else if (!v.runs_here) {
            SpoiledCall c;  // f32, head sizes 8 and 6: the machine is checked first
            c.options.variant = name;
            check_refused(c, unsupported, "variant", {name, v.why_not});
        } else if (v.dtype == attune::DType::f64) {
            refused(invalid, "variant", {name, "f64", "f32"}, [&](Call &c) { c.options.variant = name; });
            tried++;
        } else if (v.head_dim != 0) {
            // The weights do not depend on the values' size.
            const std::vector<std::string> sizes = {name, std::to_string(v.head_dim), "8", v.kind == "weights" ? "8" : "6"};
            refused(invalid, "variant", sizes, [&](Call &c) { c.options.variant = name; });
            tried++;
        }
    }
    CHECK(tried > 0);
}

TEST_CASE("bad option: a plan of impossible sizes", "[sdpa][bad_input]") {
    attune::Context context;
    attune::Plan plan;
    plan.variant = "untouched";
    const auto refuses = [&](const attune::SdpaProblem &problem, const std::string &argument,
                             const std::vector<std::string> &parts) {
        const auto status = attune::plan_sdpa(context, problem, plan);
        CHECK(status.code() == invalid);
        CHECK(message_defect(status.message(), argument, parts) == "");
        CHECK(plan.variant == "untouched");
    };
    refuses({.batch = -1}, "batch", {"-1"});
    refuses({.queries = -4}, "queries", {"-4"});
    refuses({.keys = std::int64_t(1) << 40}, "keys", {"1099511627776"});
    refuses({.head_dim = 0}, "head_dim", {"0"});
    refuses({.value_dim = -2}, "value_dim", {"-2"});
    refuses({.query_heads = 4, .key_heads = 3}, "key", {"4", "3"});
    refuses({.dtype = attune::DType::i32}, "dtype", {"i32"});
}
