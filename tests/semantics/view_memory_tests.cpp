// SPDX-License-Identifier: MIT
// Views of memory of known size, extents known at run time only, and views of a device.
#include "tests/support/catch.h"
#include "tests/support/small_calls.h"
#include <array>
#include <attune/detail/user_attention.h>
#include <span>

using namespace attune_test;
using attune::ConstView, attune::StatusCode, attune::View;

namespace {

// Number of elements from the first of a view to its last.
std::int64_t reach(const ConstView &v) {
    std::int64_t last = 0;
    for (int n = 0; n < v.rank; n++) last += (v.extent[n] - 1) * v.stride[n];
    return last + 1;
}
// All views of a call, as inputs.
std::vector<ConstView> views_of(const SmallCall &call) {
    std::vector<ConstView> all;
    for (const ConstView *v : call.inputs) all.push_back(*v);
    for (const View *v : call.outputs) all.push_back(*v);
    return all;
}
void set_capacity(const SmallCall &call, std::size_t at, std::int64_t elements) {
    if (at < call.inputs.size())
        call.inputs[at]->capacity = elements;
    else
        call.outputs[at - call.inputs.size()]->capacity = elements;
}

}  // namespace

TEST_CASE("memory of views: an element too few is refused by every function, for each argument", "[views][bad_input]") {
    attune::Context context({.threads = 1});
    const std::size_t count = small::calls().size();
    for (std::size_t n = 0; n < count; n++) {
        const std::size_t views = views_of(*small::calls()[n]).size();
        for (std::size_t at = 0; at < views; at++) {
            const auto call = std::move(small::calls()[n]);
            const std::int64_t needed = reach(views_of(*call)[at]);
            set_capacity(*call, at, needed - 1);
            const auto status = call->run(context);
            INFO(call->name << ", view " << at << ": " << status.message());
            CHECK(status.code() == StatusCode::invalid_argument);
            const std::string end =
                "need " + std::to_string(needed) + " elements, the memory has " + std::to_string(needed - 1);
            CHECK(status.message().ends_with(end));
            CHECK(status.message().find(": extents (") < 40);
            if (!call->name.starts_with("pack_linear")) CHECK(call->untouched());  // makes two calls
        }
    }
}

TEST_CASE("memory of views: exactly what is needed is enough", "[views]") {
    attune::Context context({.threads = 2});
    for (const auto &call : small::calls()) {
        const std::vector<ConstView> views = views_of(*call);
        for (std::size_t at = 0; at < views.size(); at++) set_capacity(*call, at, reach(views[at]));
        const auto status = call->run(context);
        INFO(call->name << ": " << status.message());
        CHECK(status.ok());
    }
}

TEST_CASE("memory of views: weights of the multi-head layer that follow one another, each with its own size", "[views]") {
    constexpr std::int64_t rows = 3, width = 4;
    std::vector<float> x(rows * width, 0.5f), weights(3 * width * width), out_weight(width * width, 0.25f), out(x.size());
    for (std::size_t n = 0; n < weights.size(); n++) weights[n] = float(n % 7) / 8;
    const std::span<float> all(weights);
    const auto part = [&](std::size_t n) { return ConstView(all.subspan(n * width * width, width * width), {width, width}); };
    attune::Context context({.threads = 1});
    const ConstView input(x, {1, rows, width});
    const auto status = attune::multi_head_attention(
        context, input, input, input,
        {.query = part(0), .key = part(1), .value = part(2), .out = ConstView(out_weight, {width, width})},
        View(out, {1, rows, width}), {.heads = 2});
    INFO(status.message());
    CHECK(status.ok());
}

