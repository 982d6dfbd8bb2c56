#include "generators/sdpa/tile_stages.h"
#include "generators/math/bits.h"
#include "generators/math/exp2.h"

namespace attune {
using namespace Halide;

namespace {

struct TileBuilder {
    Builder &build;
    TileStages &stages;
    const RoundPairs &round_pairs;
    Expr channels;  // with those that are filled up

    // values: (k, d, c, t, h, b)
    SdpaPartials partials(const std::string &suffix, bool masked, PairStages::Pairs &of,
                          const std::function<Expr(Expr k, Expr d)> &values) const {
        const SdpaStages &s = build.s;
        Var r = s.r, k = s.k, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
        Expr key_head = build.rows(r, t, h).key_head;
        SdpaPartials p;
        p.score = Func("score" + suffix);
        p.score(r, k, c, t, h, b) = 0.0f;
        RDom channel(0, channels, "channel" + suffix);
        p.channel = channel.x;
        p.score(r, k, c, t, h, b) += widened_product(stages.key_rows(channel, c * build.shape.chunk + k, key_head, b),
                                                     s.query_t(channel % 2, r, channel / 2, t, h, b));
        p.logit = Func("logit" + suffix);
        build.finish_scores(p, suffix, masked, true);
        build.row_max(p, suffix, masked);
        weigh_pairs(p, of, stages.e, build, round_pairs, exp2_nonpositive_for_bf16, suffix, masked);

        ChunkKeys keys = build.chunk_keys("mixed_key" + suffix, masked, c);
        p.mixed = Func("mixed" + suffix);
        p.mixed(r, d, c, t, h, b) = 0.0f;
        p.mixed(r, d, c, t, h, b) +=
            widened_product(values(keys.key(), d), p.weight(keys.key() % 2, r, keys.key() / 2, c, t, h, b)[0]);
        p.mixed_keys.push_back(keys.loop());
        return p;
    }

    void all_partials() {
        SdpaStages &s = build.s;
        Var r = s.r, k = s.k, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
        const Expr key_head = build.rows(r, t, h).key_head;
        auto any = [&](Expr k, Expr d) { return stages.value_rows(k, d, c, key_head, b); };
        s.full = partials("", false, stages.full, any);
        s.part = partials("_part", true, stages.part, any);
        stages.finite_rows = Func("finite_rows");
        stages.finite_rows(k, d, c, t, h, b) = select(is_finite_bf16(any(k, d)), any(k, d), bfloat16_t(0.0f));
        stages.spoiled = partials("_spoiled", true, stages.spoiled_pairs,
                                  [&](Expr k, Expr d) { return stages.finite_rows(k, d, c, t, h, b); });

        ChunkKeys keys = build.chunk_keys("not_finite_key", true, c);
        stages.not_finite_keys = keys.loop();
        Expr w = stages.spoiled.weight(keys.key() % 2, r, keys.key() / 2, c, t, h, b)[0], v = any(keys.key(), d);
        stages.not_finite = Func("not_finite");
        stages.not_finite(r, d, c, t, h, b) = 0.0f;
        // Strict, or code generation may conclude that the sum is no NaN.
        stages.not_finite(r, d, c, t, h, b) = strict_float(
            stages.not_finite(r, d, c, t, h, b) + select(counts(w) && !is_finite_bf16(v), widened_product(w, v), 0.0f));
    }

    void collect_chunks() {
        SdpaStages &s = build.s;
        Var r = s.r, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
        auto [full, part] = build.chunk_domains();
        const Expr finite = build.in.finite_values(b) != 0;
        RDom spoiled = build.chunks("spoiled_chunk");
        spoiled.where(build.seen(spoiled));
        spoiled.where(!build.whole(spoiled));
        spoiled.where(!finite);
        part.where(finite);
        stages.spoiled_chunk = spoiled.x;
        s.chunk_max = Func("chunk_max");
        s.chunk_sum = Func("chunk_sum");
        s.chunk_mixed = Func("chunk_mixed");
        s.chunk_max(r, c, t, h, b) = undef<float>();
        s.chunk_sum(r, c, t, h, b) = undef<float>();
        s.chunk_mixed(r, d, c, t, h, b) = undef<float>();
        for (const auto &[dom, p] : {std::pair(full, s.full), std::pair(part, s.part), std::pair(spoiled, stages.spoiled)}) {
            s.chunk_max(r, dom, t, h, b) = p.row_max(r, dom, t, h, b);
            s.chunk_sum(r, dom, t, h, b) = p.row_sum(r, dom, t, h, b);
            Expr mixed = p.mixed(r, d, dom, t, h, b);
            if (dom.same_as(spoiled)) mixed = strict_float(mixed + stages.not_finite(r, d, dom, t, h, b));
            s.chunk_mixed(r, d, dom, t, h, b) = mixed;
        }
    }
};

}  // namespace

TileStages tile_stages(const SdpaInputs &in, const SdpaShape &shape, const Score &score, const RoundPairs &round_pairs,
                       int depth) {
    if (score.probability) throw CompileError("attune: products of matrix tiles know no factor of the weights\n");
    Builder build = query_rows(in, shape, score);
    SdpaStages &s = build.s;
    Var r = s.r, k = s.k, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
    TileStages stages{.value_blocks = {"value_block", TileStages::value_block, {c, h, b}, [&](Expr key, Expr channel) {
                                           return in.value(min(channel, in.value_dim - 1),
                                                           min(c * shape.chunk + key, in.keys - 1), h, b);
                                       }}};
    build.prepare();
    build.intervals();
    const Expr channels = (in.head_dim + depth - 1) / depth * depth;
    auto filled = [&](const Func &from, Expr channel, Expr at, Expr head) {
        return select(channel < in.head_dim, from(min(channel, in.head_dim - 1), at, head, b), bfloat16_t(0.0f));
    };
    Rows row = build.rows(r, t, h);
    s.query_t = Func("query_t");
    s.query_t(stages.e, r, d, t, h, b) = filled(in.query, d * 2 + stages.e, row.query, row.query_head);
    stages.key_rows = Func("key_rows");
    stages.key_rows(d, k, h, b) = filled(in.key, d, min(k, in.keys - 1), h);
    stages.value_rows = Func("value_rows");
    stages.value_rows(k, d, c, h, b) = stages.value_blocks(k, d, {c, h, b});
    TileBuilder tiles{build, stages, round_pairs, channels};
    tiles.all_partials();
    tiles.collect_chunks();
    build.merge_tiles();
    stages.s = build.s;
    return stages;
}

}  // namespace attune
