// SPDX-License-Identifier: MIT
#include "generators/attention/forward/bf16_dot_stages.h"
#include "generators/attention/forward/builder.h"
#include "generators/math/bf16_parts.h"
#include "generators/math/exp2.h"

namespace attune {
using namespace Halide;

PairKeys pair_keys(const Builder &build, const std::string &name, bool masked) {
    const SdpaNumerics &numerics = build.numerics;
    PairKeys keys{RDom(), masked ? numerics.kv_subblock : numerics.kv_block};
    keys.dom = RDom(0, 2, 0, keys.width / 2, 0, numerics.kv_block / keys.width, name);
    if (masked) keys.dom.where(build.seen_keys(build.s.c, keys.dom.z * keys.width, keys.width));
    return keys;
}

namespace {

using Exp2 = BlockedSoftmax::Exp2;

// Weights as pairs and the sum of a row, from score and row_max.
void weigh_pairs(KvBlockStages &p, SdpaBf16DotStages::Pairs &elements, const Var &e, const Builder &build,
                 const RoundPairs &round_pairs, Exp2 exp2, const std::string &suffix, bool masked) {
    if (build.in.dropout.threshold.defined()) throw CompileError("attune: products of bf16 know no dropout\n");
    const SdpaStages &s = build.s;
    Var r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
    PairKeys at = pair_keys(build, "weight_key" + suffix, masked);
    p.weight_keys = at.loop(), elements.weight = at.dom.x;
    Expr score = p.score(r, at.key(), c, t, h, b);
    Expr weight = build.softmax.p(score, p.row_max(r, c, t, h, b), exp2);
    if (masked) weight = build.softmax.kept_p(weight, score);
    p.weight = Func("weight" + suffix);
    p.weight(e, r, k, c, t, h, b) = Tuple(undef<bfloat16_t>(), undef<float>());
    p.weight(at.dom.x, r, at.pair(), c, t, h, b) = Tuple(round_pairs(weight), weight);

    // Sum of the weights before they are rounded: lse is more accurate than bf16.
    PairKeys sum = pair_keys(build, "sum_key" + suffix, masked);
    p.sum_keys = sum.loop(), elements.sum = sum.dom.x;
    elements.pair_sum = Func("pair_sum" + suffix);
    elements.pair_sum(e, r, c, t, h, b) = 0.0f;
    elements.pair_sum(sum.dom.x, r, c, t, h, b) += p.weight(sum.dom.x, r, sum.pair(), c, t, h, b)[1];
    p.row_sum = Func("row_sum" + suffix);
    p.row_sum(r, c, t, h, b) = elements.pair_sum(0, r, c, t, h, b) + elements.pair_sum(1, r, c, t, h, b);
}

KvBlockStages bf16_dot_block_stages(const SdpaBf16DotStages &stages, const Builder &build, const RoundPairs &round_pairs,
                                    Exp2 exp2, const std::string &suffix, bool masked, SdpaBf16DotStages::Pairs &elements) {
    const SdpaInputs &in = build.in;
    const SdpaStages &s = build.s;
    Var e = stages.e, r = s.r, k = s.k, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
    KvBlockStages p;
    Expr key_head = build.rows(r, t, h).key_head;
    p.qk = Func("qk" + suffix);
    p.qk(r, k, c, t, h, b) = 0.0f;
    RDom channel(0, 2, 0, in.head_dim / 2, "channel" + suffix);
    p.channel = channel.y, elements.channel = channel.x;
    p.qk(r, k, c, t, h, b) += widened_product(s.query_t(channel.x, r, channel.y, t, h, b),
                                              in.key(channel.y * 2 + channel.x, build.key_at(k, !masked), key_head, b));
    p.score = Func("score" + suffix);
    build.finish_scores(p, suffix, masked);
    build.row_max(p, suffix, masked);

    weigh_pairs(p, elements, e, build, round_pairs, exp2, suffix, masked);

    p.pv = Func("pv" + suffix);
    p.pv(r, d, c, t, h, b) = 0.0f;
    auto add_pv = [&](bool leave_out, Expr when) {
        PairKeys keys = pair_keys(build, "pv_key" + std::to_string(p.pv_keys.size()) + suffix, masked);
        if (when.defined()) keys.dom.where(when);
        Expr w = p.weight(keys.dom.x, r, keys.pair(), c, t, h, b)[0];
        Expr v = stages.packed_value(keys.dom.x, d, c * (build.numerics.kv_block / 2) + keys.pair(), key_head, b);
        if (leave_out) v = select(counts(w), v, bfloat16_t(0.0f));
        p.pv(r, d, c, t, h, b) += widened_product(w, v);
        p.pv_keys.push_back(keys.loop());
        elements.pv.push_back(keys.dom.x);
    };
    if (masked) {
        add_pv(false, in.finite_values(b) != 0);
        add_pv(true, in.finite_values(b) == 0);
    } else {
        add_pv(false, Expr());
    }
    return p;
}

// All stages up to the partials of the KV blocks.
void up_to_block_stages(SdpaBf16DotStages &stages, Builder &build, const RoundPairs &round_pairs, Exp2 exp2) {
    if (build.score.probability) throw CompileError("attune: products of pairs know no factor of the weights\n");
    build.prepare();
    build.intervals();
    SdpaStages &s = build.s;
    Rows row = build.rows(s.r, s.t, s.h);
    s.query_t = Func("query_t");
    s.query_t(stages.e, s.r, s.d, s.t, s.h, s.b) =
        build.softmax.signed_query(build.in.query(s.d * 2 + stages.e, row.query, row.query_head, s.b));
    stages.packed_value = Func("packed_value");
    stages.packed_value(stages.e, s.d, s.k, s.h, s.b) =
        build.in.value(s.d, min(s.k * 2 + stages.e, build.in.keys - 1), s.h, s.b);
    s.partial = bf16_dot_block_stages(stages, build, round_pairs, exp2, "_partial", true, stages.partial);
    s.full = bf16_dot_block_stages(stages, build, round_pairs, exp2, "", false, stages.full);
}

}  // namespace

SdpaBf16DotStages sdpa_bf16_dot_stages(const SdpaInputs &in, const SdpaNumerics &numerics, const ScheduleHints &hints,
                                       const Score &score, const RoundPairs &round_pairs) {
    SdpaBf16DotStages stages;
    Builder build = query_rows(in, numerics, hints, score);
    up_to_block_stages(stages, build, round_pairs, exp2_nonpositive_for_bf16);
    build.collect_kv_blocks();
    build.merge_tiles();
    stages.s = build.s;
    return stages;
}

SdpaBf16DotStages sdpa_bf16_dot_split_stages(const SdpaInputs &in, const SdpaNumerics &numerics, const ScheduleHints &hints,
                                             const Score &score, const RoundPairs &round_pairs) {
    SdpaBf16DotStages stages;
    Builder build = group_rows(in, numerics, hints, score);
    // A row has one weight for each key that it reads, so accurate exponentials cost nothing, and lse is the better for them.
    up_to_block_stages(stages, build, round_pairs, exp2_nonpositive);
    split_merge(build);
    stages.s = build.s;
    return stages;
}

}  // namespace attune
