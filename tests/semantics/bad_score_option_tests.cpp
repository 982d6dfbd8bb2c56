// SPDX-License-Identifier: MIT
// Bad options of scores, masks, dropout and weights: refused by name and number; nothing is written.
#include "tests/support/refusals.h"

using namespace attune_test;
using attune::ConstView, attune::Score, attune::View, attune::WeightsMode;

namespace {
// Memory for options of any kind; large enough for (2, 4, 3, 5).
const std::vector<std::int32_t> ints(600, 1);
const bool bools[600] = {};
}  // namespace

TEST_CASE("bad option: mask and bias of a wrong type, rank or place", "[sdpa][bad_input]") {
    refused(invalid, "mask", {"bool", "f32"}, [](Call &c) { c.options.mask = ConstView(floats.data(), {3, 5}); });
    refused(invalid, "mask", {"bool", "i32"}, [](Call &c) { c.options.mask = ConstView(ints.data(), {3, 5}); });
    refused(invalid, "bias", {"f32", "bool"}, [](Call &c) { c.options.bias = ConstView(bools, {3, 5}); });
    refused(invalid, "bias", {"f32", "f64"}, [](Call &c) { c.options.bias = ConstView(doubles.data(), {3, 5}); });
    refused(invalid, "mask", {"5"}, [](Call &c) { c.options.mask = ConstView(bools, {3, 5}), c.options.mask.rank = 5; });
    refused(invalid, "bias", {"-1"}, [](Call &c) { c.options.bias = ConstView(floats.data(), {5}), c.options.bias.rank = -1; });
    refused(unsupported, "mask", {"device"}, [](Call &c) {
        c.options.mask = ConstView(bools, {3, 5}), c.options.mask.place = attune::Place::device;
    });
    const bool *none = nullptr;
    refused(invalid, "mask", {"null"}, [&](Call &c) { c.options.mask = ConstView(none, {3, 5}); });
}

TEST_CASE("bad option: mask and bias of a shape that does not broadcast", "[sdpa][bad_input]") {
    refused(invalid, "mask", {"keys", "5", "4"}, [](Call &c) { c.options.mask = ConstView(bools, {4}); });
    refused(invalid, "mask", {"queries", "3", "2"}, [](Call &c) { c.options.mask = ConstView(bools, {2, 5}); });
    refused(invalid, "bias", {"heads", "4", "2"}, [](Call &c) { c.options.bias = ConstView(floats.data(), {2, 3, 5}); });
    refused(invalid, "bias", {"batch", "2", "3"}, [](Call &c) { c.options.bias = ConstView(floats.data(), {3, 4, 3, 5}); });
    refused(invalid, "bias", {"keys", "5", "0"}, [](Call &c) { c.options.bias = ConstView(floats.data(), {3, 0}); });
    refused(invalid, "mask", {"-3"}, [](Call &c) { c.options.mask = ConstView(bools, {-3, 5}); });
    refused(invalid, "mask", {"last stride", "1", "2"}, [](Call &c) { c.options.mask = ConstView(bools, {3, 5}, {10, 2}); });
    refused(invalid, "bias", {"last stride", "1", "0"}, [](Call &c) {
        c.options.bias = ConstView(floats.data(), {3, 5}, {5, 0});
    });
}

TEST_CASE("bad option: a mask of more dimensions than the query", "[sdpa][bad_input]") {
    attune::Context context;
    Array<float> query({2, 3, 8}), key({2, 5, 8}), value({2, 5, 6}), out({2, 3, 6});
    const auto status = attune::scaled_dot_product_attention(context, query.view(), key.view(), value.view(), out.view(),
                                                             {.mask = ConstView(bools, {2, 1, 3, 5})});
    CHECK(status.code() == invalid);
    CHECK(message_defect(status.message(), "mask", {"3", "4"}) == "");
    CHECK(out.untouched());
}

TEST_CASE("bad option: softcap", "[sdpa][bad_input]") {
    refused(invalid, "softcap", {"-1"}, [](Call &c) { c.options.softcap = -1; });
    refused(invalid, "softcap", {"nan"}, [](Call &c) { c.options.softcap = std::nan(""); });
    refused(invalid, "softcap", {"inf"}, [](Call &c) { c.options.softcap = std::numeric_limits<double>::infinity(); });
}

