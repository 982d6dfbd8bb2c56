// SPDX-License-Identifier: MIT
#include "generators/attention/forward/amx_stages.h"
#include "generators/math/bf16_bits.h"
#include "generators/math/bf16_parts.h"
#include "generators/math/bits.h"
#include "generators/math/exp2.h"

namespace attune {
using namespace Halide;

namespace {

struct AmxBuilder {
    Builder &build;
    SdpaAmxStages &stages;
    const RoundPairs &round_pairs;
    int depth;  // depth of an AMX tile
    Type type = build.in.query.type();
    int parts = bf16_parts_of(type);
    Expr channels = (build.in.head_dim + depth - 1) / depth * depth;  // padded to a multiple of depth

    Expr filled(Expr channel, const std::function<Expr(Expr channel)> &at) const {
        const Expr x = at(min(channel, build.in.head_dim - 1));
        return select(channel < build.in.head_dim, x, Internal::make_zero(x.type()));
    }

    void query_pairs() {
        const SdpaInputs &in = build.in;
        const SdpaStages &s = build.s;
        Var e = stages.e, r = s.r, d = s.d, t = s.t, h = s.h, b = s.b;
        if (parts > 1) build.queries();
        const Rows row = build.rows(r, t, h);
        auto query = [&](Expr channel) {
            return filled(channel, [&](Expr channel) {
                return parts > 1 ? s.query_t(r, channel, t, h, b)
                                 : build.softmax.signed_query(in.query(channel, row.query, row.query_head, b));
            });
        };
        for (int n = 0; n < parts; n++) {
            Func part("query_pairs" + std::to_string(n));
            part(e, r, d, t, h, b) =
                parts > 1 ? element_of_pair(pair_of_parts(query(d * 2), query(d * 2 + 1), n, type), e) : query(d * 2 + e);
            stages.query_pairs.push_back(part);
        }
    }

    // Left factors: keys and values.
    void rows() {
        const SdpaInputs &in = build.in;
        const SdpaStages &s = build.s;
        Var k = s.k, c = s.c, d = s.d, u = stages.u, h = s.h, b = s.b;
        stages.key_rows = Func("key_rows");
        stages.key_rows(d, k, u, h, b) = Tuple(bf16_parts(
            filled(u * depth + d, [&](Expr channel) { return in.key(channel, min(k, in.keys - 1), h, b); }), round_pairs));
        stages.value_rows = Func("value_rows");
        stages.value_rows(k, d, u, c, h, b) = Tuple(bf16_parts(stages.value_blocks(u * depth + k, d, {c, h, b}), round_pairs));
    }

    // Weights, their sum and their parts, all in one loop over pairs of keys: a weight is computed once, and only its parts are
    // stored. Dropout draws words for four keys at a time, and so needs stored weights.
    void weigh(KvBlockStages &p, SdpaAmxStages::Factors &of, const std::string &suffix, bool masked) const {
        const SdpaStages &s = build.s;
        Var e = stages.e, r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
        const PairKeys at = pair_keys(build, "weight_key" + suffix, masked);
        of.element = at.dom.x, of.keys = at.loop();
        Func weights("weight" + suffix);
        if (build.in.dropout.threshold.defined()) {
            build.weigh(p, suffix, masked);
            weights = p.dropped;
        } else {
            const Expr score = p.score(r, k, c, t, h, b);
            const Expr weight =
                build.softmax.p(score, p.row_max(r, c, t, h, b), parts > 1 ? exp2_nonpositive : exp2_nonpositive_for_bf16);
            weights(r, k, c, t, h, b) = masked ? build.softmax.kept_p(weight, score) : weight;
            p.weight = weights;
            // Strict: otherwise two keys may be summed before they join the row sum, in some of the loops over KV blocks and
            // not in others.
            build.sum_weights(p, suffix, at.key(), weights(r, at.key(), c, t, h, b), true);
        }
        auto weight = [&](int e) { return weights(r, at.pair() * 2 + e, c, t, h, b); };
        for (int n = 0; n < parts; n++) {
            Func part("weight_part" + std::to_string(n) + suffix);
            part(e, r, k, c, t, h, b) = undef<bfloat16_t>();
            // Halide fuses loops if their order matters in all or in none, and cannot tell for an index that is likely().
            part(at.dom.x, r, likely(at.pair()), c, t, h, b) =
                parts > 1 ? element_of_pair(pair_of_finite_parts(weight(0), weight(1), n), at.dom.x)
                          : round_pairs(weights(r, at.key(), c, t, h, b));
            of.weight_parts.push_back(part);
        }
    }

    // Right factor: weights.
    std::vector<Expr> weight_of(const SdpaAmxStages::Factors &of, Expr key) const {
        const SdpaStages &s = build.s;
        return parts_at(of.weight_parts, {key % 2, s.r, key / 2, s.c, s.t, s.h, s.b});
    }

