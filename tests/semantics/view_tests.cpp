// SPDX-License-Identifier: MIT
// Views: strides that are ignored, spans that kernels cannot index, and numbers that kernels cannot hold.
#include "tests/support/catch.h"
#include "tests/support/small_calls.h"
#include <attune/detail/user_attention.h>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

using namespace attune_test;
using attune::ConstView, attune::View;

namespace {

constexpr std::int64_t strange[] = {
    0, -1, 7, std::int64_t(1) << 31, -(std::int64_t(1) << 40), std::int64_t(1) << 62, INT64_MAX, INT64_MIN};

// Spoils the strides of all extents of one.
template<typename V> void spoil_unit_strides(V &v, std::mt19937 &random) {
    for (int n = 0; n < v.rank; n++)
        if (v.extent[n] == 1) v.stride[n] = strange[random() % std::size(strange)];
}

// Spoils a stride of an extent of several; returns whether the view must then be refused.
template<typename V> bool spoil_a_stride(V &v, std::mt19937 &random) {
    for (int n = 0; n + 1 < v.rank; n++)
        if (v.extent[n] > 1) {
            constexpr std::int64_t far[] = {std::int64_t(1) << 31,
                                            -(std::int64_t(1) << 40),
                                            (std::int64_t(1) << 62) + 1,
                                            -(std::int64_t(1) << 62) - 3,
                                            INT64_MAX,
                                            INT64_MIN,
                                            INT64_MIN + 1};
            v.stride[n] = far[random() % std::size(far)];
            return true;
        }
    return false;
}

std::string first_word(const std::string &message) { return message.substr(0, message.find(':')); }

}  // namespace

TEST_CASE("views: strides of extents of one mean nothing, in any function", "[views]") {
    const unsigned seed = 20261127;
    INFO("seed " << seed);
    std::mt19937 random(seed);
    attune::Context context({.threads = 2});
    for (const SmallSizes &s :
         {SmallSizes{1, 1, 1, 1, 1, 1, 1}, SmallSizes{1, 2, 1, 1, 5, 1, 2}, SmallSizes{2, 1, 1, 3, 1, 2, 1},
          SmallSizes{1, 1, 1, 6, 7, 3, 4}, SmallSizes{3, 4, 2, 1, 70, 1, 1}}) {
        for (int round = 0; round < 4; round++) {
            const auto right = small::calls(s), spoiled = small::calls(s);
            for (std::size_t n = 0; n < right.size(); n++) {
                INFO(right[n]->name << ", " << s.batch << ' ' << s.heads << ' ' << s.key_heads << ' ' << s.queries << ' '
                                    << s.keys << ' ' << s.dim << ' ' << s.value_dim);
                for (ConstView *v : spoiled[n]->inputs) spoil_unit_strides(*v, random);
                for (View *v : spoiled[n]->outputs) spoil_unit_strides(*v, random);
                const auto expected = right[n]->run(context);
                INFO(expected.message());
                CHECK(expected.ok());
                const std::string variant = context.last_variant();
                const auto status = spoiled[n]->run(context);
                INFO(status.message());
                CHECK(status.ok());
                CHECK(context.last_variant() == variant);
                CHECK(spoiled[n]->written() == right[n]->written());
            }
        }
    }
}

TEST_CASE("views: any strides of views without elements", "[views]") {
    std::mt19937 random(5);
    attune::Context context({.threads = 2});
    for (const SmallSizes &s : {SmallSizes{.queries = 0}, SmallSizes{.batch = 0}, SmallSizes{.keys = 0}}) {
        for (const auto &call : small::calls(s)) {
            if (call->name.starts_with("variable_length")) continue;  // its lists of ends have other sizes
            const auto spoil = [&](auto &v) {
                if (std::find(v.extent, v.extent + v.rank, 0) == v.extent + v.rank) return;
                for (int n = 0; n < v.rank; n++) v.stride[n] = strange[random() % std::size(strange)];
            };
            for (ConstView *v : call->inputs) spoil(*v);
            for (View *v : call->outputs) spoil(*v);
            const auto status = call->run(context);
            INFO(call->name << ": " << status.message());
            CHECK(status.ok());
        }
    }
}

