// SPDX-License-Identifier: MIT
// Predicted times of kernels for a device: their terms against counts by loops over the blocks of the grid, and the rule.
#include "attune/detail/cost.h"
#include "tests/cuda/device_variants.h"
#include <cmath>

using namespace attune_test;
using attune::detail::CostCoefficients, attune::detail::CostTerms;

namespace {

CostTerms counted(const attune::SdpaProblem &p, const attune::VariantRecord &v) {
    const std::int64_t channels = attune::parameter_of(v, "channels", v.head_dim);
    const std::int64_t split_keys = attune::parameter_of(v, "split_keys", 0);
    const bool splits = split_keys > 0;
    // A split's tile is of rows of a key head, another one of queries of a head.
    const std::int64_t heads = splits ? p.key_heads : p.query_heads;
    const std::int64_t rows = splits ? p.query_heads / p.key_heads * p.queries : p.queries, part = splits ? split_keys : p.keys;
    const double width = 2 * double(channels);
    CostTerms terms{1};
    for (std::int64_t head = 0; head < p.batch * heads; head++)
        for (std::int64_t first = 0; first < rows; first += v.tile_q)
            for (std::int64_t key = 0; key < p.keys; key += part) {
                double of_block = 0;
                for (std::int64_t j = key; j < std::min(key + part, p.keys); j += v.kv_block) of_block++;
                terms[1] = std::max(terms[1], of_block * width);
                terms[2] += width, terms[3] += of_block, terms[4] += of_block * width;
                if (splits) terms[6] += double(std::min<std::int64_t>(v.tile_q, rows - first) * channels);
            }
    terms[5] = double(p.batch * p.key_heads * p.keys * (p.head_dim + p.value_dim) * attune::size_of(p.dtype));
    return terms;
}

}  // namespace

TEST_CASE("device: cost terms of attention, as loops over the grid count them", "[device]") {
    for_each_device_variant("sdpa", {"plain", "scored", "training"}, [&](const attune::VariantRecord &v, auto) {
        const std::int64_t channels = attune::parameter_of(v, "channels", v.head_dim);
        // Splits of the keys end where KV blocks do.
        CHECK(attune::parameter_of(v, "split_keys", 0) % v.kv_block == 0);
        for (const auto &[queries, keys] : {std::pair(1, 1), {1, 1000}, {17, 300}, {200, 77}}) {
            const attune::SdpaProblem p{.dtype = v.dtype,
                                        .batch = 3,
                                        .query_heads = 8,
                                        .key_heads = 2,
                                        .queries = queries,
                                        .keys = keys,
                                        .head_dim = channels,
                                        .value_dim = channels};
            CAPTURE(queries, keys);
            CostTerms terms{};
            REQUIRE(attune::detail::cost_terms(v.name, p, terms).message() == "");
            CHECK(terms == counted(p, v));
        }
    });
}

TEST_CASE("device: coefficients of variants that nobody has measured are positive", "[device]") {
    for (const std::string_view op : {"sdpa", "additive", "linear"})
        for_each_device_variant(op, {"", "plain", "scored", "training"}, [&](const attune::VariantRecord &v, auto) {
            CostCoefficients cost{};
            REQUIRE(attune::detail::cost_coefficients(v.name, cost).message() == "");
            CHECK(std::all_of(cost.begin(), cost.end(), [](float c) { return std::isfinite(c) && c >= 0; }));
            CHECK((cost[0] > 0 && std::count_if(cost.begin(), cost.end(), [](float c) { return c > 0; }) > 2));
        });
    CostCoefficients none{};
    CHECK(attune::detail::cost_coefficients("sdpa_f32_nowhere", none).message() ==
          "variant: there is no variant sdpa_f32_nowhere");
}
