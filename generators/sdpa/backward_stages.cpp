#include "generators/sdpa/backward_stages.h"
#include "generators/math/exp2.h"
#include "generators/math/narrowed.h"
#include "generators/math/philox.h"
#include "generators/math/precise.h"
#include "generators/sdpa/builder.h"
#include "generators/sdpa/score_derivative.h"

namespace attune {
using namespace Halide;
using Halide::Internal::is_const_one;
using Halide::Internal::make_const;
using Halide::Internal::Variable;

namespace {

constexpr double log2e = 1.4426950408889634;

struct BackwardBuilder {
    const BackwardInputs &in;
    const BackwardShape &shape;
    const Score &score;
    bool of_capture = false;  // score_gradient is by the score after its steps
    BackwardStages s = {};
    Type type = shape.accumulator;

    Expr value_of(double x) const { return make_const(type, x); }
    Expr bits_of(Expr x) const { return reinterpret(UInt(type.bits()), x); }
    Expr sign_bit() const { return make_const(UInt(type.bits()), uint64_t(1) << (type.bits() - 1)); }
    // Of a tile that a mask touches: what is masked there is -0, which adds nothing and is known from a weight.
    Expr counts(Expr x) const {
        return reinterpret(UInt(x.type().bits()), x) != make_const(UInt(x.type().bits()), uint64_t(1) << (x.type().bits() - 1));
    }
    bool in_pairs() const { return bool(shape.round_pairs); }
    Expr product(Expr x, Expr y) const { return cast(type, x) * cast(type, y); }

    // Query and key of a pair of a tile. Of a tile that lies within both ends; else of the last ones instead.
    Expr query_at(Expr q, bool inside) const {
        Expr i = s.u * shape.tile_q + q;
        return inside ? unsafe_promise_clamped(i, 0, in.queries - 1) : min(i, in.queries - 1);
    }
    Expr key_at(Expr r, bool inside) const {
        Expr j = s.t * shape.chunk + r;
        return inside ? unsafe_promise_clamped(j, 0, in.keys - 1) : min(j, in.keys - 1);
    }
    Expr channel(Expr d, Expr extent) const { return shape.ragged_dims ? min(d, extent - 1) : d; }

    // Some query of tile u sees some key of tile t; all see all.
    Expr seen(Expr u, Expr t) const {
        Expr first = u * shape.tile_q, last = min(first + shape.tile_q, in.queries) - 1;
        return t * shape.chunk < min(in.longest(u), last + in.band_end) &&
               (t + 1) * shape.chunk > max(0, first + in.band_begin);
    }
    Expr whole(Expr u, Expr t) const {
        Expr first = u * shape.tile_q, last = first + shape.tile_q - 1;
        Expr all = last < in.queries && t * shape.chunk >= max(0, last + in.band_begin) &&
                   (t + 1) * shape.chunk <= min(in.shortest(u), first + in.band_end);
        for (const ScoreStep &step : score.steps)
            if (step.may_mask) all = step.when.defined() ? all && !step.when : Internal::const_false();
        return all;
    }

    void rows() {
        Var d = s.d, i = s.i, j = s.j, h = s.h, r = s.r, t = s.t;
        Expr query = min(i, in.queries - 1), key = min(j, in.keys - 1);
        s.query_rows = Func("query_rows"), s.grad_rows = Func("grad_rows"), s.key_rows = Func("key_rows");
        s.query_rows(d, i, h) = cast(type, in.query(channel(d, in.head_dim), query, h));
        s.grad_rows(d, i, h) = cast(type, in.grad_out(channel(d, in.value_dim), query, h));
        s.key_rows(d, j) = cast(type, in.key(channel(d, in.head_dim), key));
        s.key_t = Func("key_t"), s.value_t = Func("value_t");
        if (in_pairs()) {
            pair_rows();
            return;
        }
        s.key_t(r, d, t) = cast(type, in.key(d, key_at(r, false)));
        s.value_t(r, d, t) = cast(type, in.value(d, key_at(r, false)));
    }