TEST_CASE("views: strides beyond 32 bits are refused by name, with nothing written", "[views][bad_input]") {
    std::mt19937 random(11);
    attune::Context context({.threads = 1});
    for (int round = 0; round < 3; round++)
        for (std::size_t n = 0; n < small::calls().size(); n++) {
            const std::size_t inputs = small::calls()[n]->inputs.size(), outputs = small::calls()[n]->outputs.size();
            for (std::size_t at = 0; at < inputs + outputs; at++) {
                const auto call = std::move(small::calls()[n]);
                if (call->name.starts_with("pack_linear")) continue;  // makes two calls
                const bool spoiled = at < inputs ? spoil_a_stride(*call->inputs[at], random)
                                                 : spoil_a_stride(*call->outputs[at - inputs], random);
                if (!spoiled) continue;
                const auto status = call->run(context);
                INFO(call->name << ", view " << at << ": " << status.message());
                CHECK(status.code() == attune::StatusCode::unsupported);
                CHECK(status.message().find("2^31 - 1 elements") != std::string::npos);
                CHECK(status.message().find("intermediate") == std::string::npos);
                CHECK(first_word(status.message()).size() < 40);
                CHECK(call->untouched());
            }
        }
}

TEST_CASE("views: numbers that f32 does not hold are refused where kernels compute in f32", "[views][bad_input]") {
    const double infinity = std::numeric_limits<double>::infinity();
    attune::Context context({.threads = 1});
    using Set = std::function<void(attune::SdpaOptions &, double)>;
    const std::pair<std::string, Set> numbers[] = {{"scale", [](attune::SdpaOptions &o, double x) { o.scale = x; }},
                                                   {"softcap", [](attune::SdpaOptions &o, double x) { o.softcap = x; }}};
    const auto options_of = [](SmallCall &call) -> attune::SdpaOptions * {
        if (auto *c = dynamic_cast<small::Sdpa *>(&call)) return &c->options;
        if (auto *c = dynamic_cast<small::SdpaWeights *>(&call)) return &c->options;
        if (auto *c = dynamic_cast<small::SdpaBackward *>(&call)) return &c->options;
        if (auto *c = dynamic_cast<small::Additive *>(&call)) return &c->options.attention;
        if (auto *c = dynamic_cast<small::AdditiveBackward *>(&call)) return &c->options.attention;
        if (auto *c = dynamic_cast<small::MultiHead *>(&call)) return &c->options.attention;
        if (auto *c = dynamic_cast<small::MultiHeadBackward *>(&call)) return &c->options.attention;
        if (auto *c = dynamic_cast<small::VariableLength *>(&call)) return &c->options;
        return nullptr;
    };
    int refused = 0;
    for (const auto &[name, set] : numbers)
        for (const double x : {3.5e38, 1e200, 1e-46, 5e-324, infinity, std::nan(""), -3.5e38, -1e-60})
            for (const auto &call : small::calls()) {
                attune::SdpaOptions *options = options_of(*call);
                if (!options) continue;
                set(*options, x);
                const auto status = call->run(context);
                INFO(call->name << " " << x << ": " << status.message());
                CHECK(status.code() == attune::StatusCode::invalid_argument);
                CHECK(first_word(status.message()) == name);
                CHECK(call->untouched());
                refused++;
            }
    CHECK(refused == 2 * 8 * 16);
    for (const auto &[name, set] : numbers)
        for (const double x : {1e-37, 1e37, 0.0}) {
            small::SdpaWeights call({});
            set(call.options, x);
            const auto status = call.run(context);
            INFO(name << " " << x << ": " << status.message());
            CHECK(status.ok());
        }
}

