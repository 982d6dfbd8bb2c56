// SPDX-License-Identifier: MIT
// Every variant of additive attention for a device against the reference.
#include "tests/cuda/device_variants.h"
#include "tests/support/additive_case.h"
#include "tests/support/option_sets.h"

using namespace attune_test;

namespace {

attune::AdditiveOptions there(attune::AdditiveOptions o) {
    for (attune::ConstView *v : {&o.w_query, &o.w_key, &o.w_score}) *v = on_device(*v);
    attune::SdpaOptions &a = o.attention;
    for (attune::ConstView *v : {&a.bias, &a.alibi_slopes, &a.mask, &a.offsets, &a.valid_lens, &a.sinks}) *v = on_device(*v);
    a.lse = on_device(a.lse);
    return o;
}

struct DeviceArrays : AdditiveArrays<float> {
    using AdditiveArrays<float>::AdditiveArrays;
    std::vector<float> standard_slopes;

    attune::Status run(attune::Context &context, std::string_view variant = {}) {
        attune::AdditiveOptions o = options(variant);
        if (o.attention.alibi) {
            standard_slopes = attune::alibi_slopes(base.the.query_heads);
            o.attention.alibi_slopes = attune::ConstView(standard_slopes.data(), {base.the.query_heads});
        }
        return attune::additive_attention(context, on_device(base.query.view()), on_device(base.key.view()),
                                          on_device(base.value.view()), on_device(base.out.view()), there(o));
    }
};

// A case with query and key of `hidden` channels, given projected.
AdditiveCase projected(const SdpaCase &attention, std::int64_t hidden, bool w_score = true, double b_score = 0) {
    return {.attention = attention, .hidden = hidden, .w_query = false, .w_key = false, .w_score = w_score, .b_score = b_score};
}

// Checks against the header's bound on the sum; where a bias swallows bits of a score, against the plain computation.
void check(attune::Context &context, const AdditiveCase &c, std::string_view variant) {
    INFO(describe(c));
    DeviceArrays a(c);
    REQUIRE(a.run(context, variant).message() == "");
    if (c.attention.bias.empty()) {
        CHECK(defect(a) == "");
        return;
    }
    CHECK(untouched_defect(a.base) == "");
    CHECK(value_defect(a.reference<Reference<float>>(), a.reference<float>(), a.base) == "");
}

void check_options(const std::vector<std::string_view> &kinds, const std::vector<SetOption> &options) {
    attune::Context context;
    for_each_device_variant("additive", kinds, [&](const attune::VariantRecord &v, float) {
        unsigned seed = 7000;
        for (const SetOption &set : options) {
            SdpaCase c{.queries = v.tile_q / 4 + 3, .keys = 2 * v.kv_block + 3, .value_dim = 11, .seed = seed++};
            set(c);
            check(context, projected(c, 9), v.name);
        }
    });
}

}  // namespace

TEST_CASE("device: additive attention, sizes", "[device]") {
    attune::Context context;
    for_each_device_variant("additive", {"plain", "scored"}, [&](const attune::VariantRecord &v, float) {
        const int channels = attune::parameter_of(v, "channels", 0);
        unsigned seed = 1;
        for (const std::int64_t queries : {1, v.tile_q - 1, v.tile_q + 1})
            for (const std::int64_t keys : {1, v.kv_block - 1, v.kv_block, v.kv_block + 1, 61})
                for (const std::int64_t hidden : {1, channels / 2 + 1, channels}) {
                    const SdpaCase c{.batch = 1,
                                     .queries = queries,
                                     .keys = keys,
                                     .value_dim = seed % 2 ? channels : channels / 3,
                                     .seed = seed};
                    check(context, projected(c, hidden, seed % 5 != 0, seed % 4 ? 0 : 1.5), v.name);
                    seed++;
                }
    });
}

TEST_CASE("device: additive attention, valid lengths", "[device]") {
    check_options({"plain", "scored"}, option_sets::length_masks());
}
TEST_CASE("device: additive attention, causal masks and windows", "[device]") {
    check_options({"plain"}, option_sets::causal_masks());
    check_options({"plain"}, option_sets::window_masks());
}
TEST_CASE("device: additive attention, boolean masks and bias", "[device]") {
    check_options({"scored"}, option_sets::boolean_masks());
    check_options({"scored"}, option_sets::biases());
}
TEST_CASE("device: additive attention, everything at once", "[device]") {
    check_options({"scored"}, option_sets::everything());
}

TEST_CASE("device: additive attention, dropout", "[device]") { check_options({"training"}, option_sets::dropouts()); }

TEST_CASE("device: additive attention, what is refused", "[device]") {
    if (!has_device()) return;
    attune::Context context;
    AdditiveCase c = projected({.queries = 3, .keys = 5}, 8);
    CHECK(DeviceArrays(c).run(context).message() == "");
    c.w_query = true;
    CHECK(DeviceArrays(c).run(context).message() == "w_query: on a device query and key are given projected, as by linear()");
    c.w_query = false;
    DeviceArrays a(c);
    attune::AdditiveOptions o = there(a.options({}));
    const auto refused = [&] {
        return attune::additive_attention(context, on_device(a.base.query.view()), on_device(a.base.key.view()),
                                          on_device(a.base.value.view()), on_device(a.base.out.view()), o)
            .message();
    };
    o.w_score.place = attune::Place::host;
    CHECK(refused() == "w_score: is on the host, query is on a device");
    o.w_score.place = attune::Place::device, o.w_score.extent[0] = 7;
    CHECK(refused() == "w_score: extent is 7, that of query after projection is 8");
}