    void pair_rows() {
        Var d = s.d, i = s.i, j = s.j, h = s.h, r = s.r, t = s.t, e = s.e;
        s.in_pairs = true;
        // An odd number of channels is one more, of zeros.
        auto padded = [](const Expr &d, const Expr &extent, const Expr &x) { return select(d < extent, x, bfloat16_t(0.0f)); };
        auto at = [&](const Expr &d, const Expr &extent) { return min(d, extent - 1); };
        Expr query = min(i, in.queries - 1), key = key_at(r, false), pair = d * 2 + e;
        s.query_rows = Func("query_rows"), s.grad_rows = Func("grad_rows");
        s.query_rows(d, i, h) = padded(d, in.head_dim, in.query(at(d, in.head_dim), query, h));
        s.grad_rows(d, i, h) = padded(d, in.value_dim, in.grad_out(at(d, in.value_dim), query, h));
        s.key_t(e, r, d, t) = padded(pair, in.head_dim, in.key(at(pair, in.head_dim), key));
        s.value_t(e, r, d, t) = padded(pair, in.value_dim, in.value(at(pair, in.value_dim), key));
        Expr query_of_pair = min(i * 2 + e, in.queries - 1);
        s.query_pairs = Func("query_pairs"), s.grad_pairs = Func("grad_pairs"), s.key_pairs = Func("key_pairs");
        s.query_pairs(e, d, i, h) = in.query(channel(d, in.head_dim), query_of_pair, h);
        s.grad_pairs(e, d, i, h) = in.grad_out(channel(d, in.value_dim), query_of_pair, h);
        s.key_pairs(e, d, j) = in.key(channel(d, in.head_dim), min(j * 2 + e, in.keys - 1));
    }

    // The product of a row of keys or values with one of queries or gradients, over the channels.
    Func channel_product(const std::string &name, const Func &keys, const Func &queries, const Expr &extent, RVar &along,
                         RVar &element) const {
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
            f(r, q, u, h, t) += keys(r, channel, t) * queries(channel, i, h);
        }
        return f;
    }

    Index index(Expr q, bool inside, bool keys_inside) const {
        Expr i = query_at(q, inside), j = key_at(s.r, keys_inside);
        Index at{0, s.h, i, j, i + in.offset, 0, {}};
        at.of_pair = [at](const Func &table) { return table(at.j, at.i, at.h); };
        return at;
    }