TEST_CASE("memory of views: projections that are wider than their inputs", "[views]") {
    constexpr std::int64_t rows = 3, keys = 4, units = 5;
    const auto numbers = [](std::int64_t count) { return std::vector<float>(static_cast<std::size_t>(count), 0.25f); };
    const auto query = numbers(rows), key = numbers(keys), weight = numbers(units), lse = numbers(rows), grad_out = query;
    auto out = query, grad_query = query, grad_key = key, grad_value = key, grad_weight = weight;
    const ConstView q(query, {1, rows, 1}), k(key, {1, keys, 1}), w(weight, {units, 1});
    const attune::AdditiveOptions options{.w_query = w, .w_key = w, .w_score = weight};
    attune::Context context({.threads = 1});
    auto status = attune::additive_attention(context, q, k, k, View(out, {1, rows, 1}), options);
    INFO(status.message());
    CHECK(status.ok());
    status = attune::additive_attention_backward(
        context, q, k, k, {ConstView(out, {1, rows, 1}), ConstView(lse, {1, rows}), ConstView(grad_out, {1, rows, 1})},
        {.query = View(grad_query, {1, rows, 1}),
         .key = View(grad_key, {1, keys, 1}),
         .value = View(grad_value, {1, keys, 1}),
         .w_query = View(grad_weight, {units, 1})},
        options);
    INFO(status.message());
    CHECK(status.ok());
    // The general score projects keys to the width of queries.
    const auto wide = numbers(rows * units);
    auto mixed = numbers(rows);
    status = attune::scaled_dot_product_attention(context, ConstView(wide, {1, rows, units}), k, k, View(mixed, {1, rows, 1}),
                                                  {.score = attune::Score::general, .score_weight = w});
    INFO(status.message());
    CHECK(status.ok());
}

TEST_CASE("memory of views: strides, views without elements, and what precedes the first element", "[views][bad_input]") {
    attune::Context context({.threads = 1});
    const std::vector<float> scores(12, 1.f), none;
    std::vector<float> out(12, 7.f);
    const auto message = [&](const ConstView &in, const View &result) {
        return attune::masked_softmax(context, in, result).message();
    };
    CHECK(message(ConstView(scores, {3, 4}), View(out, {3, 4})).empty());
    CHECK(message(ConstView(scores, {2, 4}, {8, 1}), View(out, {2, 4})).empty());
    CHECK(message(ConstView(scores, {3, 4}, {0, 1}), View(out, {3, 4})).empty());
    CHECK(message(ConstView(none, {0, 4}), View(out, {0, 4})).empty());
    CHECK(message(ConstView(scores, {1, 4}, {1000, 1}), View(out, {1, 4})).empty());  // the first stride is ignored
    std::fill(out.begin(), out.end(), 7.f);
    CHECK(message(ConstView(scores, {3, 4}, {5, 1}), View(out, {3, 4})) ==
          "scores: extents (3, 4) with their strides need 14 elements, the memory has 12");
    CHECK(message(ConstView(scores, {3, 4}), View(out, {3, 5})).starts_with("out: "));
    CHECK(message(ConstView(none, {3, 4}), View(out, {3, 4})) ==
          "scores: extents (3, 4) with their strides need 12 elements, the memory has 0");
    CHECK(message(ConstView(scores, {3, 4}, {-4, 1}), View(out, {3, 4})) ==
          "scores: its strides reach 8 elements before the first of its memory");
    CHECK(std::all_of(out.begin(), out.end(), [](float x) { return x == 7; }));
    // The size of the memory behind a pointer is unknown, and there may be memory before it.
    CHECK(message(ConstView(scores.data() + 8, {3, 4}, {-4, 1}), View(out, {3, 4})).empty());
}

TEST_CASE("memory of views: captures of users' attention", "[views][bad_input]") {
    using namespace attune::detail;
    static constexpr CaptureRecord captures[] = {{"table", true, attune::DType::f32, 2, false, false, false}};
    const AttentionRecord record{
        "attention_of_no_kernels", "user_attention_of_no_kernels", "", captures, false, false, false, {}};
    attune::Context context({.threads = 1});
    const float x[4] = {}, table[5] = {};
    float out[4] = {7, 7, 7, 7};
    const CaptureArgument given[] = {{.buffer = ConstView(table, {2, 3})}};
    const auto status = run_user_attention(context, record, ConstView(x, {2, 2}), ConstView(x, {2, 2}), ConstView(x, {2, 2}),
                                           View(out, {2, 2}), {}, given, nullptr);
    CHECK(status.message() == "table: extents (2, 3) with their strides need 6 elements, the memory has 5");
    CHECK(out[0] == 7);
}

