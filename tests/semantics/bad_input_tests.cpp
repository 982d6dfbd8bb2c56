// SPDX-License-Identifier: MIT
// Bad arrays: each is refused by name and number, nothing is written, and the Context keeps working.
#include "tests/support/refusals.h"

using namespace attune_test;
using attune::ConstView, attune::View;

TEST_CASE("bad input: the call that the others spoil is right", "[sdpa][bad_input]") {
    SpoiledCall call;
    CHECK(call.run().ok());
    CHECK(defect(call.arrays) == "");
    CHECK(call.run().message() == "");
}

TEST_CASE("bad input: null data", "[sdpa][bad_input]") {
    refused(invalid, "query", {"null"}, [](Call &c) { c.query.data = nullptr; });
    refused(invalid, "key", {"null"}, [](Call &c) { c.key.data = nullptr; });
    refused(invalid, "value", {"null"}, [](Call &c) { c.value.data = nullptr; });
    refused(invalid, "out", {"null"}, [](Call &c) { c.out.data = nullptr; });
    refused(invalid, "lse", {"null"}, [](Call &c) { c.options.lse.data = nullptr; });
    refused(invalid, "weights", {"null"}, [](Call &c) { c.options.weights.data = nullptr; });
    const std::int32_t *none = nullptr;
    refused(invalid, "valid_lens", {"null"}, [&](Call &c) { c.options.valid_lens = ConstView(none, {2}); });
    refused(invalid, "offsets", {"null"},
            [&](Call &c) { c.options.causal = attune::Causal::offset, c.options.offsets = ConstView(none, {2}); });
}

TEST_CASE("bad input: wrong rank", "[sdpa][bad_input]") {
    refused(invalid, "query", {"0"}, [](Call &c) { c.query = {}; });
    refused(invalid, "query", {"1"}, [](Call &c) { c.query.rank = 1; });
    refused(invalid, "key", {"4", "2"}, [](Call &c) { c.query = ConstView(static_cast<const float *>(c.query.data), {3, 8}); });
    refused(invalid, "query", {"5"}, [](Call &c) { c.query.rank = 5; });
    refused(invalid, "query", {"-1"}, [](Call &c) { c.query.rank = -1; });
    refused(invalid, "key", {"3", "4"}, [](Call &c) { c.key.rank = 3; });
    refused(invalid, "value", {"0"}, [](Call &c) { c.value = {}; });
    refused(invalid, "out", {"3", "4"}, [](Call &c) { c.out.rank = 3; });
    refused(invalid, "lse", {"3", "4"}, [](Call &c) { c.options.lse.rank = 4; });
    refused(invalid, "lse", {"3", "2"}, [](Call &c) { c.options.lse.rank = 2; });
    refused(invalid, "out", {}, [](Call &c) {
        c.out = View(c.arrays.out.data(), {2, 4, 3, 6}, {72, 18, 6});
    });  // one stride is missing
}

TEST_CASE("bad input: extents that do not match", "[sdpa][bad_input]") {
    refused(invalid, "key", {"batch", "3", "2"}, [](Call &c) { c.key.extent[0] = 3, c.key.stride[0] = 0; });
    refused(invalid, "key", {"head size", "7", "8"}, [](Call &c) { c.key.extent[3] = 7; });
    refused(invalid, "value", {"batch", "1", "2"}, [](Call &c) { c.value.extent[0] = 1; });
    refused(invalid, "value", {"heads", "1", "2"}, [](Call &c) { c.value.extent[1] = 1; });
    refused(invalid, "value", {"keys", "4", "5"}, [](Call &c) { c.value.extent[2] = 4; });
    refused(invalid, "out", {"batch", "1", "2"}, [](Call &c) { c.out.extent[0] = 1; });
    refused(invalid, "out", {"heads", "2", "4"}, [](Call &c) { c.out.extent[1] = 2; });
    refused(invalid, "out", {"queries", "2", "3"}, [](Call &c) { c.out.extent[2] = 2; });
    refused(invalid, "out", {"head size", "5", "6"}, [](Call &c) { c.out.extent[3] = 5; });
    refused(invalid, "lse", {"batch", "1", "2"}, [](Call &c) { c.options.lse.extent[0] = 1; });
    refused(invalid, "lse", {"heads", "3", "4"}, [](Call &c) { c.options.lse.extent[1] = 3; });
    refused(invalid, "lse", {"queries", "2", "3"}, [](Call &c) { c.options.lse.extent[2] = 2; });
}

