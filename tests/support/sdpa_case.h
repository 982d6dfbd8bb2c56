// One call of scaled_dot_product_attention as data: sizes, masks and layouts; random arrays for it; and its judgement.
#pragma once
#include "attune/attune.h"
#include "tests/reference/sdpa_reference.h"
#include "tests/support/array.h"
#include "tests/support/catch.h"
#include "tests/support/error_rule.h"
#include <optional>
#include <ostream>
#include <sstream>
#include <string>

namespace attune_test {

struct SdpaCase {
    std::int64_t batch = 2, query_heads = 2, key_heads = 2, queries = 5, keys = 7, head_dim = 64, value_dim = 64;
    std::optional<double> scale = {};
    attune::Causal causal = attune::Causal::none;
    std::optional<std::int64_t> offset = {};
    std::vector<std::int32_t> offsets = {};  // empty, or one per batch entry
    attune::Window window = {};
    std::vector<std::int32_t> valid_lens = {};  // empty, or B, or B * Sq of them
    Layout query_layout = Layout::dense, key_layout = Layout::dense, value_layout = Layout::dense, out_layout = Layout::dense;
    bool strided_lse = false;  // (Sq, B, Hq) in memory, with gaps
    double spread = 1.7;       // of query and key: variance about 1
    // If given, the keys of a head lie this close around a random row and its opposite: scores are nearly tied however large
    // they are. Among independent large scores a tie is rare, and the largest error is that of whoever met the one tie.
    std::optional<double> key_noise = {};
    unsigned seed = 1;
};

inline std::ostream &operator<<(std::ostream &to, const SdpaCase &c) {
    constexpr const char *causal[] = {"none", "top_left", "bottom_right", "offset"};
    const auto list = [&](const char *name, const std::vector<std::int32_t> &all) {
        if (all.empty()) return;
        to << ' ' << name << " {";
        for (std::size_t n = 0; n < all.size() && n < 16; n++) to << (n ? "," : "") << all[n];
        to << (all.size() > 16 ? ",...}" : "}");
    };
    to << "B " << c.batch << " Hq " << c.query_heads << " Hkv " << c.key_heads << " Sq " << c.queries << " Sk " << c.keys
       << " Dk " << c.head_dim << " Dv " << c.value_dim << " causal " << causal[int(c.causal)];
    if (c.scale) to << " scale " << *c.scale;
    if (c.offset) to << " offset " << *c.offset;
    list("offsets", c.offsets);
    if (c.window.left != -1 || c.window.right != -1) to << " window " << c.window.left << ',' << c.window.right;
    list("valid_lens", c.valid_lens);
    to << " layouts " << name_of(c.query_layout) << ' ' << name_of(c.key_layout) << ' ' << name_of(c.value_layout) << ' '
       << name_of(c.out_layout) << (c.strided_lse ? " strided lse" : "") << " spread " << c.spread;
    if (c.key_noise) to << " key noise " << *c.key_noise;
    return to << " seed " << c.seed;
}
inline std::string describe(const SdpaCase &c) {
    std::ostringstream text;
    text << c;
    return text.str();
}

template<typename T> struct SdpaArrays {
    SdpaCase the;
    Array<T> query, key, value, out, lse;

    explicit SdpaArrays(const SdpaCase &c)
        : the(c), query({c.batch, c.query_heads, c.queries, c.head_dim}, c.query_layout),
          key({c.batch, c.key_heads, c.keys, c.head_dim}, c.key_layout),
          value({c.batch, c.key_heads, c.keys, c.value_dim}, c.value_layout),
          out({c.batch, c.query_heads, c.queries, c.value_dim}, c.out_layout, poison<T>(2)),
          lse(c.strided_lse
                  ? Array<T>({c.batch, c.query_heads, c.queries}, {2 * c.query_heads, 2, 2 * c.batch * c.query_heads + 3},
                             poison<T>(2))
                  : Array<T>({c.batch, c.query_heads, c.queries}, {c.query_heads * c.queries, c.queries, 1}, poison<T>(2))) {
        std::mt19937 random(c.seed);
        query.randomise(random, c.spread);
        key.randomise(random, c.spread);
        value.randomise(random, 1.7);
        if (c.key_noise) gather_keys(random);
    }
    void gather_keys(std::mt19937 &random) {
        std::uniform_real_distribution<double> anchor(-the.spread, the.spread), noise(-*the.key_noise, *the.key_noise);
        for (std::int64_t b = 0; b < the.batch; b++)
            for (std::int64_t h = 0; h < the.key_heads; h++)
                for (std::int64_t d = 0; d < the.head_dim; d++) {
                    const double at = anchor(random);
                    for (std::int64_t j = 0; j < the.keys; j++) key(b, h, j, d) = T((j % 2 ? -at : at) + noise(random));
                }
    }

    // Points into this object and into variant.
    attune::SdpaOptions options(std::string_view variant) {
        attune::SdpaOptions o;
        o.scale = the.scale, o.causal = the.causal, o.offset = the.offset, o.window = the.window, o.variant = variant;
        if (!the.offsets.empty()) o.offsets = attune::ConstView(the.offsets.data(), {the.batch});
        if (!the.valid_lens.empty()) {
            const bool per_query = the.valid_lens.size() != std::size_t(the.batch);
            o.valid_lens = per_query ? attune::ConstView(the.valid_lens.data(), {the.batch, the.queries})
                                     : attune::ConstView(the.valid_lens.data(), {the.batch});
        }
        o.lse = lse.view();
        return o;
    }
    attune::Status run(attune::Context &context, std::string_view variant = {}) {
        return attune::scaled_dot_product_attention(context, query.view(), key.view(), value.view(), out.view(),
                                                    options(variant));
    }
    // Whether key j takes part for query i of batch entry b.
    bool kept(std::int64_t b, std::int64_t i, std::int64_t j) {
        return takes_part(options({}), b, i, j, the.queries, the.keys);
    }
};

// What is wrong with what a call has written; empty if nothing is.
template<typename T> std::string defect(SdpaArrays<T> &a) {
    if (!a.out.gaps_untouched()) return "out: written beyond its elements";
    if (!a.lse.gaps_untouched()) return "lse: written beyond its elements";
    if (!a.out.all_written()) return "out: not all elements written";
    if (!a.lse.all_written()) return "lse: not all elements written";
    const auto q = a.query.view(), k = a.key.view(), v = a.value.view();
    const auto options = a.options({});
    const auto reference = sdpa_reference<Reference<T>, T>(q, k, v, options);
    const auto plain = sdpa_reference<T, T>(q, k, v, options);
    const auto out = a.out.values(), lse = a.lse.values();
    if (const Verdict verdict = judge(reference.out, plain.out, out); !verdict.right) return "out: " + verdict.why;
    if (const Verdict verdict = judge(reference.lse, plain.lse, lse); !verdict.right) return "lse: " + verdict.why;
    if (suspiciously_empty(reference.out, out)) return "out: zeros where the reference has none";
    return {};
}

// Runs the case and judges everything that it wrote.
template<typename T> void check_case(attune::Context &context, const SdpaCase &c, std::string_view variant = {}) {
    SdpaArrays<T> arrays(c);
    const attune::Status status = arrays.run(context, variant);
    INFO(describe(c));
    INFO("ran " << context.last_variant() << ' ' << status.message());
    if (!status.ok()) {
        CHECK(status.ok());
        return;
    }
    if (!variant.empty()) CHECK(context.last_variant() == variant);
    CHECK(defect(arrays) == "");
}

}  // namespace attune_test
