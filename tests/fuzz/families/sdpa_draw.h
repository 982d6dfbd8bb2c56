// SPDX-License-Identifier: MIT
// Random sizes and options of attention, for all families that have them.
#pragma once
#include "tests/fuzz/family.h"
#include "tests/support/sdpa_arrays.h"

namespace attune_fuzz {

struct Allowed {
    bool scores = true;  // bias, boolean mask, ALiBi, softcap, sinks
    bool dropout = true, weights = true, empty = true;
    std::int64_t head_dim = 0, key_dim = 0;  // 0: any
    std::int64_t budget = 3000000;           // of products of a reference: B * Hq * Sq * Sk * (Dk + Dv)
};

// Sizes, layouts, masks, steps on scores, dropout and weights; all but the score.
inline attune_test::SdpaCase draw_attention(Draw &draw, const Allowed &allowed) {
    using namespace attune_test;
    using attune::Causal;
    SdpaCase c;
    c.seed = draw.seed();
    c.batch = draw.number("batch", 1, 3);
    c.key_heads = draw.number("key_heads", 1, 3), c.query_heads = c.key_heads * draw.number("group", 1, 5);
    c.head_dim = allowed.head_dim ? allowed.head_dim : draw.number("head_dim", 1, 200);
    c.value_dim = allowed.head_dim || !draw.flag("other_value_dim", 4) ? c.head_dim : draw.number("value_dim", 1, 200);
    const std::int64_t pairs = allowed.budget / (c.batch * c.query_heads * (c.head_dim + c.value_dim));
    c.keys = draw.number("keys", 1, std::min<std::int64_t>(pairs, 700));
    c.queries = draw.number("queries", 1, std::min<std::int64_t>(pairs / c.keys, 300));
    c.query_layout = draw_layout(draw, "query_layout"), c.key_layout = draw_layout(draw, "key_layout");
    c.value_layout = draw_layout(draw, "value_layout"), c.out_layout = draw_layout(draw, "out_layout", true);
    c.strided_lse = draw.flag("strided_lse", 4);
    constexpr double spreads[] = {1.7, 0.1, 5};
    c.spread = spreads[draw.one_of("spread", {"one", "small", "large"}, 3)];
    constexpr double scales[] = {0, 0.3, -0.5, 0};
    if (const std::size_t n = draw.one_of("scale", {"default", "0.3", "negative", "zero"}, 4)) c.scale = scales[n];

    c.causal = static_cast<Causal>(draw.one_of("causal", {"none", "top_left", "bottom_right", "offset"}, 1));
    const std::size_t offset = draw.one_of("offsets", {"none", "one", "per_batch"}, c.causal == Causal::offset ? 1 : 5);
    std::mt19937 random(c.seed);
    const auto any_offset = [&] { return std::int32_t(std::int64_t(random() % unsigned(c.keys + 8)) - 4); };
    if (offset == 2)
        for (std::int64_t b = 0; b < c.batch; b++) c.offsets.push_back(any_offset());
    else if (offset == 1 || c.causal == Causal::offset)
        c.offset = any_offset();
    if (draw.flag("window", 4)) c.window = {draw.number("window_left", -1, c.keys), draw.number("window_right", -1, c.keys)};
    const std::size_t lengths = draw.one_of("lengths", {"none", "per_batch", "per_query"}, 3);
    for (std::int64_t n = 0; n < c.batch * (lengths == 2 ? c.queries : 1) && lengths > 0; n++) {
        const std::int32_t kinds[] = {0, std::int32_t(c.keys), std::int32_t(random() % unsigned(c.keys + 1)),
                                      std::int32_t(random() % unsigned(c.keys + 1))};
        c.valid_lens.push_back(kinds[random() % 4]);
    }
    if (lengths == 2 && c.queries == 1) c.valid_lens.resize(std::size_t(c.batch));

    if (allowed.scores) {
        const std::vector<std::string> shapes = {"none", "bhij", "hij",  "ij",   "j",   "i1",
                                                 "b11j", "1hi1", "b1ij", "1h11", "b111"};
        if (const std::size_t n = draw.one_of("bias", shapes, 4)) c.bias = shapes[n];
        if (const std::size_t n = draw.one_of("mask", shapes, 4)) c.mask = shapes[n];
        constexpr double holes[] = {0, -std::numeric_limits<double>::infinity(), -3.4e38, -1e9};
        if (!c.bias.empty())
            if (const std::size_t n = draw.one_of("hole", {"none", "infinite", "lowest", "low"}, 3)) c.hole = holes[n];
        c.strided_masks = draw.flag("strided_masks", 4);
        c.alibi = static_cast<Alibi>(draw.one_of("alibi", {"none", "standard", "per_head", "per_batch"}, 5));
        if (draw.flag("softcap", 6)) c.softcap = 2.5;
        c.sinks = draw.flag("sinks", 6);
    }
    if (allowed.dropout && draw.flag("dropout", 6)) {
        c.dropout = {0.3, c.seed, 2};
        if (draw.flag("dropout of a part", 2)) c.dropout = {0.3, c.seed, 2, 3, std::uint32_t(c.seed % 9), 5, 1000};
    }
    if (allowed.weights) {
        using attune::WeightsMode;
        const std::size_t n = draw.one_of("weights", {"none", "probabilities", "masked", "capped", "scaled"}, 6);
        constexpr WeightsMode modes[] = {WeightsMode::probabilities, WeightsMode::probabilities, WeightsMode::masked,
                                         WeightsMode::capped, WeightsMode::scaled};
        if (n > 0) c.weights = modes[n], c.average_weights = draw.flag("average_weights", 3);
    }
    if (allowed.empty && c.valid_lens.size() <= std::size_t(c.batch)) {
        const std::size_t n = draw.one_of("empty", {"none", "queries", "keys"}, 60);
        if (n == 1) c.queries = 0;
        if (n == 2) c.keys = 0, c.valid_lens.clear();
    }
    return c;
}

// Bytes of all inputs of attention.
template<typename T> Inputs inputs_of(const attune_test::SdpaArrays<T> &a) {
    return Inputs(a.query, a.key, a.value, a.score_weight, a.bias, a.mask, a.slopes, a.sinks);
}
// A check that all outputs of a refused call are untouched.
template<typename T> bool outputs_untouched(const attune_test::SdpaArrays<T> &a) {
    return a.out.untouched() && a.lse.untouched() && a.weights.untouched();
}

}  // namespace attune_fuzz