    void scores(BackwardTile &p, const std::string &suffix, bool masked) const {
        Var r = s.r, q = s.q, u = s.u, h = s.h, t = s.t;
        p.score = channel_product("score" + suffix, s.key_t, s.query_rows, in.head_dim, p.channel, p.channel_element);
        p.logit = Func("logit" + suffix);
        Expr scale = score.steps.empty() ? in.scale * make_const(Float(64), log2e) : in.scale;
        Expr x = p.score(r, q, u, h, t) * cast(type, scale);
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
    bool is_bent() const {
        const Expr x = Variable::make(type, "x");
        for (const ScoreStep &step : score.steps)
            if (step.score && !is_const_one(score_derivative(step.score, x, index(s.q, true, true)))) return true;
        return false;
    }

    void apply(BackwardTile &p, const std::string &suffix, const ScoreStep &step, const std::vector<Expr> &conditions,
               bool inside, bool keys_inside) const {
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

    void weights(BackwardTile &p, const std::string &suffix, bool masked) const {
        Var r = s.r, q = s.q, u = s.u, h = s.h, t = s.t;
        const bool bent = p.logit.outputs() == 2;
        FuncRef ref = p.logit(r, q, u, h, t);
        Expr i = query_at(q, !masked), logit = bent ? Expr(ref[1]) : Expr(ref);
        Expr base2 = score.steps.empty() ? logit : logit * value_of(log2e);
        Expr power = base2 - in.row_lse(i, h);
        Expr weight = in_pairs() ? exp2_nonpositive_for_bf16(power) : exp2_nonpositive(power);
        if (masked) {
            Expr query = u * shape.tile_q + q, j = t * shape.chunk + r;
            Expr kept = query < in.queries && j >= query + in.band_begin && j < min(in.lengths(i), query + in.band_end);
            kept = kept && !strict_float(logit < value_of(lowest_max));
            weight = reinterpret(type, select(kept, bits_of(weight), sign_bit()));
        }
        p.weight = Func("weight" + suffix);
        p.weight(r, q, u, h, t) = weight;

        p.weight_gradient =
            channel_product("weight_gradient" + suffix, s.value_t, s.grad_rows, in.value_dim, p.value_channel, p.value_element);
        Expr w = p.weight(r, q, u, h, t), gradient = p.weight_gradient(r, q, u, h, t);
        if (in.dropout.threshold.defined()) {
            Expr kept = drop_out(p, suffix);
            gradient = select(kept, gradient * cast(type, in.dropout.keep_scale), value_of(0));
        }
        Expr by_score = w * (gradient - in.row_delta(i, h));
        if (bent && !of_capture) by_score *= ref[0];
        p.score_gradient = Func("score_gradient" + suffix);
        p.score_gradient(r, q, u, h, t) =
            masked ? reinterpret(type, select(counts(w), bits_of(by_score), sign_bit())) : by_score;
    }

    // Whether a weight is kept; dropped is what is left of the weights.
    Expr drop_out(BackwardTile &p, const std::string &suffix) const {
        Var r = s.r, q = s.q, u = s.u, h = s.h, t = s.t, word("word"), four("four");
        const Type bits = UInt(32);
        const auto words = philox4x32_10({cast(bits, t * (shape.chunk / 4) + four), cast(bits, u * shape.tile_q + q),
                                          cast(bits, h) + in.dropout.first_head, in.dropout.offset},
                                         {in.dropout.seed_low, in.dropout.seed_high});
        p.random = Func("random" + suffix);
        p.random(word, four, q, u, h, t) = mux(word, {words[0], words[1], words[2], words[3]});
        Expr kept = p.random(r % 4, r / 4, q, u, h, t) >= in.dropout.threshold, w = p.weight(r, q, u, h, t);
        p.dropped = Func("dropped" + suffix);
        // The sign is kept: a masked weight stays -0.
        p.dropped(r, q, u, h, t) = select(kept, w, reinterpret(type, bits_of(w) & sign_bit()));
        return kept;
    }

    // part(d, ...) += weight(along) * row(d, along): what is masked may be multiplied with NaN, so it is left out where it may.
    // With pairs along is that of a pair, and both take the element too.
    using Factor = std::function<Expr(Expr element, Expr along)>;
    TileSum sum(const std::string &name, const std::vector<Var> &args, int extent, bool masked, const Expr &wanted,
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

    void round_tile(BackwardTile &p, const std::string &suffix) const {
        Var r = s.r, q = s.q, u = s.u, h = s.h, t = s.t, e = s.e;
        p.weight_pairs = Func("weight_pairs" + suffix), p.gradient_pairs = Func("gradient_pairs" + suffix);
        p.gradient_rows = Func("gradient_rows" + suffix);
        const Func weight = p.dropped.defined() ? p.dropped : p.weight;
        p.weight_pairs(e, r, q, u, h, t) = shape.round_pairs(weight(r, q * 2 + e, u, h, t));
        p.gradient_pairs(e, r, q, u, h, t) = shape.round_pairs(p.score_gradient(r, q * 2 + e, u, h, t));
        p.gradient_rows(r, q, u, h, t) = shape.round_pairs(p.score_gradient(r, q, u, h, t));
    }

    void sums(BackwardTile &p, const std::string &suffix, bool masked) const {
        Var r = s.r, q = s.q, u = s.u, h = s.h, t = s.t, d = s.d;
        const bool pairs = in_pairs();
        if (pairs) round_tile(p, suffix);
        const Func weight = p.dropped.defined() ? p.dropped : p.weight;
        const int half_tile = shape.tile_q / 2, half_chunk = shape.chunk / 2;
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
        p.value_sum = sum(
            "value_part" + suffix, {d, r, u, h, t}, shape.tile_q, masked, in.wants_key,
            [&](Expr e, Expr along) -> Expr {
                return pairs ? p.weight_pairs(e, r, along, u, h, t) : weight(r, along, u, h, t);
            },
            [&](Expr e, Expr along) -> Expr {
                return pairs ? s.grad_pairs(e, d, u * half_tile + along, h) : s.grad_rows(d, u * shape.tile_q + along, h);
            });
    }

    BackwardTile tile_of(const std::string &suffix, bool masked) const {
        BackwardTile p;
        scores(p, suffix, masked);
        weights(p, suffix, masked);
        if (!of_capture) sums(p, suffix, masked);
        return p;
    }

    void totals() {
        Var r = s.r, q = s.q, u = s.u, h = s.h, t = s.t, d = s.d;
        s.query_total = Func("query_total"), s.key_total = Func("key_total"), s.value_total = Func("value_total");
        s.query_total(d, q, u, h) = value_of(0);
        s.key_total(d, r, t) = value_of(0);
        s.value_total(d, r, t) = value_of(0);
        // Loops can be fused where both are reductions or neither is: x in terms of another loop is taken for a reduction.
        auto reduced = [](const RVar &x, const RVar &other, const Expr &extent) { return x + max(other - extent, 0); };
        for (const bool full : {true, false}) {
            const BackwardTile &p = full ? s.full : s.part;
            RDom tiles(0, in.query_tiles, 0, in.heads, 0, in.key_tiles, full ? "full" : "part");
            const Expr x = in.first_query_tile + tiles.x, z = in.first_key_tile + tiles.z;
            tiles.where(seen(x, z));
            tiles.where(full ? whole(x, z) : !whole(x, z));
            (full ? s.full_tiles : s.part_tiles) = {tiles.x, tiles.y, tiles.z};
            s.query_total(d, q, reduced(tiles.x, tiles.z, in.key_tiles), reduced(tiles.y, tiles.z, in.key_tiles)) +=
                p.query_sum.part(d, q, x, tiles.y, z);
            const Expr tile = reduced(tiles.z, tiles.x, in.query_tiles);
            s.key_total(d, r, tile) += p.key_sum.part(d, r, x, tiles.y, z);
            s.value_total(d, r, tile) += p.value_sum.part(d, r, x, tiles.y, z);
        }
    }

    // The derivative of the score by the buffer that a step reads, where x is its value before any step.
    Expr by_capture(const CaptureInputs &capture, const Expr &x, const Index &at) const {
        Expr chosen = value_of(0);
        for (std::size_t n = 0; n < score.steps.size(); n++) {
            if (!score.steps[n].score) continue;
            const auto read = capture_derivatives(score.steps[n].score, x, at);
            if (read.empty()) continue;
            for (std::size_t later = n + 1; later < score.steps.size(); later++)
                if (score.steps[later].score && !is_const_one(score_derivative(score.steps[later].score, x, at)))
                    throw CompileError(
                        "attune: a step after one whose buffer has a gradient does more than add to the score\n");
            Expr sum = value_of(0);
            for (const CaptureDerivative &d : read) sum += cast(type, d.derivative);
            chosen = select(capture.step == int(n), precise(sum), chosen);
        }
        return chosen;
    }

    void captures(const CaptureInputs &capture) {
        Var r = s.r, q = s.q, u = s.u, t = s.t, j = s.j, y("y");
        s.capture_total = Func("capture_total");
        s.capture_total(r, q, u, t) =
            capture.before(min(t * shape.chunk + r, capture.columns - 1), min(u * shape.tile_q + q, capture.rows - 1));
        const Expr keeps = clamp(capture.keeps_queries, 0, 1);
        for (const bool full : {true, false}) {
            const BackwardTile &p = full ? s.full : s.part;
            RDom tiles(0, shape.tile_q, 0, in.query_tiles, 0, in.key_tiles, full ? "full" : "part");
            const Expr x = in.first_query_tile + tiles.y, z = in.first_key_tile + tiles.z;
            tiles.where(seen(x, z));
            tiles.where(full ? whole(x, z) : !whole(x, z));
            (full ? s.full_tiles : s.part_tiles) = {tiles.y, {}, tiles.z};
            (full ? s.full_query : s.part_query) = tiles.x;
            const Expr i = min(x * shape.tile_q + tiles.x, in.queries - 1), key = min(z * shape.chunk + r, in.keys - 1);
            Index at{0, 0, i, key, i + in.offset, 0, {}};
            at.of_pair = [at](const Func &table) { return table(at.j, at.i, at.h); };
            s.capture_total(r, tiles.x * keeps, tiles.y * keeps, tiles.z) +=
                p.score_gradient(r, tiles.x, x, 0, z) * by_capture(capture, value_of(0), at);
        }
        s.capture_out = Func("capture_out");
        s.capture_out(j, y) = s.capture_total(j % shape.chunk, y % shape.tile_q, y / shape.tile_q, j / shape.chunk);
    }

    void outputs() {
        Var d = s.d, i = s.i, j = s.j, h = s.h;
        Expr scale = cast(type, in.scale), tile = j / shape.chunk, key = j % shape.chunk;
        s.query_out = Func("query_out"), s.key_out = Func("key_out"), s.value_out = Func("value_out");
        s.query_out(d, i, h) = narrowed(shape.type, s.query_total(d, i % shape.tile_q, i / shape.tile_q, h) * scale);
        s.key_out(d, j) = narrowed(shape.type, s.key_total(d, key, tile) * scale);
        Expr value = s.value_total(d, key, tile);
        if (in.dropout.keep_scale.defined()) value *= cast(type, in.dropout.keep_scale);
        s.value_out(d, j) = narrowed(shape.type, value);
    }
};

}  // namespace

BackwardStages backward_stages(const BackwardInputs &in, const BackwardShape &shape, const Score &score) {
    BackwardBuilder b{in, shape, score};
    b.rows();
    b.s.full = b.tile_of("", false);
    b.s.part = b.tile_of("_part", true);
    b.totals();
    b.outputs();
    return std::move(b.s);
}

BackwardStages capture_stages(const BackwardInputs &in, const BackwardShape &shape, const Score &score,
                              const CaptureInputs &capture) {
    BackwardBuilder b{in, shape, score, true};
    b.rows();
    b.s.full = b.tile_of("", false);
    b.s.part = b.tile_of("_part", true);
    b.captures(capture);
    return std::move(b.s);
}

}  // namespace attune