TEST_CASE("bad input: numbers of heads", "[sdpa][bad_input]") {
    const auto key_heads = [](std::int64_t n) {
        return [n](Call &c) { c.key.extent[1] = c.value.extent[1] = n, c.key.stride[1] = c.value.stride[1] = 0; };
    };
    refused(invalid, "key", {"3", "4"}, key_heads(3));
    refused(invalid, "key", {"8", "4"}, key_heads(8));
    refused(invalid, "key", {"0", "4"}, key_heads(0));
}

TEST_CASE("bad input: the last stride", "[sdpa][bad_input]") {
    refused(invalid, "query", {"last stride", "1", "2"}, [](Call &c) { c.query.stride[3] = 2; });
    refused(invalid, "key", {"last stride", "1", "0"}, [](Call &c) { c.key.stride[3] = 0; });
    refused(invalid, "value", {"last stride", "1", "-1"}, [](Call &c) { c.value.stride[3] = -1; });
    refused(invalid, "out", {"last stride", "1", "12"}, [](Call &c) { c.out.stride[3] = 12; });
}

TEST_CASE("bad input: the last stride of one channel, and strides of one element, are free", "[sdpa][bad_input]") {
    attune::Context context;
    const std::vector<float> query(6, 1.f), key(10, 1.f), value(10, 3.f);
    std::vector<float> out(6, 0.f);
    const auto status = attune::scaled_dot_product_attention(
        context, ConstView(query.data(), {1, 2, 3, 1}, {-77, 3, 1, 9}), ConstView(key.data(), {1, 2, 5, 1}, {5, 5, 1, 0}),
        ConstView(value.data(), {1, 2, 5, 1}, {1000000, 5, 1, -4}), View(out.data(), {1, 2, 3, 1}, {0, 3, 1, 7}));
    INFO(status.message());
    CHECK(status.ok());
    for (float x : out) CHECK(std::abs(x - 3) < 1e-5f);
}

TEST_CASE("bad input: types", "[sdpa][bad_input]") {
    refused(invalid, "query", {"i32"}, [](Call &c) { c.query.dtype = attune::DType::i32; });
    refused(invalid, "key", {"f64", "f32"}, [](Call &c) { c.key.dtype = attune::DType::f64; });
    refused(invalid, "value", {"i32"}, [](Call &c) { c.value.dtype = attune::DType::i32; });
    refused(invalid, "out", {"f64", "f32"}, [](Call &c) { c.out.dtype = attune::DType::f64; });
    refused(invalid, "lse", {"f64", "f32"}, [](Call &c) { c.options.lse.dtype = attune::DType::f64; });
}

