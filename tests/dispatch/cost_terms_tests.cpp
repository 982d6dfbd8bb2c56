// SPDX-License-Identifier: MIT
// The terms of predicted times, against counts by loops over tiles, queries and keys.
#include "tests/support/catch.h"
#include "tools/dispatch/problems.h"
#include <attune/detail/cost.h>
#include <attune/variants.h>
#include <cmath>
#include <random>

using attune::DType;
using attune::detail::CostTerms;

namespace {

std::int64_t parameter(const attune::VariantInfo &v, const std::string &name, std::int64_t otherwise) {
    const std::string all = " " + std::string(v.parameters) + " ";
    const std::size_t at = all.find(" " + name + "=");
    return at == std::string::npos ? otherwise : std::stoll(all.substr(at + name.size() + 2));
}

std::int64_t in_vectors(std::int64_t n) { return (n + 15) / 16 * 16; }

// The rows that a query has in the tiles of a head: as many as its group has heads, where that takes a quarter fewer tiles.
std::int64_t rows_of_query(const attune::SdpaProblem &p, std::int64_t tile) {
    const std::int64_t group = p.query_heads / p.key_heads;
    std::int64_t apart = 0, together = 0;
    for (std::int64_t g = 0; g < group; g++)
        for (std::int64_t i = 0; i < p.queries; i++) apart += i % tile == 0, together += (i * group + g) % tile == 0;
    return 4 * together <= 3 * apart ? group : 1;
}

// Cost terms counted key by key: every score of a tile counts if the tile looks at the key at all.
CostTerms counted_tiles(const attune::SdpaProblem &p, std::int64_t tile, std::int64_t block) {
    const double width = double(in_vectors(p.head_dim) + in_vectors(p.value_dim));
    const std::int64_t rows = rows_of_query(p, tile);
    CostTerms terms{1};
    for (std::int64_t h = 0; h < p.query_heads / rows; h++)
        for (std::int64_t first = 0; first < p.queries * rows; first += tile) {
            const std::int64_t last = (std::min(first + tile, p.queries * rows) - 1) / rows;
            std::int64_t keys = 0;
            for (std::int64_t j = 0; j < p.keys; j++) keys += !p.causal || j <= p.keys - p.queries + last;
            terms[1]++, terms[2] += keys > 0 ? width : 0;
            terms[3] += double(keys * tile), terms[4] += double(keys * tile) * width;
            terms[5] += double((keys + block - 1) / block) * width;
            const std::int64_t bytes = p.keys * (p.head_dim + p.value_dim) * attune::size_of(p.dtype);
            terms[6] += double(std::max<std::int64_t>(bytes - (1 << 19), 0));
        }
    return terms;
}

CostTerms counted_blocks(const attune::SdpaProblem &p, std::int64_t tile, std::int64_t block, std::int64_t step) {
    const double width = double(in_vectors(p.head_dim) + in_vectors(p.value_dim));
    const std::int64_t rows = p.query_heads / p.key_heads * p.queries;
    const std::int64_t bytes = p.key_heads * p.keys * (p.head_dim + p.value_dim) * attune::size_of(p.dtype);
    CostTerms terms{1};
    for (std::int64_t first = 0; first < rows; first += tile) {
        for (std::int64_t h = 0; h < p.key_heads; h++) {
            for (std::int64_t key = 0; key < p.keys; key += block) terms[1]++;
            for (std::int64_t key = 0; key < p.keys; key += step)
                terms[3] += double(tile * step), terms[4] += double(tile * step) * width;
        }
        terms[5] += double(std::max<std::int64_t>(bytes - (1 << 20), 0));
        terms[6] += double(std::max<std::int64_t>(bytes - (24 << 20), 0));
    }
    terms[2] = double(p.key_heads * rows) * width;
    return terms;
}

}  // namespace