    // values: the parts of element (k, d) in tile u of the keys of the KV block.
    KvBlockStages block_stages(const std::string &suffix, bool masked, SdpaAmxStages::Factors &of,
                               const std::function<std::vector<Expr>(Expr k, Expr d, Expr u)> &values) const {
        const SdpaStages &s = build.s;
        Var r = s.r, k = s.k, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
        KvBlockStages p;
        p.qk = Func("qk" + suffix);
        p.qk(r, k, c, t, h, b) = 0.0f;
        RDom channel(0, channels, "channel" + suffix);
        p.channel = channel.x;
        add_product(p.qk(r, k, c, t, h, b), products_of_parts(parts),
                    parts_at(stages.key_rows(channel % depth, c * build.numerics.kv_block + k, channel / depth,
                                             build.rows(r, t, h).key_head, b)),
                    parts_at(stages.query_pairs, {channel % 2, r, channel / 2, t, h, b}));
        p.score = Func("score" + suffix);
        build.finish_scores(p, suffix, masked, true);
        build.row_max(p, suffix, masked);
        weigh(p, of, suffix, masked);

        const KvBlockKeys keys = build.kv_block_keys("pv_key" + suffix, masked, c);
        p.pv = Func("pv" + suffix);
        p.pv(r, d, c, t, h, b) = 0.0f;
        add_product(p.pv(r, d, c, t, h, b), products_with_parts_of_weights(parts),
                    values(keys.key() % depth, d, keys.key() / depth), weight_of(of, keys.key()));
        p.pv_keys.push_back(keys.loop());
        return p;
    }

    void all_block_stages() {
        SdpaStages &s = build.s;
        Var r = s.r, k = s.k, c = s.c, d = s.d, u = stages.u, t = s.t, h = s.h, b = s.b;
        const Expr key_head = build.rows(r, t, h).key_head;
        auto any = [&](Expr k, Expr d, Expr u) { return parts_at(stages.value_rows(k, d, u, c, key_head, b)); };
        // Decided by the last part: the other parts are always finite.
        auto is_finite = [](const std::vector<Expr> &of) { return is_finite_bf16(of.back()); };
        s.full = block_stages("", false, stages.full, any);
        s.partial = block_stages("_partial", true, stages.partial, any);
        std::vector<Expr> finite = any(k, d, u);
        const Expr all_finite = is_finite(finite);
        for (Expr &part : finite) part = select(all_finite, part, bfloat16_t(0.0f));
        stages.finite_rows = Func("finite_rows");
        stages.finite_rows(k, d, u, c, t, h, b) = Tuple(finite);
        stages.nonfinite = block_stages("_nonfinite", true, stages.nonfinite_factors, [&](Expr k, Expr d, Expr u) {
            return parts_at(stages.finite_rows(k, d, u, c, t, h, b));
        });

        const KvBlockKeys keys = build.kv_block_keys("not_finite_key", true, c);
        stages.not_finite_keys = keys.loop();
        const Expr w = weight_of(stages.nonfinite_factors, keys.key())[0];
        const std::vector<Expr> v = any(keys.key() % depth, d, keys.key() / depth);
        stages.sum_not_finite = Func("sum_not_finite");
        stages.sum_not_finite(r, d, c, t, h, b) = 0.0f;
        // Strict: otherwise code generation may conclude that the sum is no NaN.
        stages.sum_not_finite(r, d, c, t, h, b) = strict_float(
            stages.sum_not_finite(r, d, c, t, h, b) + select(counts(w) && !is_finite(v), widened_product(w, v.back()), 0.0f));
    }

    void collect_kv_blocks() {
        SdpaStages &s = build.s;
        Var r = s.r, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
        auto [full, partial] = build.kv_block_domains();
        const Expr finite = build.in.finite_values(b) != 0;
        RDom nonfinite = build.kv_blocks("nonfinite_block");
        nonfinite.where(build.seen(nonfinite));
        nonfinite.where(!build.whole(nonfinite));
        nonfinite.where(!finite);
        partial.where(finite);
        stages.nonfinite_block = nonfinite.x;
        s.block_max = Func("block_max");
        s.block_sum = Func("block_sum");
        s.block_pv = Func("block_pv");
        s.block_max(r, c, t, h, b) = undef<float>();
        s.block_sum(r, c, t, h, b) = undef<float>();
        s.block_pv(r, d, c, t, h, b) = undef<float>();
        for (const auto &[dom, p] :
             {std::pair(full, s.full), std::pair(partial, s.partial), std::pair(nonfinite, stages.nonfinite)}) {
            s.block_max(r, dom, t, h, b) = p.row_max(r, dom, t, h, b);
            s.block_sum(r, dom, t, h, b) = p.row_sum(r, dom, t, h, b);
            Expr pv = p.pv(r, d, dom, t, h, b);
            if (dom.same_as(nonfinite)) pv = strict_float(pv + stages.sum_not_finite(r, d, dom, t, h, b));
            s.block_pv(r, d, dom, t, h, b) = pv;
        }
    }
};

}  // namespace

SdpaAmxStages sdpa_amx_stages(const SdpaInputs &in, const SdpaNumerics &numerics, const ScheduleHints &hints,
                              const Score &score, const RoundPairs &round_pairs, int depth) {
    if (in.query.type().bits() > 32) throw CompileError("attune: products of AMX tiles take bf16, f16 and f32\n");
    if (score.probability && in.query.type().is_bfloat())
        throw CompileError("attune: products of AMX tiles of bf16 know no factor of the weights\n");
    Builder build = query_rows(in, numerics, hints, score);
    Var c = build.s.c, h = build.s.h, b = build.s.b;
    const int side = block_side(in.value.type());
    SdpaAmxStages stages{.value_blocks = {"value_block", side, {c, h, b}, [&](Expr key, Expr channel) {
                                              return in.value(min(channel, in.value_dim - 1),
                                                              min(c * numerics.kv_block + key, in.keys - 1), h, b);
                                          }}};
    build.prepare();
    build.intervals();
    AmxBuilder tiles{build, stages, round_pairs, depth};
    tiles.query_pairs();
    tiles.rows();
    tiles.all_block_stages();
    tiles.collect_kv_blocks();
    build.merge_tiles();
    stages.s = build.s;
    return stages;
}

}  // namespace attune