TEST_CASE("bad option: slopes and sinks", "[sdpa][bad_input]") {
    refused(invalid, "alibi_slopes", {"3", "4"}, [](Call &c) { c.options.alibi_slopes = ConstView(floats.data(), {3}); });
    refused(invalid, "alibi_slopes", {"3", "2"}, [](Call &c) { c.options.alibi_slopes = ConstView(floats.data(), {3, 4}); });
    refused(invalid, "alibi_slopes", {"3"}, [](Call &c) { c.options.alibi_slopes = ConstView(floats.data(), {2, 4, 1}); });
    refused(invalid, "alibi_slopes", {"f32", "f64"}, [](Call &c) { c.options.alibi_slopes = ConstView(doubles.data(), {4}); });
    refused(invalid, "sinks", {"2", "4"}, [](Call &c) { c.options.sinks = ConstView(floats.data(), {2}); });
    refused(invalid, "sinks", {"2"}, [](Call &c) { c.options.sinks = ConstView(floats.data(), {2, 4}); });
    refused(invalid, "sinks", {"f32", "i32"}, [](Call &c) { c.options.sinks = ConstView(ints.data(), {4}); });
    const float *none = nullptr;
    refused(invalid, "sinks", {"null"}, [&](Call &c) { c.options.sinks = ConstView(none, {4}); });
    refused(unsupported, "alibi_slopes", {"device"}, [](Call &c) {
        c.options.alibi_slopes = ConstView(floats.data(), {4}), c.options.alibi_slopes.place = attune::Place::device;
    });
}

TEST_CASE("bad option: probabilities of dropout", "[sdpa][bad_input]") {
    refused(invalid, "dropout", {"1.5"}, [](Call &c) { c.options.dropout.probability = 1.5; });
    refused(invalid, "dropout", {"-0.25"}, [](Call &c) { c.options.dropout.probability = -0.25; });
    refused(invalid, "dropout", {"nan"}, [](Call &c) { c.options.dropout.probability = std::nan(""); });
}

TEST_CASE("bad option: weights of a wrong type, shape or stride", "[sdpa][bad_input]") {
    refused(invalid, "weights", {"f64", "f32"}, [](Call &c) { c.options.weights.dtype = attune::DType::f64; });
    refused(invalid, "weights", {"4", "3"}, [](Call &c) { c.options.weights.rank = 3; });
    refused(invalid, "weights", {"3", "4"}, [](Call &c) { c.options.average_weights = true; });
    refused(invalid, "weights", {"batch", "2", "1"}, [](Call &c) { c.options.weights.extent[0] = 1; });
    refused(invalid, "weights", {"heads", "4", "1"}, [](Call &c) { c.options.weights.extent[1] = 1; });
    refused(invalid, "weights", {"queries", "3", "2"}, [](Call &c) { c.options.weights.extent[2] = 2; });
    refused(invalid, "weights", {"keys", "5", "6"}, [](Call &c) { c.options.weights.extent[3] = 6; });
    refused(invalid, "weights", {"last stride", "1", "2"}, [](Call &c) { c.options.weights.stride[3] = 2; });
    refused(invalid, "weights", {"overlap"}, [](Call &c) { c.options.weights.stride[1] = 0; });
    refused(invalid, "weights_mode", {"7"}, [](Call &c) { c.options.weights_mode = WeightsMode(7); });
    refused(unsupported, "weights", {"device"}, [](Call &c) { c.options.weights.place = attune::Place::device; });
    refused(unsupported, "weights", {"2^31"}, [](Call &c) { c.options.weights.stride[0] = std::int64_t(1) << 40; });
}

