// SPDX-License-Identifier: MIT
// One call of scaled_dot_product_attention as data: sizes, options and layouts.
#pragma once
#include "attune/attune.h"
#include "tests/support/array.h"
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

namespace attune_test {

enum class Alibi { none, standard, per_head, per_batch };

struct SdpaCase {
    std::int64_t batch = 2, query_heads = 2, key_heads = 2, queries = 5, keys = 7, head_dim = 64, value_dim = 64;
    std::int64_t key_dim = 0;  // 0: as many channels as the query
    attune::Score score = attune::Score::dot_product;
    std::optional<double> scale = {};
    attune::Causal causal = attune::Causal::none;
    std::optional<std::int64_t> offset = {};
    std::vector<std::int32_t> offsets = {};  // empty, or one per batch entry
    attune::Window window = {};
    std::vector<std::int32_t> valid_lens = {};  // empty, or B, or B * Sq lengths
    Layout query_layout = Layout::dense, key_layout = Layout::dense, value_layout = Layout::dense, out_layout = Layout::dense;
    bool strided_lse = false;  // (Sq, B, Hq) in memory, with gaps
    double spread = 1.7;       // of query and key: variance about 1
    // If given, the keys of a head lie this close to a random row and its opposite, so that scores are nearly tied however
    // large they are. Independent large scores are rarely tied, and a tie decides the largest error.
    std::optional<double> key_noise = {};
    unsigned seed = 1;
    double softcap = 0;
    // Shapes aligned on the right: "ij" is (Sq, Sk), "b11j" is (B, 1, 1, Sk); empty: not given.
    std::string bias = {}, mask = {};
    std::optional<double> hole = {};  // value of a third of the bias's elements, and of its last row where it masks
    Alibi alibi = Alibi::none;
    bool sinks = false;
    attune::Dropout dropout = {};
    std::optional<attune::WeightsMode> weights = {};
    bool average_weights = false;
    bool strided_masks = false;  // gaps between the rows of mask, bias and weights; slopes and sinks reversed
};

inline std::ostream &operator<<(std::ostream &to, const SdpaCase &c) {
    constexpr const char *score[] = {"dot_product", "general", "cosine", "gaussian"};
    constexpr const char *causal[] = {"none", "top_left", "bottom_right", "offset"};
    constexpr const char *alibi[] = {"none", "standard", "(H)", "(B, H)"};
    constexpr const char *mode[] = {"scaled", "capped", "masked", "probabilities"};
    const auto list = [&](const char *name, const std::vector<std::int32_t> &all) {
        if (all.empty()) return;
        to << ' ' << name << " {";
        for (std::size_t n = 0; n < all.size() && n < 16; n++) to << (n ? "," : "") << all[n];
        to << (all.size() > 16 ? ",...}" : "}");
    };
    to << "B " << c.batch << " Hq " << c.query_heads << " Hkv " << c.key_heads << " Sq " << c.queries << " Sk " << c.keys
       << " Dq " << c.head_dim << " Dk " << (c.key_dim ? c.key_dim : c.head_dim) << " Dv " << c.value_dim << " score "
       << score[int(c.score)] << " causal " << causal[int(c.causal)];
    if (c.scale) to << " scale " << *c.scale;
    if (c.offset) to << " offset " << *c.offset;
    list("offsets", c.offsets);
    if (c.window.left != -1 || c.window.right != -1) to << " window " << c.window.left << ',' << c.window.right;
    list("valid_lens", c.valid_lens);
    if (c.softcap > 0) to << " softcap " << c.softcap;
    if (!c.bias.empty()) to << " bias " << c.bias;
    if (c.hole) to << " with " << *c.hole;
    if (!c.mask.empty()) to << " mask " << c.mask;
    if (c.alibi != Alibi::none) to << " alibi " << alibi[int(c.alibi)];
    if (c.sinks) to << " sinks";
    if (c.dropout.probability > 0)
        to << " dropout " << c.dropout.probability << ' ' << c.dropout.seed << ' ' << c.dropout.offset << " first "
           << c.dropout.first_query << ' ' << c.dropout.first_key << ' ' << c.dropout.first_head << ' ' << c.dropout.heads;
    if (c.weights) to << " weights " << mode[int(*c.weights)] << (c.average_weights ? " averaged" : "");
    to << " layouts " << name_of(c.query_layout) << ' ' << name_of(c.key_layout) << ' ' << name_of(c.value_layout) << ' '
       << name_of(c.out_layout) << (c.strided_lse ? " strided lse" : "") << (c.strided_masks ? " strided masks" : "")
       << " spread " << c.spread;
    if (c.key_noise) to << " key noise " << *c.key_noise;
    return to << " seed " << c.seed;
}
inline std::string describe(const SdpaCase &c) {
    std::ostringstream text;
    text << c;
    return text.str();
}

}  // namespace attune_test