TEST_CASE("cost terms: of attention, as loops count them", "[dispatch]") {
    const unsigned seed = 500001;
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto from = [&](std::int64_t least, std::int64_t most) {
        return least + std::int64_t(random() % std::uint64_t(most - least + 1));
    };
    for (const attune::VariantInfo &v : attune::variants()) {
        if (v.op != "sdpa" || v.kind != "plain" || !v.dispatched || v.schedule == "root" || v.schedule == "amx") continue;
        for (int n = 0; n < 10; n++) {
            attune::SdpaProblem p{
                .dtype = v.dtype, .batch = 3, .key_heads = from(1, 3), .queries = from(1, 150), .keys = from(1, 900)};
            p.query_heads = p.key_heads * from(1, 3);
            p.head_dim = p.value_dim = v.head_dim ? v.head_dim : from(1, 200);
            p.causal = random() % 2;
            const std::int64_t tile = parameter(v, "tile_q", 1), block = parameter(v, "kv_block", 1);
            const bool tiles = v.schedule == "prefill" || v.schedule == "bf16_dot";
            const CostTerms expected =
                tiles ? counted_tiles(p, tile, block) : counted_blocks(p, tile, block, parameter(v, "kv_subblock", 1));
            CostTerms terms{};
            REQUIRE(attune::detail::cost_terms(v.name, p, terms).ok());
            INFO(v.name << " h " << p.query_heads << '/' << p.key_heads << " q " << p.queries << " k " << p.keys << " d "
                        << p.head_dim << " causal " << p.causal);
            for (std::size_t i = 0; i < terms.size(); i++) {
                INFO("term " << i << ": " << terms[i] << ", counted " << expected[i]);
                // KV blocks of causal tiles are counted as if tiles ended anywhere in a block: by half a block off a tile.
                const bool estimated = tiles && i == 5 && p.causal;
                const double width = double(in_vectors(p.head_dim) + in_vectors(p.value_dim));
                double slack = estimated ? expected[1] * width / 2 + width * double(p.query_heads) : 1e-9 * expected[i];
                // A causal tile that ends between the rows of a query counts a part of that query's last key.
                if (tiles && p.causal && tile % rows_of_query(p, tile) != 0 && (i == 3 || i == 4))
                    slack += expected[1] * double(tile) * (i == 4 ? width : 1);
                CHECK(std::abs(terms[i] - expected[i]) <= slack);
            }
        }
    }
}

TEST_CASE("cost terms: of products, as loops count them", "[dispatch]") {
    const unsigned seed = 500002;
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto from = [&](std::int64_t least, std::int64_t most) {
        return least + std::int64_t(random() % std::uint64_t(most - least + 1));
    };
    for (const attune::VariantInfo &v : attune::variants()) {
        const bool product = v.op == "linear" || v.op == "batch_dot" || v.op == "linear_packed";
        if (!product || v.schedule == "root" || parameter(v, "update_depth", 0) > 0) continue;
        for (int n = 0; n < 10; n++) {
            const attune::ProductProblem p{.op = v.op,
                                           .dtype = v.dtype,
                                           .entries = from(1, 3),
                                           .rows = from(1, 300),
                                           .columns = from(1, 500),
                                           .depth = from(32, 3000)};
            const std::int64_t rows = parameter(v, "tile_rows", 1), columns = parameter(v, "tile_columns", 1),
                               depth = parameter(v, "depth_block", 1), task = std::max(parameter(v, "task_rows", 1), rows);
            double tiles = 0, tasks = 0, multiply_adds = 0;
            for (std::int64_t e = 0; e < p.entries; e++)
                for (std::int64_t j = 0; j < p.columns; j += columns) {
                    for (std::int64_t i = 0; i < p.rows; i += task) tasks++;
                    for (std::int64_t i = 0; i < p.rows; i += rows) {
                        multiply_adds += double(rows * columns * p.depth);
                        for (std::int64_t k = 0; k < p.depth; k += depth) tiles++;
                    }
                }
            CostTerms terms{};
            REQUIRE(attune::detail::cost_terms(v.name, p, terms).ok());
            INFO(v.name << " rows " << p.rows << " columns " << p.columns << " depth " << p.depth);
            CHECK(terms[0] == 1);
            CHECK(terms[1] == tasks);
            CHECK(terms[2] == multiply_adds);
            CHECK(terms[4] == tiles);
        }
    }
}

TEST_CASE("cost terms: an unknown variant is refused", "[dispatch]") {
    CostTerms terms{};
    CHECK(attune::detail::cost_terms("nobody", attune::SdpaProblem(), terms).message() ==
          "variant: there is no variant nobody");
    CHECK(attune::detail::cost_terms("nobody", attune::ProductProblem(), terms).code() == attune::StatusCode::invalid_argument);
}