TEST_CASE("bad input: types of 16 bits, mixed and where there are none", "[sdpa][bad_input]") {
    using attune::DType;
    // A type of as many bytes, or fewer.
    const auto all = [](Call &c, DType type) {
        for (ConstView *v : {&c.query, &c.key, &c.value}) v->dtype = type;
        c.out.dtype = c.options.weights.dtype = type;
    };
    refused(invalid, "query", {"f32, f64, bf16 or f16", "bool"}, [](Call &c) { c.query.dtype = DType::boolean; });
    for (const auto &[type, name, other, other_name] :
         {std::tuple(DType::bf16, "bf16", DType::f16, "f16"), {DType::f16, "f16", DType::bf16, "bf16"}}) {
        const auto spoil = [&, type = type](auto &&part, DType to) {
            return [&all, &part, type, to](Call &c) { all(c, type), part(c).dtype = to; };
        };
        const auto key = [](Call &c) -> ConstView & { return c.key; };
        const auto value = [](Call &c) -> ConstView & { return c.value; };
        const auto out = [](Call &c) -> View & { return c.out; };
        const auto lse = [](Call &c) -> View & { return c.options.lse; };
        const auto weights = [](Call &c) -> View & { return c.options.weights; };
        refused(invalid, "key", {other_name, name}, spoil(key, other));
        refused(invalid, "key", {"f32", name}, spoil(key, DType::f32));
        refused(invalid, "value", {other_name, name}, spoil(value, other));
        refused(invalid, "out", {"f32", name}, spoil(out, DType::f32));
        refused(invalid, "weights", {"f32", name}, spoil(weights, DType::f32));
        for (const DType wrong : {type, other, DType::f64})
            refused(invalid, "lse", {"must be f32", name, attune::name_of(wrong)}, spoil(lse, wrong));
        const std::vector<float> zeros(5, 0.f);
        refused(invalid, "bias", {"f32", name},
                [&, type = type](Call &c) { all(c, type), c.options.bias = ConstView(zeros.data(), {5}); });
        for (const auto &[score, score_name] :
             {std::pair(attune::Score::cosine, "Score::cosine"), {attune::Score::gaussian, "Score::gaussian"}})
            refused(unsupported, "query", {score_name, "f32 or f64", name},
                    [&, type = type, score = score](Call &c) { all(c, type), c.options.score = score; });
        attune::Plan plan;
        const attune::Status status =
            attune::plan_sdpa(attune::Context(), {.dtype = type, .score = attune::Score::cosine}, plan);
        CHECK(status.code() == unsupported);
        CHECK(message_defect(status.message(), "dtype", {"Score::cosine", "f32 or f64", name}) == "");
    }
}

TEST_CASE("bad input: memory of a device", "[sdpa][bad_input]") {
    refused(unsupported, "query", {"device"}, [](Call &c) { c.query.place = attune::Place::device; });
    refused(unsupported, "value", {"device"}, [](Call &c) { c.value.place = attune::Place::device; });
    refused(unsupported, "out", {"device"}, [](Call &c) { c.out.place = attune::Place::device; });
    refused(unsupported, "lse", {"device"}, [](Call &c) { c.options.lse.place = attune::Place::device; });
}

TEST_CASE("bad input: negative extents", "[sdpa][bad_input]") {
    refused(invalid, "query", {"-2"}, [](Call &c) { c.query.extent[0] = -2; });
    refused(invalid, "key", {"-1"}, [](Call &c) { c.key.extent[2] = -1; });
    refused(invalid, "out", {"-3"}, [](Call &c) { c.out.extent[2] = -3; });
    refused(invalid, "lse", {"-3"}, [](Call &c) { c.options.lse.extent[2] = -3; });
    refused(invalid, "query", {"-8"}, [](Call &c) { c.query.extent[3] = -8; });
}

TEST_CASE("bad input: a head size of 0", "[sdpa][bad_input]") {
    refused(invalid, "query", {"1", "0"}, [](Call &c) { c.query.extent[3] = c.key.extent[3] = 0; });
    refused(invalid, "value", {"1", "0"}, [](Call &c) { c.value.extent[3] = c.out.extent[3] = 0; });
}

TEST_CASE("bad input: sizes whose product or span is too large", "[sdpa][bad_input]") {
    // Stride 0, so that the memory suffices: only the numbers are too large.
    const auto huge = [](Call &c, int n, std::int64_t extent) {
        c.query.extent[n] = c.key.extent[n] = c.value.extent[n] = c.out.extent[n] = extent;
        c.query.stride[n] = c.key.stride[n] = c.value.stride[n] = 0;
    };
    refused(unsupported, "query", {"1099511627776"}, [&](Call &c) { huge(c, 0, std::int64_t(1) << 40); });
    refused(unsupported, "query", {"9223372036854775807"}, [&](Call &c) { huge(c, 1, INT64_MAX); });
    refused(unsupported, "query", {"2147483647"}, [&](Call &c) {
        for (int n : {0, 1, 2, 3}) huge(c, n, 2147483647);
    });
    refused(unsupported, "key", {"2^31"}, [](Call &c) { c.key.stride[0] = 2147483648; });
    refused(unsupported, "value", {"2^31"}, [](Call &c) { c.value.stride[1] = -2147483648; });
    refused(unsupported, "value", {"2^31"}, [](Call &c) { c.value.stride[1] = INT64_MIN; });
    refused(unsupported, "out", {"2^31"}, [](Call &c) { c.out.stride[2] = std::int64_t(1) << 32; });
    refused(unsupported, "lse", {"2^31"}, [](Call &c) { c.options.lse.stride[0] = INT64_MAX; });
}