TEST_CASE("views: of pointers, arrays and containers, with extents known at run time", "[views]") {
    float floats[6] = {};
    std::vector<double> doubles(6);
    std::array<attune::bfloat16, 6> halves{};
    const std::span<const double> span(doubles);
    const std::vector<std::size_t> extents = {2, 3};
    const std::array<int, 2> strides = {1, 2};
    const auto check = [](const ConstView &v, const void *data, attune::DType type, std::int64_t capacity, std::int64_t first,
                          std::int64_t last) {
        CHECK(v.data == data);
        CHECK(v.dtype == type);
        CHECK(v.capacity == capacity);
        CHECK(v.rank == 2);
        CHECK((v.extent[0] == 2 && v.extent[1] == 3));
        CHECK((v.stride[0] == first && v.stride[1] == last));
        CHECK(v.place == attune::Place::host);
    };
    check(ConstView(&floats[0], extents), floats, attune::DType::f32, -1, 3, 1);
    check(View(floats, {2, 3}), floats, attune::DType::f32, 6, 3, 1);
    check(View(doubles, extents, strides), doubles.data(), attune::DType::f64, 6, 1, 2);
    check(ConstView(span, extents, {1, 2}), doubles.data(), attune::DType::f64, 6, 1, 2);
    check(View(halves, {2, 3}, strides), halves.data(), attune::DType::bf16, 6, 1, 2);
    const std::vector<std::int32_t> lens = {1, 2, 3};
    const attune::SdpaOptions options{.valid_lens = lens};  // the whole vector, as rank 1
    CHECK(options.valid_lens.rank == 1);
    CHECK(options.valid_lens.extent[0] == 3);
    CHECK(options.valid_lens.stride[0] == 1);
    CHECK(options.valid_lens.capacity == 3);
}

TEST_CASE("views: ranks beyond the limit, and strides of another rank, by extents known at run time", "[views][bad_input]") {
    attune::Context context({.threads = 1});
    const std::vector<float> scores(8, 1.f);
    std::vector<float> out(8, 7.f);
    const auto message = [&](const ConstView &in) {
        return attune::masked_softmax(context, in, View(out, std::vector<int>{2, 4})).message();
    };
    const std::vector<int> five(5, 1), many(70, 1), two = {2, 4}, three = {4, 4, 1};
    CHECK(message(ConstView(scores, two)).empty());
    std::fill(out.begin(), out.end(), 7.f);
    for (const ConstView &v : {ConstView(scores, five), ConstView(scores, many), ConstView(scores, two, three),
                               ConstView(scores, {2, 4}, five), ConstView(scores, {1, 1, 1, 2, 4})}) {
        const std::string said = message(v);
        INFO(said);
        CHECK(said.starts_with("scores: rank must be "));
        CHECK(said.ends_with("got 5"));
    }
    const std::vector<std::uint64_t> huge = {2, std::uint64_t(-3)};
    CHECK(message(ConstView(scores, huge)) == "scores: extent 1 must not be negative, got -3");
    CHECK(std::all_of(out.begin(), out.end(), [](float x) { return x == 7; }));
}

TEST_CASE("views: of memory on a device", "[views]") {
    std::vector<float> memory(6);
    const float *const input = memory.data();
    const std::vector<std::int64_t> extents = {2, 3};
    const auto in = attune::device_view(input, {2, 3});
    const auto out = attune::device_view(memory.data(), extents, {1, 2});
    static_assert(std::is_same_v<decltype(in), const ConstView> && std::is_same_v<decltype(out), const View>);
    CHECK(in.place == attune::Place::device);
    CHECK(in.stride[0] == 3);
    CHECK(out.place == attune::Place::device);
    CHECK(out.stride[1] == 2);
    attune::Context context({.threads = 1});
    const auto status = attune::merge_attention(context, in, in, in, in, out);
    CHECK(status.code() == StatusCode::unsupported);
    CHECK(status.message().find("device") != std::string::npos);
}
