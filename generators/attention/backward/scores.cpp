// SPDX-License-Identifier: MIT
// Scores, weights and gradients by the score of the pairs of a tile, for the gradients of attention.
#include "generators/attention/backward/builder.h"
#include "generators/attention/equations/score_derivative.h"
#include "generators/math/philox.h"
#include "generators/math/precise.h"

namespace attune {
using namespace Halide;
using Halide::Internal::is_const_one;
using Halide::Internal::make_const;
using Halide::Internal::Variable;

// A test of three signs and not three comparisons, from which bounds inference would infer bounds of tiles.
Expr BackwardBuilder::seen_block(Expr k, Expr m) const {
    Expr first = s.u * numerics.tile_q + m * hints.block_queries, last = min(first + hints.block_queries, in.queries) - 1;
    Expr key = s.t * numerics.kv_block + k * hints.block_keys;
    Expr before_end = key - min(in.longest(s.u), last + in.band_end);
    Expr after_begin = max(0, first + in.band_begin) - (key + hints.block_keys);
    return ((first - in.queries) & before_end & after_begin) < 0;
}
std::pair<RDom, TileBlocks> BackwardBuilder::seen_blocks(const std::string &name) const {
    const int queries = hints.block_queries, keys = hints.block_keys;
    RDom block(0, keys, 0, queries, 0, numerics.kv_block / keys, 0, numerics.tile_q / queries, name + "_block");
    block.where(seen_block(block.z, block.w));
    return {block, {block.x, block.y, block.z, block.w}};
}

TileBlocks BackwardBuilder::fill(Func &f, const std::string &name, bool in_blocks, const OfPair &value,
                                 const Tuple &elsewhere) const {
    Var r = s.r, q = s.q, u = s.u, h = s.h, t = s.t;
    f = Func(name);
    if (!in_blocks) {
        f(r, q, u, h, t) = value(r, q);
        return {};
    }
    f(r, q, u, h, t) = elsewhere;
    const auto [block, loops] = seen_blocks(name);
    const Expr key = block.z * hints.block_keys + block.x, query = block.w * hints.block_queries + block.y;
    f(key, query, u, h, t) = value(key, query);
    return loops;
}

// The product of a row of keys or values and a row of queries or gradients, over the channels.
Func BackwardBuilder::channel_product(const std::string &name, const Func &keys, const Func &queries, const Expr &extent,
                                      RVar &along, RVar &element, const PairTerm *of_pair) const {
    Var r = s.r, q = s.q, u = s.u, h = s.h, t = s.t;
    Func f(name);
    Expr i = u * numerics.tile_q + q;
    f(r, q, u, h, t) = value_of(0);
    if (in_pairs()) {
        RDom channel(0, 2, 0, (extent + 1) / 2, name + "_channel");
        element = channel.x, along = channel.y;
        f(r, q, u, h, t) += product(keys(channel.x, r, channel.y, t), queries(channel.y * 2 + channel.x, i, h));
    } else {
        RDom channel(0, extent, name + "_channel");
        along = channel.x;
        Expr x = queries(channel, i, h), y = keys(r, channel, t);
        f(r, q, u, h, t) += of_pair ? weighted_term(*of_pair, x, y, channel) : y * x;
    }
    return f;
}

Index BackwardBuilder::index(Expr i, Expr j, Expr head) const {
    Index at{0, head, i, j, i + in.offset, 0, in.heads, in.queries, in.keys, {}};
    at.of_pair = [at](const Func &table) { return table(at.j, at.i, at.h); };
    return at;
}

void BackwardBuilder::scores(BackwardTile &p, const std::string &suffix, bool masked) const {
    Var r = s.r, q = s.q, u = s.u, h = s.h, t = s.t;
    if (numerics.amx_tiles)
        p.qk = amx_channel_product("qk" + suffix, s.factors.key_t, s.query_rows, in.head_dim, p.channel);
    else
        p.qk = channel_product("qk" + suffix, s.key_t, s.query_rows, in.head_dim, p.channel, p.channel_element, &score.pair);
    p.in_blocks = masked && !numerics.amx_tiles;
    const bool bent = is_bent();
    const Expr nothing = undef(type);
    auto scaled = [&](Expr r, Expr q) {
        Expr x = p.qk(r, q, u, h, t);
        if (score.pair.finish) x = score.pair.finish(x, index(query_at(q, !masked), key_at(r, !masked), h));
        return Expr(x * cast(type, in.scale));
    };
    if (keeps_scaled)
        p.scaled_blocks = fill(
            p.scaled, "scaled" + suffix, p.in_blocks, [&](Expr r, Expr q) { return Tuple(scaled(r, q)); }, Tuple(nothing));
    auto score_of = [&](Expr r, Expr q) {
        const Expr x = keeps_scaled ? Expr(p.scaled(r, q, u, h, t)) : scaled(r, q);
        return bent ? Tuple(value_of(1), x) : Tuple(x);
    };
    // Without steps the score is computed where it is read.
    p.score_blocks = fill(p.score, "score" + suffix, p.in_blocks && !score.steps.empty(), score_of,
                          bent ? Tuple(nothing, nothing) : Tuple(nothing));
    for (const ScoreStep &step : score.steps) {
        if (!masked && step.may_mask) continue;
        const Expr inside = (t + 1) * numerics.kv_block <= in.keys;
        if (masked && step.reads_pairs) {
            apply(p, suffix, step, {step.when, inside}, false, true);
            apply(p, suffix, step, {step.when, !inside}, false, false);
        } else {
            apply(p, suffix, step, {step.when}, !masked, !masked);
        }
    }
}

// Whether some step does more than add to the score.
bool BackwardBuilder::is_bent() const {
    const Expr x = Variable::make(type, "x");
    for (const ScoreStep &step : score.steps)
        if (step.score && !is_const_one(score_derivative(step.score, x, index(s.q, s.r, s.h)))) return true;
    return false;
}

void BackwardBuilder::apply(BackwardTile &p, const std::string &suffix, const ScoreStep &step,
                            const std::vector<Expr> &conditions, bool inside, bool keys_inside) const {
    const std::string name = "step" + std::to_string(p.step_queries.size() + p.step_blocks.size()) + suffix;
    RDom queries(0, numerics.tile_q, name);
    Expr key = s.r, query = queries;
    if (p.in_blocks) {
        const auto [block, loops] = seen_blocks(name);
        queries = block, p.step_blocks.push_back(loops);
        key = block.z * hints.block_keys + block.x, query = block.w * hints.block_queries + block.y;
    } else {
        p.step_queries.push_back(queries.x);
    }
    for (const Expr &condition : conditions)
        if (condition.defined()) queries.where(condition);
    const Index at = index(query_at(query, inside), key_at(key, keys_inside), s.h);
    FuncRef score_value = p.score(key, query, s.u, s.h, s.t);
    const bool bent = p.score.outputs() == 2;
    Expr before = bent ? Expr(score_value[1]) : Expr(score_value), x = before;
    if (step.score) x = precise(step.score(before, at));
    if (step.mask) x = select(step.mask(at), x, masked_score(type));
    if (bent) {
        Expr slope = score_value[0];
        if (step.score) slope *= precise(score_derivative(step.score, before, at));
        score_value = Tuple(slope, x);  // in this order: values are stored in turn, and both read the old score
    } else {
        score_value = x;
    }
}

void BackwardBuilder::weights(BackwardTile &p, const std::string &suffix, bool masked) const {
    Var u = s.u, h = s.h, t = s.t;
    const bool bent = p.score.outputs() == 2;
    auto weight_of = [&](Expr r, Expr q) {
        FuncRef ref = p.score(r, q, u, h, t);
        Expr i = query_at(q, !masked), score_value = bent ? Expr(ref[1]) : Expr(ref);
        const auto exp2 = in_pairs() && parts() == 1 ? exp2_nonpositive_for_bf16 : exp2_nonpositive;
        const Expr weight = softmax.P(score_value, in.row_lse(i, h), exp2);
        if (!masked) return Tuple(weight);
        Expr query = u * numerics.tile_q + q, j = t * numerics.kv_block + r;
        Expr kept = query < in.queries && j >= query + in.band_begin && j < min(in.lengths(i), query + in.band_end);
        kept = kept && !is_masked(score_value);
        return Tuple(kept_or_marked(kept, weight));
    };
    p.weight_blocks = fill(p.weight, "weight" + suffix, p.in_blocks, weight_of, Tuple(undef(type)));
    const std::string of_weight = "weight_gradient" + suffix;
    if (numerics.amx_tiles)
        p.weight_gradient = amx_channel_product(of_weight, s.factors.value_t, s.grad_rows, in.value_dim, p.value_channel);
    else
        p.weight_gradient =
            channel_product(of_weight, s.value_t, s.grad_rows, in.value_dim, p.value_channel, p.value_element, nullptr);
    drop_out(p, suffix, masked);
    if (keeps_scaled && score.probability)
        p.kept_blocks = fill(
            p.kept, "kept" + suffix, p.in_blocks, [&](Expr r, Expr q) { return Tuple(kept_gradient(p, r, q)); },
            Tuple(undef(type)));
    auto gradient_of = [&](Expr r, Expr q) {
        Expr w = p.weight(r, q, u, h, t), i = query_at(q, !masked);
        Expr gradient = p.kept.defined() ? Expr(p.kept(r, q, u, h, t)) : kept_gradient(p, r, q);
        if (score.probability) gradient *= factor_at(r, q, masked);
        Expr by_score = softmax.dS(w, gradient, in.row_delta(i, h));
        if (bent && !of_capture) by_score *= Expr(p.score(r, q, u, h, t)[0]);
        return Tuple(masked ? signed_kept_or_marked(counts(w), by_score) : by_score);
    };
    p.gradient_blocks =
        fill(p.score_gradient, "score_gradient" + suffix, p.in_blocks, gradient_of, Tuple(reinterpret(type, sign_bit(type))));
}

Expr BackwardBuilder::is_kept(const BackwardTile &p, const Expr &r, const Expr &q) const {
    return p.random(r % 4, r / 4, q, s.u, s.h, s.t) >= in.dropout.threshold;
}

Expr BackwardBuilder::kept_gradient(const BackwardTile &p, const Expr &r, const Expr &q) const {
    const Expr gradient = p.weight_gradient(r, q, s.u, s.h, s.t);
    if (!in.dropout.threshold.defined()) return gradient;
    return select(is_kept(p, r, q), gradient * cast(type, in.dropout.keep_scale), value_of(0));
}

Expr BackwardBuilder::factor_at(const Expr &r, const Expr &q, bool masked) const {
    return cast(type, precise(score.probability(index(query_at(q, !masked), key_at(r, !masked), s.h))));
}

void BackwardBuilder::drop_out(BackwardTile &p, const std::string &suffix, bool masked) const {
    const bool drops = in.dropout.threshold.defined();
    if (!drops && !score.probability) return;
    Var q = s.q, u = s.u, h = s.h, t = s.t, word("word"), four("four");
    if (drops) {
        const auto words = dropout_words_from(in.dropout.first_key, t * (numerics.kv_block / 4) + four,
                                              cast(UInt(32), u * numerics.tile_q + q) + in.dropout.first_query,
                                              cast(UInt(32), h) + in.dropout.first_head, in.dropout.offset,
                                              {in.dropout.seed_low, in.dropout.seed_high});
        p.random = Func("random" + suffix);
        p.random(word, four, q, u, h, t) = mux(word, {words[0], words[1], words[2], words[3]});
    }
    auto left = [&](Expr r, Expr q) {
        const Expr w = p.weight(r, q, u, h, t);
        Expr x = drops ? select(is_kept(p, r, q), w, marked_zero(w)) : w;
        if (!score.probability) return Tuple(x);
        // The factor may have any sign.
        x *= factor_at(r, q, masked);
        return Tuple(masked ? signed_kept_or_marked(counts(w), x) : x);
    };
    p.dropped_blocks = fill(p.dropped, "dropped" + suffix, p.in_blocks, left, Tuple(undef(type)));
}

}  // namespace attune