TEST_CASE("bad option: weights overlap an input or another output", "[sdpa][bad_input]") {
    refused(invalid, "weights", {"query"}, [](Call &c) { c.options.weights.data = const_cast<void *>(c.query.data); });
    refused(invalid, "weights", {"key"}, [](Call &c) { c.options.weights.data = const_cast<void *>(c.key.data); });
    refused(invalid, "weights", {"value"}, [](Call &c) { c.options.weights.data = const_cast<void *>(c.value.data); });
    refused(invalid, "weights", {"out"}, [](Call &c) { c.options.weights.data = c.out.data; });
    refused(invalid, "weights", {"lse"}, [](Call &c) { c.options.weights.data = c.options.lse.data; });
    std::vector<float> shared(600, 0.5f);
    const std::vector<float> before = shared;
    for (const auto &[name, shape] : {std::pair("bias", 5), {"sinks", 4}, {"alibi_slopes", 4}})
        for (const char *output : {"weights", "out", "lse"})
            refused(invalid, output, {name}, [&, argument = std::string(name), n = shape](Call &c) {
                const ConstView input(shared.data() + 10, {n});
                (argument == "bias" ? c.options.bias : argument == "sinks" ? c.options.sinks : c.options.alibi_slopes) = input;
                View &view = output == std::string("out")   ? c.out
                             : output == std::string("lse") ? c.options.lse
                                                            : c.options.weights;
                view.data = shared.data();
            });
    CHECK(shared == before);
    // A mask within the memory of the output.
    refused(invalid, "out", {"mask"}, [](Call &c) {
        c.options.mask = ConstView(static_cast<const bool *>(c.out.data), {3, 5});
    });
}

TEST_CASE("bad option: score_weight", "[sdpa][bad_input]") {
    const auto general = [](Call &c, const ConstView &w) { c.options.score = Score::general, c.options.score_weight = w; };
    refused(invalid, "score_weight", {}, [&](Call &c) { general(c, {}); });
    refused(invalid, "score_weight", {}, [&](Call &c) { c.options.score_weight = ConstView(floats.data(), {8, 8}); });
    refused(invalid, "score_weight", {}, [&](Call &c) {
        c.options.score = Score::cosine, c.options.score_weight = ConstView(floats.data(), {8, 8});
    });
    refused(invalid, "score_weight", {"7", "8"}, [&](Call &c) { general(c, ConstView(floats.data(), {7, 8})); });
    refused(invalid, "score_weight", {"9", "8"}, [&](Call &c) { general(c, ConstView(floats.data(), {8, 9})); });
    refused(invalid, "score_weight", {"2", "1"}, [&](Call &c) { general(c, ConstView(floats.data(), {8})); });
    refused(invalid, "score_weight", {"f64", "f32"}, [&](Call &c) { general(c, ConstView(doubles.data(), {8, 8})); });
    refused(invalid, "score_weight", {"last stride", "2"}, [&](Call &c) {
        general(c, ConstView(floats.data(), {8, 8}, {16, 2}));
    });
    refused(invalid, "out", {"score_weight"}, [&](Call &c) {
        general(c, ConstView(static_cast<const float *>(c.out.data), {8, 8}));
    });
    refused(invalid, "score", {"9"}, [](Call &c) { c.options.score = Score(9); });
    // Widths may differ with Score::general only.
    for (Score score : {Score::dot_product, Score::cosine, Score::gaussian})
        refused(invalid, "key", {"head size", "7", "8"}, [&](Call &c) { c.options.score = score, c.key.extent[3] = 7; });
}

TEST_CASE("bad option: what the new options leave legal", "[sdpa][bad_input]") {
    // Strides of dimensions that broadcast or have one element are free, and averaged weights have rank 3.
    Call c;
    const float bias[] = {0.25f};
    c.options.bias = ConstView(bias, {1, 1, 1, 1}, {99, -7, 1000000, 0});
    c.options.average_weights = true;
    std::vector<float> weights(2 * 3 * 5, -1.f);
    c.options.weights = View(weights.data(), {2, 3, 5});
    const auto status = c.run();
    INFO(status.message());
    CHECK(status.ok());
    for (std::size_t row = 0; row < 6; row++) {
        double sum = 0;
        for (std::size_t j = 0; j < 5; j++) sum += weights[row * 5 + j];
        CHECK(std::abs(sum - 1) < 1e-6);
    }
}