TEST_CASE("views: b_score and numbers of f64", "[views][bad_input]") {
    attune::Context context({.threads = 1});
    for (const double x : {1e39, -1e-50, std::nan("")}) {
        small::Additive forward({}, "additive", true, false);
        small::AdditiveBackward backward({});
        forward.options.b_score = backward.options.b_score = x;
        for (SmallCall *call : {static_cast<SmallCall *>(&forward), static_cast<SmallCall *>(&backward)}) {
            const auto status = call->run(context);
            INFO(call->name << ": " << status.message());
            CHECK(first_word(status.message()) == "b_score");
            CHECK(call->untouched());
        }
    }
    // f64 holds these numbers.
    const double q[] = {1e-20, 2e-20}, k[] = {1, 2, 3, 4}, v[] = {1, 2};
    double out[1];
    const auto run = [&](attune::SdpaOptions o) {
        return attune::scaled_dot_product_attention(context, ConstView(q, {1, 2}), ConstView(k, {2, 2}), ConstView(v, {2, 1}),
                                                    View(out, {1, 1}), o);
    };
    CHECK(run({.scale = 1e50}).ok());
    CHECK(run({.scale = 1e-50}).ok());
    CHECK(run({.softcap = 1e-50}).ok());
    CHECK(run({.softcap = 1e-310}).message().starts_with("softcap: is 1e-310, whose inverse"));
}

TEST_CASE("views: captured numbers that kernels cannot hold", "[views][bad_input]") {
    using attune::DType;
    // No kernels are needed for refusals that come before them.
    static constexpr attune::detail::CaptureRecord captures[] = {{"cap", true, DType::f32, 0, false, false, false},
                                                                 {"reach", false, DType::i32, 0, false, false, false},
                                                                 {"table", true, DType::f32, 2, false, false, false}};
    const attune::detail::AttentionRecord record{
        "attention_of_no_kernels", "user_attention_of_no_kernels", "", captures, false, false, false, {}};
    attune::Context context({.threads = 1});
    const auto message = [&](auto zero, double cap, double reach) {
        using T = decltype(zero);
        const T x[] = {1, 2, 3, 4};
        T out[2] = {7, 7};
        const ConstView rows(x, {2, 2}), table(x, {1, 1}, {INT64_MAX, -5});
        const attune::detail::CaptureArgument given[] = {{.number = cap}, {.number = reach}, {.buffer = table}};
        const auto status =
            attune::detail::run_user_attention(context, record, rows, rows, rows, View(out, {2, 1}), {}, given, nullptr);
        CHECK(!status.ok());
        CHECK(out[0] == 7);
        return first_word(status.message());
    };
    for (const double cap : {1e39, -1e-60, std::nan("")}) CHECK(message(0.f, cap, 3) == "cap");
    for (const double reach : {2.5, 2147483648.0, -1e300, std::nan("")}) CHECK(message(0.f, 1, reach) == "reach");
    CHECK(message(0.f, 1e30, -2147483648.0) == "out");  // out has another width than value
    CHECK(message(0.0, 1e300, 2147483647.0) == "out");
}

TEST_CASE("views: weights averaged over no heads are zeros", "[views]") {
    attune::Context context({.threads = 1});
    for (const auto mode : {attune::WeightsMode::scaled, attune::WeightsMode::masked, attune::WeightsMode::probabilities}) {
        std::vector<float> weights(2 * 3 * 4 + 4, 7.f);
        const float nothing = 0;
        float out = 0;
        const auto status = attune::scaled_dot_product_attention(
            context, ConstView(&nothing, {2, 0, 3, 8}), ConstView(&nothing, {2, 0, 4, 8}), ConstView(&nothing, {2, 0, 4, 5}),
            View(&out, {2, 0, 3, 5}),
            {.weights = View(weights.data() + 2, {2, 3, 4}), .weights_mode = mode, .average_weights = true});
        INFO(status.message());
        CHECK(status.ok());
        for (std::size_t n = 0; n < weights.size(); n++) CHECK(weights[n] == (n < 2 || n >= 26 ? 7 : 0));
    }
}
