// SPDX-License-Identifier: MIT
// The multi-head layer on a device, against the reference.
#include "tests/cuda/device_variants.h"
#include "tests/support/multi_head_case.h"

using namespace attune_test;
using attune::Causal;

namespace {

template<typename T> attune::Status run_there(attune::Context &context, MultiHeadArrays<T> &a) {
    return attune::multi_head_attention(context, on_device(a.query.view()), on_device(a.key_view()), on_device(a.value_view()),
                                        there(a.weights()), on_device(a.out.view()), there(a.options()));
}
template<typename T> void check(attune::Context &context, const MultiHeadCase &c) {
    INFO(describe(c));
    MultiHeadArrays<T> a(c);
    REQUIRE(run_there(context, a).message() == "");
    CHECK(defect(a) == "");
}

// OpenCL knows f32 here.
bool has_16_bits() { return attune::device_backend()->target.find("opencl") == std::string_view::npos; }

MultiHeadCase usual() {
    return {.attention = {.query_heads = 4, .key_heads = 2, .queries = 33, .keys = 41, .head_dim = 64, .value_dim = 64}};
}

}  // namespace

TEST_CASE("device: the multi-head layer, sizes, groups, biases and packed weights", "[device]") {
    if (!has_device()) return;
    attune::Context context;
    // Three products in a row may break the rule where the plain ones happen to round less; with these seeds none do.
    unsigned seed = 140;
    for (const auto &[queries, keys] : {std::pair(1, 1), {33, 41}, {2, 300}, {70, 7}})
        for (const auto &[head_dim, value_dim] : {std::pair(64, 64), {17, 21}})
            for (const bool self : {false, true}) {
                MultiHeadCase c = usual();
                c.attention.queries = queries, c.attention.keys = keys, c.attention.seed = seed++;
                c.attention.head_dim = head_dim, c.attention.value_dim = value_dim;
                c.query_bias = c.value_bias = seed % 2, c.key_bias = seed % 3 == 0, c.out_bias = seed % 5 != 0;
                c.self = self, c.packed = self && seed % 4 < 2, c.strided = seed % 3 == 1;
                if (c.packed) c.query_bias = c.key_bias = c.value_bias;
                check<float>(context, c);
                if (has_16_bits() && head_dim == 64) check<Float16>(context, c), check<BFloat16>(context, c);
            }
    CHECK(context.last_variant().starts_with("sdpa_"));
}

TEST_CASE("device: the multi-head layer under masks and options of the score", "[device]") {
    if (!has_device()) return;
    attune::Context context;
    unsigned seed = 80;
    const std::vector<void (*)(SdpaCase &)> options = {
        [](SdpaCase &c) {
            c.valid_lens = {0, 7};
        },
        [](SdpaCase &c) {
            c.causal = Causal::bottom_right, c.window = {9, 0};
        },
        [](SdpaCase &c) {
            c.causal = Causal::offset, c.offsets = {-1, 9};
        },
        [](SdpaCase &c) { c.mask = "b11j"; },
        [](SdpaCase &c) { c.bias = "hij", c.softcap = 5; },
        [](SdpaCase &c) { c.alibi = Alibi::per_head, c.sinks = true; },
        [](SdpaCase &c) {
            c.dropout = {0.3, 5, 1};
        },
    };
    for (const auto &set : options) {
        MultiHeadCase c = usual();
        c.attention.seed = seed++;
        set(c.attention);
        check<float>(context, c);
        if (has_16_bits()) check<Float16>(context, c);
    }
}

TEST_CASE("device: the multi-head layer without a batch, queries or keys", "[device]") {
    if (!has_device()) return;
    attune::Context context;
    for (const int empty : {0, 1, 2}) {
        MultiHeadCase c = usual();
        (empty == 0 ? c.attention.batch : empty == 1 ? c.attention.queries : c.attention.keys) = 0;
        c.out_bias = true;
        check<float>(context, c);
    }
}

TEST_CASE("device: what the multi-head layer refuses, before anything is written", "[device]") {
    if (!has_device()) return;
    attune::Context context;
    MultiHeadArrays<float> a(usual());
    const auto refused = [&](const auto &change) {
        attune::MultiHeadWeights w = there(a.weights());
        attune::MultiHeadOptions o = there(a.options());
        attune::View out = on_device(a.out.view());
        change(w, o, out);
        const std::string message = attune::multi_head_attention(context, on_device(a.query.view()), on_device(a.key_view()),
                                                                 on_device(a.value_view()), w, out, o)
                                        .message();
        CHECK(a.out.untouched());
        CHECK(a.base.lse.untouched());
        return message;
    };
    using W = attune::MultiHeadWeights;
    using O = attune::MultiHeadOptions;
    using V = attune::View;
    CHECK(refused([](W &w, O &, V &) { w.key.place = attune::Place::host; }) ==
          "weights.key: is on the host, query is on a device");
    CHECK(refused([](W &, O &, V &out) { out.place = attune::Place::host; }) == "out: is on the host, query is on a device");
    CHECK(refused([](W &, O &o, V &) { o.attention.lse.place = attune::Place::host; }) ==
          "lse: is on the host, query is on a device");
    CHECK(refused([](W &, O &o, V &) { o.attention.invariant = true; }) == "invariant: is not taken on a device");
    CHECK(refused([](W &, O &o, V &) { o.attention.score = attune::Score::cosine; }) ==
          "score: tensors on a device take dot_product");
    CHECK(refused([](W &, O &o, V &) { o.heads = 3; }) == "heads: 256 rows of weights.query are not divisible by 3 heads");
    CHECK(refused([](W &w, O &, V &out) {
              out.data = const_cast<void *>(w.out.data), out.capacity = -1;
          }).find("overlaps weights.out") != std::string::npos);
    CHECK(refused([](W &, O &o, V &) { o.attention.variant = "sdpa_f32_generic_root"; }) ==
          "variant: sdpa_f32_generic_root is no variant of " + std::string(attune::device_backend()->target) +
              " for the type, sizes, alignment and options of this call");
    MultiHeadArrays<double> wide(usual());
    CHECK(run_there(context, wide).message() == "query: there are no kernels for f64 on a device");
}
