#include "generators/math/exp2.h"
#include "generators/math/narrowed.h"
#include "generators/math/philox.h"
#include "generators/math/precise.h"
#include "generators/sdpa/backward_builder.h"
#include "generators/sdpa/score_derivative.h"

namespace attune {
using namespace Halide;
using Halide::Internal::is_const_one;
using Halide::Internal::make_const;
using Halide::Internal::Variable;

namespace {
constexpr double log2e = 1.4426950408889634;
}

Expr BackwardBuilder::counts(Expr x) const {
    return reinterpret(UInt(x.type().bits()), x) != make_const(UInt(x.type().bits()), uint64_t(1) << (x.type().bits() - 1));
}

// Query and key of a pair of a tile. Of a tile that lies within both ends; else of the last ones instead.
Expr BackwardBuilder::query_at(Expr q, bool inside) const {
    Expr i = s.u * shape.tile_q + q;
    return inside ? unsafe_promise_clamped(i, 0, in.queries - 1) : min(i, in.queries - 1);
}
Expr BackwardBuilder::key_at(Expr r, bool inside) const {
    Expr j = s.t * shape.chunk + r;
    return inside ? unsafe_promise_clamped(j, 0, in.keys - 1) : min(j, in.keys - 1);
}
Expr BackwardBuilder::channel(Expr d, Expr extent) const { return shape.ragged_dims ? min(d, extent - 1) : d; }

Expr BackwardBuilder::seen(Expr u, Expr h, Expr t) const {
    Expr first = u * shape.tile_q, last = min(first + shape.tile_q, in.queries) - 1;
    Expr some =
        t * shape.chunk < min(in.longest(u), last + in.band_end) && (t + 1) * shape.chunk > max(0, first + in.band_begin);
    if (!in.blocks.defined()) return some;
    const BlockSpan span = BlockSpan::unpacked(in.blocks(t, u, h));
    return some && span.begin < span.end;
}
Expr BackwardBuilder::whole(Expr u, Expr h, Expr t) const {
    Expr first = u * shape.tile_q, last = first + shape.tile_q - 1;
    Expr all = last < in.queries && t * shape.chunk >= max(0, last + in.band_begin) &&
               (t + 1) * shape.chunk <= min(in.shortest(u), first + in.band_end);
    for (const ScoreStep &step : score.steps) {
        if (!step.may_mask) continue;
        const Expr none = step.in_blocks        ? BlockSpan::unpacked(in.blocks(t, u, h)).whole
                          : step.when.defined() ? !step.when
                                                : Internal::const_false();
        all = all && none;
    }
    return all;
}

void BackwardBuilder::rows() {
    Var d = s.d, i = s.i, j = s.j, h = s.h, r = s.r, t = s.t;
    Expr query = min(i, in.queries - 1), key = min(j, in.keys - 1);
    s.query_rows = Func("query_rows"), s.grad_rows = Func("grad_rows"), s.key_rows = Func("key_rows");
    auto of_query = [&](Expr x) { return score.pair.query ? score.pair.query(x) : x; };
    auto of_key = [&](Expr x) { return score.pair.key ? score.pair.key(x) : x; };
    if (score.pair.unit_rows) unit_rows();
    auto unit_query = [&](Expr x, Expr i) { return s.query_norm.defined() ? x * s.query_norm(i, h) : x; };
    auto unit_key = [&](Expr x, Expr j) { return s.key_norm.defined() ? x * s.key_norm(j) : x; };
    s.query_rows(d, i, h) = unit_query(of_query(cast(type, in.query(channel(d, in.head_dim), query, h))), query);
    s.grad_rows(d, i, h) = cast(type, in.grad_out(channel(d, in.value_dim), query, h));
    s.key_rows(d, j) = unit_key(of_key(cast(type, in.key(channel(d, in.head_dim), key))), key);
    s.key_t = Func("key_t"), s.value_t = Func("value_t");
    if (in_pairs()) {
        pair_rows();
        return;
    }
    s.key_t(r, d, t) = unit_key(of_key(cast(type, in.key(d, key_at(r, false)))), key_at(r, false));
    s.value_t(r, d, t) = cast(type, in.value(d, key_at(r, false)));
}

void BackwardBuilder::unit_rows() {
    Var i = s.i, j = s.j, h = s.h;
    auto inverse = [&](const Expr &squares) {
        return select(strict_float(squares == value_of(0)), value_of(0), value_of(1) / sqrt(squares));
    };
    RDom channel(0, in.head_dim, "norm_channel");
    Func query_squares("query_squares"), key_squares("key_squares");
    Expr q = cast(type, in.query(channel, i, h)), k = cast(type, in.key(channel, j));
    query_squares(i, h) += q * q;
    key_squares(j) += k * k;
    s.query_norm = Func("query_norm"), s.key_norm = Func("key_norm");
    s.query_norm(i, h) = inverse(query_squares(i, h));
    s.key_norm(j) = inverse(key_squares(j));
}

// The gradient by a row of that by its unit row: what lies along the row changes nothing. One that nothing sees is 0, whatever
// the row holds.
Expr BackwardBuilder::projected(const Expr &total, const Expr &row, const Expr &dot, const Expr &size,
                                const Expr &inverse_norm) const {
    return select(strict_float(size == value_of(0)), value_of(0), (total - row * dot) * inverse_norm);
}

// The product of a row of keys or values with one of queries or gradients, over the channels.
Func BackwardBuilder::channel_product(const std::string &name, const Func &keys, const Func &queries, const Expr &extent,
                                      RVar &along, RVar &element, const PairTerm *of_pair) const {
    Var r = s.r, q = s.q, u = s.u, h = s.h, t = s.t;
    Func f(name);
    Expr i = u * shape.tile_q + q;
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

Index BackwardBuilder::index(Expr i, Expr j, Expr h) const {
    Index at{0, h, i, j, i + in.offset, 0, in.heads, in.queries, in.keys, {}};
    at.of_pair = [at](const Func &table) { return table(at.j, at.i, at.h); };
    return at;
}
Index BackwardBuilder::index(Expr q, bool inside, bool keys_inside) const {
    return index(query_at(q, inside), key_at(s.r, keys_inside), s.h);
}

void BackwardBuilder::scores(BackwardTile &p, const std::string &suffix, bool masked) const {
    Var r = s.r, q = s.q, u = s.u, h = s.h, t = s.t;
    p.score = channel_product("score" + suffix, s.key_t, s.query_rows, in.head_dim, p.channel, p.channel_element, &score.pair);
    p.logit = Func("logit" + suffix);
    Expr x = p.score(r, q, u, h, t);
    if (score.pair.finish) x = score.pair.finish(x, index(q, !masked, !masked));
    x *= cast(type, in.scale);
    if (keeps_scaled) {
        p.scaled = Func("scaled" + suffix);
        p.scaled(r, q, u, h, t) = x;
        x = p.scaled(r, q, u, h, t);
    }
    if (is_bent())
        p.logit(r, q, u, h, t) = Tuple(value_of(1), x);
    else
        p.logit(r, q, u, h, t) = x;
    for (const ScoreStep &step : score.steps) {
        if (!masked && step.may_mask) continue;
        const Expr inside = (t + 1) * shape.chunk <= in.keys;
        if (masked && step.reads_pairs) {
            apply(p, suffix, step, {step.when, inside}, false, true);
            apply(p, suffix, step, {step.when, !inside}, false, false);
        } else {
            apply(p, suffix, step, {step.when}, !masked, !masked);
        }
    }
}

// Some step does more than add to the score.
bool BackwardBuilder::is_bent() const {
    const Expr x = Variable::make(type, "x");
    for (const ScoreStep &step : score.steps)
        if (step.score && !is_const_one(score_derivative(step.score, x, index(s.q, true, true)))) return true;
    return false;
}

void BackwardBuilder::apply(BackwardTile &p, const std::string &suffix, const ScoreStep &step,
                            const std::vector<Expr> &conditions, bool inside, bool keys_inside) const {
    RDom queries(0, shape.tile_q, "step" + std::to_string(p.step_queries.size()) + suffix);
    for (const Expr &condition : conditions)
        if (condition.defined()) queries.where(condition);
    const Index at = index(queries, inside, keys_inside);
    FuncRef logit = p.logit(s.r, queries, s.u, s.h, s.t);
    const bool bent = p.logit.outputs() == 2;
    Expr before = bent ? Expr(logit[1]) : Expr(logit), x = before;
    if (step.score) x = precise(step.score(before, at));
    if (step.mask) x = select(step.mask(at), x, value_of(masked_score));
    if (bent) {
        Expr slope = logit[0];
        if (step.score) slope *= precise(score_derivative(step.score, before, at));
        logit = Tuple(slope, x);  // in this order: values are stored one after the other, and both come of the old score
    } else {
        logit = x;
    }
    p.step_queries.push_back(queries.x);
}

void BackwardBuilder::weights(BackwardTile &p, const std::string &suffix, bool masked) const {
    Var r = s.r, q = s.q, u = s.u, h = s.h, t = s.t;
    const bool bent = p.logit.outputs() == 2;
    FuncRef ref = p.logit(r, q, u, h, t);
    Expr i = query_at(q, !masked), logit = bent ? Expr(ref[1]) : Expr(ref);
    // Subtracted before it is multiplied: the difference is small where both are large.
    Expr power = (logit - in.row_lse(i, h)) * value_of(log2e);
    Expr weight = in_pairs() ? exp2_nonpositive_for_bf16(power) : exp2_nonpositive(power);
    if (masked) {
        Expr query = u * shape.tile_q + q, j = t * shape.chunk + r;
        Expr kept = query < in.queries && j >= query + in.band_begin && j < min(in.lengths(i), query + in.band_end);
        kept = kept && !strict_float(logit < value_of(lowest_max));
        weight = reinterpret(type, select(kept, bits_of(weight), sign_bit(type)));
    }
    p.weight = Func("weight" + suffix);
    p.weight(r, q, u, h, t) = weight;

    p.weight_gradient = channel_product("weight_gradient" + suffix, s.value_t, s.grad_rows, in.value_dim, p.value_channel,
                                        p.value_element, nullptr);
    Expr w = p.weight(r, q, u, h, t);
    Expr gradient = drop_out(p, suffix, masked, p.weight_gradient(r, q, u, h, t));
    Expr by_score = w * (gradient - in.row_delta(i, h));
    if (bent && !of_capture) by_score *= ref[0];
    p.score_gradient = Func("score_gradient" + suffix);
    p.score_gradient(r, q, u, h, t) =
        masked ? reinterpret(type, select(counts(w), bits_of(by_score), sign_bit(type))) : by_score;
}

Expr BackwardBuilder::drop_out(BackwardTile &p, const std::string &suffix, bool masked, Expr gradient) const {
    const bool drops = in.dropout.threshold.defined();
    if (!drops && !score.probability) return gradient;
    Var r = s.r, q = s.q, u = s.u, h = s.h, t = s.t, word("word"), four("four");
    Expr w = p.weight(r, q, u, h, t), left = w;
    if (drops) {
        const auto words =
            dropout_words(t * (shape.chunk / 4) + four, u * shape.tile_q + q, cast(UInt(32), h) + in.dropout.first_head,
                          in.dropout.offset, {in.dropout.seed_low, in.dropout.seed_high});
        p.random = Func("random" + suffix);
        p.random(word, four, q, u, h, t) = mux(word, {words[0], words[1], words[2], words[3]});
        Expr kept = p.random(r % 4, r / 4, q, u, h, t) >= in.dropout.threshold;
        // The sign is kept: a masked weight stays -0.
        left = select(kept, left, reinterpret(type, bits_of(w) & sign_bit(type)));
        gradient = select(kept, gradient * cast(type, in.dropout.keep_scale), value_of(0));
    }
    if (score.probability) {
        if (keeps_scaled) {
            p.kept_gradient = Func("kept_gradient" + suffix);
            p.kept_gradient(r, q, u, h, t) = gradient;
            gradient = p.kept_gradient(r, q, u, h, t);
        }
        const Expr factor = cast(type, precise(score.probability(index(q, !masked, !masked))));
        gradient *= factor;
        // A factor may have any sign.
        left = masked ? reinterpret(type, select(counts(w), bits_of(left * factor), sign_bit(type))) : left * factor;
    }
    p.dropped = Func("dropped" + suffix);
    p.dropped(r, q, u, h, t) = left;
    return gradient;
}

// part(d, ...) += weight(along) * row(d, along): what is masked may be multiplied with NaN, so it is left out where it may.
// With pairs along is that of a pair, and both take the element too.
TileSum BackwardBuilder::sum(const std::string &name, const std::vector<Var> &args, int extent, bool masked, const Expr &wanted,
                             const Factor &weight, const Factor &row) const {
    TileSum sum{Func(name), {}, {}};
    sum.part(args) = value_of(0);
    auto add = [&](bool leave_out, Expr when) {
        const int size = in_pairs() ? 2 : 1;
        RDom along(0, size, 0, extent / size, name + "_along" + std::to_string(sum.along.size()));
        along.where(wanted);
        if (when.defined()) along.where(when);
        Expr w = weight(along.x, along.y), x = row(along.x, along.y);
        sum.part(args) += product(w, leave_out ? select(counts(w), x, make_const(x.type(), 0)) : x);
        sum.along.push_back(along.y), sum.element.push_back(along.x);
    };
    if (masked) {
        add(false, in.finite != 0);
        add(true, in.finite == 0);
    } else {
        add(false, Expr());
    }
    return sum;
}

void BackwardBuilder::sums(BackwardTile &p, const std::string &suffix, bool masked) const {
    Var r = s.r, q = s.q, u = s.u, h = s.h, t = s.t, d = s.d;
    const bool pairs = in_pairs();
    if (pairs) round_tile(p, suffix);
    const Func weight = p.dropped.defined() ? p.dropped : p.weight;
    const int half_tile = shape.tile_q / 2, half_chunk = shape.chunk / 2;
    p.value_sum = sum(
        "value_part" + suffix, {d, r, u, h, t}, shape.tile_q, masked, in.wants_key,
        [&](Expr e, Expr along) -> Expr { return pairs ? p.weight_pairs(e, r, along, u, h, t) : weight(r, along, u, h, t); },
        [&](Expr e, Expr along) -> Expr {
            return pairs ? s.grad_pairs(e, d, u * half_tile + along, h) : s.grad_rows(d, u * shape.tile_q + along, h);
        });
    if (score.pair.term) return terms(p, suffix, masked);
    p.query_sum = sum(
        "query_part" + suffix, {d, q, u, h, t}, shape.chunk, masked, in.wants_query,
        [&](Expr e, Expr along) -> Expr {
            return pairs ? p.gradient_rows(along * 2 + e, q, u, h, t) : p.score_gradient(along, q, u, h, t);
        },
        [&](Expr e, Expr along) -> Expr {
            return pairs ? s.key_pairs(e, d, t * half_chunk + along) : s.key_rows(d, t * shape.chunk + along);
        });
    p.key_sum = sum(
        "key_part" + suffix, {d, r, u, h, t}, shape.tile_q, masked, in.wants_key,
        [&](Expr e, Expr along) -> Expr {
            return pairs ? p.gradient_pairs(e, r, along, u, h, t) : p.score_gradient(r, along, u, h, t);
        },
        [&](Expr e, Expr along) -> Expr {
            return pairs ? s.query_pairs(e, d, u * half_tile + along, h) : s.query_rows(d, u * shape.tile_q + along, h);
        });
}

BackwardTile BackwardBuilder::tile_of(const std::string &suffix, bool masked) const {
    BackwardTile p;
    scores(p, suffix, masked);
    weights(p, suffix, masked);
    if (!of_capture) sums(p, suffix, masked);
    return p;
}

void BackwardBuilder::totals() {
    Var r = s.r, q = s.q, u = s.u, h = s.h, t = s.t, d = s.d;
    s.query_total = Func("query_total"), s.key_total = Func("key_total"), s.value_total = Func("value_total");
    s.query_total(d, q, u, h) = value_of(0);
    s.key_total(d, r, t) = value_of(0);
    s.value_total(d, r, t) = value_of(0);
    for (const bool full : {true, false}) {
        const BackwardTile &p = full ? s.full : s.part;
        RDom tiles(0, in.query_tiles, 0, in.heads, 0, in.key_tiles, full ? "full" : "part");
        const Expr x = in.first_query_tile + tiles.x, z = in.first_key_tile + tiles.z;
        tiles.where(seen(x, tiles.y, z));
        tiles.where(full ? whole(x, tiles.y, z) : !whole(x, tiles.y, z));
        (full ? s.full_tiles : s.part_tiles) = {tiles.x, tiles.y, tiles.z, {}, {}, {}, {}};
        s.query_total(d, q, reduced(tiles.x, tiles.z, in.key_tiles), reduced(tiles.y, tiles.z, in.key_tiles)) +=
            p.query_sum.part(d, q, x, tiles.y, z);
        const Expr tile = reduced(tiles.z, tiles.x, in.query_tiles);
        s.key_total(d, r, tile) += p.key_sum.part(d, r, x, tiles.y, z);
        s.value_total(d, r, tile) += p.value_sum.part(d, r, x, tiles.y, z);
    }
}

void BackwardBuilder::outputs() {
    Var d = s.d, i = s.i, j = s.j, h = s.h;
    Expr scale = cast(type, in.scale) * by_sum(), tile = j / shape.chunk, key = j % shape.chunk;
    if (score.pair.weight) scale *= score.pair.weight(d);
    s.query_out = Func("query_out"), s.key_out = Func("key_out"), s.value_out = Func("value_out");
    auto query_total = [&](Expr d) { return s.query_total(d, i % shape.tile_q, i / shape.tile_q, h); };
    auto key_total = [&](Expr d) { return s.key_total(d, key, tile); };
    Expr by_query = query_total(d), by_key = key_total(d);
    if (score.pair.unit_rows) {
        Expr query = min(in.first_query_tile * shape.tile_q + i, in.queries - 1);
        Expr key = min(in.first_key_tile * shape.chunk + j, in.keys - 1);
        RDom channel(0, in.head_dim, "unit_channel");
        s.query_dot = Func("query_dot"), s.query_size = Func("query_size");
        s.key_dot = Func("key_dot"), s.key_size = Func("key_size");
        s.query_dot(i, h) += query_total(channel) * s.query_rows(channel, query, h);
        s.query_size(i, h) += abs(query_total(channel));
        s.key_dot(j) += key_total(channel) * s.key_rows(channel, key);
        s.key_size(j) += abs(key_total(channel));
        by_query =
            projected(by_query, s.query_rows(d, query, h), s.query_dot(i, h), s.query_size(i, h), s.query_norm(query, h));
        by_key = projected(by_key, s.key_rows(d, key), s.key_dot(j), s.key_size(j), s.key_norm(key));
    }
    s.query_out(d, i, h) = narrowed(shape.type, by_query * scale);
    s.key_out(d, j) = narrowed(shape.type, by_key * scale);
    Expr value = s.value_total(d, key, tile);
    if (in.dropout.keep_scale.defined()) value *= cast(type, in.dropout.keep_scale);
    s.value_out(d, j) = narrowed(shape.type, value);
}

BackwardStages backward_stages(const BackwardInputs &in, const BackwardShape &shape, const Score &score) {
    BackwardBuilder b{in, shape, score};
    b.rows();
    b.s.full = b.tile_of("", false);
    b.s.part = b.tile_of("_part", true);
    if (score.pair.term)
        b.term_totals();
    else
        b.totals();
    b.outputs();
    return std::move(b.s);
}

}  // namespace attune
