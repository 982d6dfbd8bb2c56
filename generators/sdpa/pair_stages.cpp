#include "generators/sdpa/pair_stages.h"
#include "generators/math/exp2.h"
#include "generators/sdpa/builder.h"

namespace attune {
using namespace Halide;

namespace {

// A reduction over the keys of a chunk, two at a time.
struct ChunkPairs {
    RDom dom;  // element, pair in block, block
    int width;
    Expr pair() const { return dom.z * (width / 2) + dom.y; }
    Expr key() const { return pair() * 2 + dom.x; }
    KeyLoop loop() const { return {dom.y, dom.z}; }
};

struct PairBuilder {
    Builder &build;
    PairStages &stages;
    const std::function<Expr(Expr)> &round_pairs;
    Expr (*exp2)(Expr);

    ChunkPairs chunk_pairs(const std::string &name, bool masked) const {
        const SdpaShape &shape = build.shape;
        ChunkPairs pairs{RDom(), masked ? shape.key_block : shape.chunk};
        pairs.dom = RDom(0, 2, 0, pairs.width / 2, 0, shape.chunk / pairs.width, name);
        if (masked) pairs.dom.where(build.seen_keys(build.s.c, pairs.dom.z * pairs.width, pairs.width));
        return pairs;
    }

    SdpaPartials partials(const std::string &suffix, bool masked, PairStages::Pairs &elements) const {
        const SdpaInputs &in = build.in;
        const SdpaStages &s = build.s;
        Var r = s.r, k = s.k, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
        SdpaPartials p;
        const bool in_tiles = stages.in_tiles && !masked;
        auto product = [](Expr x, Expr y) { return cast<float>(x) * cast<float>(y); };
        Expr key_head = build.rows(r, t, h).key_head;
        auto key = [&](Expr channel) { return in.key(channel, build.key_at(k, !masked), key_head, b); };
        p.score = Func("score" + suffix);
        p.score(r, k, c, t, h, b) = 0.0f;
        if (in_tiles) {
            RDom channel(0, in.head_dim, "channel" + suffix);
            p.channel = channel.x;
            p.score(r, k, c, t, h, b) += product(stages.key_rows(channel, c * build.shape.chunk + k, key_head, b),
                                                 s.query_t(channel % 2, r, channel / 2, t, h, b));
        } else {
            RDom channel(0, 2, 0, in.head_dim / 2, "channel" + suffix);
            p.channel = channel.y, elements.channel = channel.x;
            p.score(r, k, c, t, h, b) += product(s.query_t(channel.x, r, channel.y, t, h, b), key(channel.y * 2 + channel.x));
        }
        p.logit = Func("logit" + suffix);
        build.finish_scores(p, suffix, masked);
        build.row_max(p, suffix, masked);

        ChunkPairs at = chunk_pairs("weight_key" + suffix, masked);
        p.weight_keys = at.loop(), elements.weight = at.dom.x;
        Expr logit = p.logit(r, at.key(), c, t, h, b);
        Expr weight = exp2(build.base2(logit - p.row_max(r, c, t, h, b)));
        if (masked) weight = build.marked(weight, logit);
        p.weight = Func("weight" + suffix);
        p.weight(stages.e, r, k, c, t, h, b) = Tuple(undef<bfloat16_t>(), undef<float>());
        p.weight(at.dom.x, r, at.pair(), c, t, h, b) = Tuple(round_pairs(weight), weight);

        // Of the weights as they were before they were rounded: lse is more accurate than bf16.
        ChunkPairs sum = chunk_pairs("sum_key" + suffix, masked);
        p.sum_keys = sum.loop(), elements.sum = sum.dom.x;
        elements.pair_sum = Func("pair_sum" + suffix);
        elements.pair_sum(stages.e, r, c, t, h, b) = 0.0f;
        elements.pair_sum(sum.dom.x, r, c, t, h, b) += p.weight(sum.dom.x, r, sum.pair(), c, t, h, b)[1];
        p.row_sum = Func("row_sum" + suffix);
        p.row_sum(r, c, t, h, b) = elements.pair_sum(0, r, c, t, h, b) + elements.pair_sum(1, r, c, t, h, b);

        p.mixed = Func("mixed" + suffix);
        p.mixed(r, d, c, t, h, b) = 0.0f;
        auto mix = [&](bool leave_out, Expr when) {
            ChunkPairs keys = chunk_pairs("mixed_key" + std::to_string(p.mixed_keys.size()) + suffix, masked);
            if (when.defined()) keys.dom.where(when);
            Expr w = p.weight(keys.dom.x, r, keys.pair(), c, t, h, b)[0];
            Expr v = stages.packed_value(keys.dom.x, d, c * (build.shape.chunk / 2) + keys.pair(), key_head, b);
            if (leave_out) v = select(counts(w), v, bfloat16_t(0.0f));
            p.mixed(r, d, c, t, h, b) += product(w, v);
            p.mixed_keys.push_back(keys.loop());
            elements.mixed.push_back(keys.dom.x);
        };
        if (masked) {
            mix(false, in.finite_values(b) != 0);
            mix(true, in.finite_values(b) == 0);
        } else if (in_tiles) {
            RDom key(0, build.shape.chunk, "mixed_key" + suffix);
            Expr w = p.weight(key % 2, r, key / 2, c, t, h, b)[0];
            p.mixed(r, d, c, t, h, b) += product(stages.value_rows(c * build.shape.chunk + key, d, key_head, b), w);
            p.mixed_keys.push_back({key.x, {}});
        } else {
            mix(false, Expr());
        }
        return p;
    }
};

// All up to the partials of the chunks.
void up_to_partials(PairStages &stages, Builder &build, const std::function<Expr(Expr)> &round_pairs, Expr (*exp2)(Expr)) {
    if (build.score.probability) throw CompileError("attune: products of pairs know no factor of the weights\n");
    const SdpaInputs &in = build.in;
    SdpaStages &s = build.s;
    Var e = stages.e, r = s.r, k = s.k, d = s.d, t = s.t, h = s.h, b = s.b;
    build.prepare();
    build.intervals();
    Rows row = build.rows(r, t, h);
    s.query_t = Func("query_t");
    s.query_t(e, r, d, t, h, b) = in.query(d * 2 + e, row.query, row.query_head, b);
    stages.packed_value = Func("packed_value");
    stages.packed_value(e, d, k, h, b) = in.value(d, min(k * 2 + e, in.keys - 1), h, b);
    if (stages.in_tiles) {
        stages.key_rows = Func("key_rows");
        stages.key_rows(d, k, h, b) = in.key(d, min(k, in.keys - 1), h, b);
        stages.value_rows = Func("value_rows");
        stages.value_rows(k, d, h, b) = in.value(d, min(k, in.keys - 1), h, b);
    }
    const PairBuilder pairs{build, stages, round_pairs, exp2};
    s.part = pairs.partials("_part", true, stages.part);
    s.full = pairs.partials("", false, stages.full);
}

}  // namespace

PairStages pair_stages(const SdpaInputs &in, const SdpaShape &shape, const Score &score,
                       const std::function<Expr(Expr)> &round_pairs, bool in_tiles) {
    PairStages stages;
    stages.in_tiles = in_tiles;
    Builder build = query_rows(in, shape, score);
    up_to_partials(stages, build, round_pairs, exp2_nonpositive_for_bf16);
    build.collect_chunks();
    build.merge_tiles();
    stages.s = build.s;
    return stages;
}

PairStages pair_split_stages(const SdpaInputs &in, const SdpaShape &shape, const Score &score,
                             const std::function<Expr(Expr)> &round_pairs) {
    PairStages stages;
    Builder build = group_rows(in, shape, score);
    // A row has one weight for each key that it reads, so an accurate one costs nothing; lse is the better for it.
    up_to_partials(stages, build, round_pairs, exp2_nonpositive);
    split_merge(build);
    stages.s = build.s;
    return stages;
}

}  // namespace attune