TEST_CASE("bad input: out overlaps an input", "[sdpa][bad_input]") {
    // The first element of out is the last one of another view.
    const auto behind = [](Call &c, ConstView other, std::int64_t last) {
        c.out.data = const_cast<float *>(static_cast<const float *>(other.data)) + last;
    };
    refused(invalid, "out", {"query"}, [&](Call &c) { behind(c, c.query, 2 * 4 * 3 * 8 - 1); });
    refused(invalid, "out", {"key"}, [&](Call &c) { behind(c, c.key, 2 * 2 * 5 * 8 - 1); });
    refused(invalid, "out", {"value"}, [&](Call &c) { behind(c, c.value, 0); });
    // Memory that is legal for lengths and for out: only the overlap is wrong.
    std::vector<std::int32_t> shared(2 * 4 * 3 * 6, 1), before = shared;
    refused(invalid, "out", {"valid_lens"},
            [&](Call &c) { c.options.valid_lens = ConstView(shared.data(), {2}), c.out.data = shared.data(); });
    refused(invalid, "out", {"offsets"},
            [&](Call &c) { c.options.offsets = ConstView(shared.data() + 143, {2}, {-1}), c.out.data = shared.data(); });
    CHECK(shared == before);
}

TEST_CASE("bad input: outputs overlap each other or themselves", "[sdpa][bad_input]") {
    refused(invalid, "lse", {"out"}, [](Call &c) { c.options.lse.data = c.out.data; });
    refused(invalid, "lse", {"key"}, [](Call &c) { c.options.lse.data = const_cast<void *>(c.key.data); });
    refused(invalid, "out", {"overlap"}, [](Call &c) { c.out.stride[1] = 0; });
    refused(invalid, "out", {"overlap"}, [](Call &c) { c.out.stride[2] = 5; });  // rows of 6
    refused(invalid, "out", {"overlap"}, [](Call &c) { c.out.stride[0] = -6; });
    refused(invalid, "lse", {"overlap"}, [](Call &c) { c.options.lse.stride[0] = 0; });
    refused(invalid, "lse", {"overlap"}, [](Call &c) { c.options.lse.stride[1] = 1; });
}

TEST_CASE("bad input: arrays that interleave without overlapping are legal", "[sdpa][bad_input]") {
    // (B, S, 4, H, D): slots of query, key, value and out; and lse in a gap of a padded out.
    attune::Context context;
    const std::int64_t batch = 2, s = 6, heads = 3, d = 8;
    std::vector<float> buffer(std::size_t(batch * s * 4 * heads * d), 0.5f);
    const auto slot = [&](int n) {
        return View(buffer.data() + n * heads * d, {batch, heads, s, d}, {s * 4 * heads * d, d, 4 * heads * d, 1});
    };
    for (int out : {0, 1, 2, 3}) {
        const auto status = attune::scaled_dot_product_attention(context, slot((out + 1) % 4), slot((out + 2) % 4),
                                                                 slot((out + 3) % 4), slot(out));
        INFO(status.message());
        CHECK(status.ok());
    }
    std::vector<float> rows(std::size_t(batch * heads * s * (d + 1)), 0.f);
    const View padded(rows.data(), {batch, heads, s, d}, {heads * s * (d + 1), s * (d + 1), d + 1, 1});
    const View gap(rows.data() + d, {batch, heads, s}, {heads * s * (d + 1), s * (d + 1), d + 1});
    const auto status = attune::scaled_dot_product_attention(context, slot(0), slot(1), slot(2), padded, {.lse = gap});
    INFO(status.message());
    CHECK(status.ok());
    for (std::size_t n = 0; n < rows.size(); n++)
        CHECK(std::abs(rows[n] - (n % 9 == 8 ? 0.25 * std::sqrt(8.0) + std::log(6.0) : 0.5)) < 1e-5);
}
