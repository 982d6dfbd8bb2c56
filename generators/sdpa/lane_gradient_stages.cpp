#include "generators/sdpa/lane_gradient_stages.h"
#include "generators/math/precise.h"
#include "generators/sdpa/builder.h"
#include "generators/sdpa/running_chunks.h"
#include "generators/sdpa/score_derivative.h"
#include <numbers>

namespace attune {
using namespace Halide;

namespace {

struct GradientBuilder {
    GradientOf of;
    const LaneGradientInputs &in;
    const LaneShape &lanes;
    int chunk;
    const Score &score;
    const LaneInstructions &does;
    LaneGradient s = {};
    const SdpaInputs &f = in.forward;
    std::string name = of == GradientOf::query ? "_dq" : of == GradientOf::key ? "_dk" : "_dv";

    bool of_query() const { return of == GradientOf::query; }
    Expr group() const { return f.query_heads / f.key_heads; }
    // Of the rows of queries h is the head, of those of keys that of the keys, and g the query head among those that share it.
    Expr query_head() const { return of_query() ? Expr(s.h) : s.h * group() + s.g; }
    Expr key_head() const { return of_query() ? s.h / group() : Expr(s.h); }
    Expr own_rows() const { return of_query() ? f.queries : f.keys; }
    Expr met_rows() const { return of_query() ? f.keys : f.queries; }

    // Query and key of a pair as they are counted, beyond the last ones too.
    Expr own_at() const { return s.t / lanes.channel_lanes * lanes.rows + s.r; }
    Expr met_at() const { return s.c * chunk + s.k; }
    Expr query_at() const { return of_query() ? own_at() : met_at(); }
    Expr key_at() const { return of_query() ? met_at() : own_at(); }
    // And within them; of a chunk that is seen whole what is met is.
    Expr own() const { return min(own_at(), own_rows() - 1); }
    Expr met(bool inside) const {
        return inside ? unsafe_promise_clamped(met_at(), 0, met_rows() - 1) : min(met_at(), met_rows() - 1);
    }
    Expr query(bool inside) const { return of_query() ? own() : met(inside); }
    Expr key(bool inside) const { return of_query() ? met(inside) : own(); }

    Expr channels_of(bool other) const { return other ? f.value_dim : f.head_dim; }
    // A lane's channels of one row: of query or key, or else of grad_out or value.
    Expr row_of(bool of_queries, bool other, const Expr &row, const Expr &head) const {
        const Func &from = of_queries ? (other ? in.grad_out : f.query) : (other ? f.value : f.key);
        return within_head(lanes, channel_of_lane(lanes, s.j, s.t), channels_of(other),
                           [&](Expr d) { return from(d, row, head, s.b); });
    }

    Index index(bool inside) const {
        const Expr i = query(inside);
        Index at{s.b, query_head(), i, key(inside), i + f.offset(s.b), key_head(), f.query_heads, f.queries, f.keys, {}};
        at.of_pair = [at](const Func &table) { return table(at.j, at.i, at.h, at.b); };
        return at;
    }

    // Some step does more than add to the score: then its slope is a factor.
    bool is_bent() const {
        if (of == GradientOf::value) return false;
        const Expr x = Internal::Variable::make(Float(32), "x");
        for (const ScoreStep &step : score.steps)
            if (step.score && !Internal::is_const_one(score_derivative(step.score, x, index(false)))) return true;
        return false;
    }

    Func product(const std::string &of_what, const Func &own, const Func &met, RVar &along) const {
        RDom element(0, lanes.lane_channels(), of_what + "_element");
        along = element.x;
        Func share(of_what);
        share(s.r, s.k, s.c, s.t, s.g, s.h, s.b) = 0.0f;
        share(s.r, s.k, s.c, s.t, s.g, s.h, s.b) +=
            own(element, s.r, s.t, s.h, s.b) * met(element, s.k, s.c, s.t, s.g, s.h, s.b);
        return share;
    }
    Expr summed(const Func &share) const {
        return does.sum([&](Expr lane) { return share(s.r, s.k, s.c, lane, s.g, s.h, s.b); }, s.t, lanes.channel_lanes);
    }

    void logit(LanePairs &p, const std::string &suffix, bool masked) const {
        const bool bent = is_bent();
        p.logit = Func("logit" + suffix);
        const Expr x = summed(p.part_score) * cast<float>(f.scale);
        if (bent)
            p.logit(s.r, s.k, s.c, s.t, s.g, s.h, s.b) = Tuple(1.0f, x);
        else
            p.logit(s.r, s.k, s.c, s.t, s.g, s.h, s.b) = x;
        for (const ScoreStep &step : score.steps) {
            if (!masked && step.may_mask) continue;
            RDom row(0, lanes.rows, "step" + std::to_string(p.step_rows.size()) + suffix);
            if (step.when.defined()) row.where(step.when);
            p.step_rows.push_back(row.x);
            Index at = index(!masked);
            const auto of_row = [&](const Expr &x) { return Internal::substitute(s.r.name(), row.x, x); };
            at.i = of_row(at.i), at.j = of_row(at.j), at.position = of_row(at.position);
            at.of_pair = [at](const Func &table) { return table(at.j, at.i, at.h, at.b); };
            FuncRef logit = p.logit(row.x, s.k, s.c, s.t, s.g, s.h, s.b);
            const Expr before = bent ? Expr(logit[1]) : Expr(logit);
            Expr after = before;
            if (step.score) after = precise(step.score(before, at));
            if (step.mask) after = select(step.mask(at), after, Expr(static_cast<float>(masked_score)));
            if (!bent) {
                logit = after;
                continue;
            }
            Expr slope = logit[0];
            if (step.score) slope *= precise(score_derivative(step.score, before, at));
            logit = Tuple(slope, after);  // in this order: values are stored one after the other, both of the old score
        }
    }

    void weight(LanePairs &p, const std::string &suffix, bool masked) const {
        const bool bent = p.logit.outputs() == 2;
        FuncRef of_pair = p.logit(s.r, s.k, s.c, s.t, s.g, s.h, s.b);
        const Expr logit = bent ? Expr(of_pair[1]) : Expr(of_pair), i = query(!masked);
        // Subtracted before it is multiplied: the difference is small where both are large.
        const Expr power = (logit - in.row_lse(i, query_head(), s.b)) * Expr(static_cast<float>(std::numbers::log2e));
        Expr counted = does.exp2(power);
        if (of != GradientOf::value) {
            counted *= summed(p.part_gradient) - in.row_delta(i, query_head(), s.b);
            if (bent) counted *= Expr(of_pair[0]);
        }
        if (masked) {
            const Expr at = query_at(), j = key_at();
            Expr kept = at < f.queries && j >= at + f.band_begin(s.b) && j < min(f.lengths(i, s.b), at + f.band_end(s.b));
            kept = kept && !strict_float(logit < static_cast<float>(lowest_max));
            counted = kept_or_marked(kept, counted);
        }
        p.weight = Func("weight" + suffix);
        p.weight(s.r, s.k, s.c, s.t, s.g, s.h, s.b) = counted;
    }

    LanePairs pairs(const std::string &kind, bool masked) const {
        const std::string suffix = name + kind;
        LanePairs p;
        p.met = Func("met" + suffix), p.met_other = Func("met_other" + suffix);
        const Expr head = of_query() ? key_head() : query_head();
        p.met(s.j, s.k, s.c, s.t, s.g, s.h, s.b) = row_of(!of_query(), false, met(!masked), head);
        p.met_other(s.j, s.k, s.c, s.t, s.g, s.h, s.b) = row_of(!of_query(), true, met(!masked), head);
        p.part_score = product("part_score" + suffix, s.own, p.met, p.channel);
        if (of != GradientOf::value)
            p.part_gradient = product("part_gradient" + suffix, s.own_other, p.met_other, p.other_channel);
        logit(p, suffix, masked);
        weight(p, suffix, masked);
        return p;
    }

    // Chunks of queries of which some sees some key of a group of lanes, and those whose queries see all of them.
    TileChunks chunks_of_queries() const {
        const Expr t = s.t, b = s.b, first = t / lanes.group * lanes.group_rows();
        const Expr end = min(first + lanes.group_rows(), f.keys), before = first - f.band_begin(b),
                   behind = end - f.band_end(b);
        auto in_chunks = [&](const Expr &begin, const Expr &end, bool whole) {
            const Expr from = max(0, begin), to = min(f.queries, end);
            return whole ? ChunkSpan{(from + chunk - 1) / chunk, to / chunk}
                         : ChunkSpan{from / chunk, (to + chunk - 1) / chunk};
        };
        // Query i sees keys from i + band_begin to i + band_end.
        const Expr seen_end = select(first < f.longest(t, b), end - f.band_begin(b), 0);
        const Expr whole_end = select(end <= f.shortest(t, b), before + 1, 0);
        return {in_chunks(first - f.band_end(b) + 1, seen_end, false), in_chunks(behind, whole_end, true),
                pairs_may_be_masked(score)};
    }
    void take(RDom &at, const Expr &chunk_at, bool masked) const {
        const SeenChunks which = masked ? SeenChunks::part : SeenChunks::whole;
        if (!of_query()) return take_chunks(at, chunk_at, chunks_of_queries(), which);
        const SdpaShape shape{Float(32), chunk, chunk, lanes.rows, false};
        const int rows = lanes.group_rows();
        const Builder build{f, shape, score, {}, [&](Expr t) {
                                Expr first = t / lanes.group * rows;
                                return std::pair(first, min(first + rows, f.queries) - 1);
                            }};
        take_chunks(at, chunk_at, build, which);
    }

    void walk(LanePairs &p, bool masked) {
        const Expr chunks = (met_rows() + chunk - 1) / chunk;
        std::vector<Range> loops = {{0, chunk}, {0, chunks}};
        // The heads that share a key head, one after the other.
        if (!of_query()) loops.emplace_back(0, group());
        RDom at(loops, "running" + name + (masked ? "_part" : ""));
        take(at, at[1], masked);
        p.running_key = at[0], p.running_chunk = at[1];
        if (!of_query()) p.running_head = at[2], p.has_heads = true;
        const Expr g = of_query() ? Expr(0) : Expr(at[2]), counted = p.weight(s.r, at[0], at[1], s.t, g, s.h, s.b);
        Expr row = (of == GradientOf::value ? p.met_other : p.met)(s.j, at[0], at[1], s.t, g, s.h, s.b);
        // A masked row may hold NaN: it is replaced, not multiplied by 0.
        if (masked) row = select(counts(counted), row, 0.0f);
        s.running(s.j, s.r, s.t, s.h, s.b) += counted * row;
    }

    void run(int tile_rows, const std::function<Expr(Expr)> &stored) {
        s.own = Func("own" + name), s.own_other = Func("own_other" + name);
        s.own(s.j, s.r, s.t, s.h, s.b) = row_of(of_query(), false, own(), s.h);
        s.own_other(s.j, s.r, s.t, s.h, s.b) = row_of(of_query(), true, own(), s.h);
        s.full = pairs("", false), s.part = pairs("_part", true);
        s.running = Func("running" + name);
        s.running(s.j, s.r, s.t, s.h, s.b) = 0.0f;
        walk(s.full, false);
        walk(s.part, true);

        const Expr rows = own_rows(), row_lanes = (rows + tile_rows - 1) / tile_rows * (tile_rows / lanes.rows);
        const Expr channels = channels_of(of == GradientOf::value);
        RDom at(0, lanes.lane_channels(), 0, lanes.rows, 0, lanes.channel_lanes, 0, row_lanes, "out" + name);
        s.element = at.x, s.row = at.y, s.share = at.z, s.row_lane = at.w;
        const Expr lane = at.w * lanes.channel_lanes + at.z, row = at.w * lanes.rows + at.y;
        const Expr channel = channel_of_lane(lanes, at.x, lane);
        at.where(unsolved(channel < channels && row < rows));
        Expr total = s.running(at.x, at.y, lane, s.h, s.b);
        if (of != GradientOf::value) total *= cast<float>(f.scale);
        s.out = Func("gradient" + name);
        Var row_out("row");
        const Expr result = stored(total);
        s.out(s.d, row_out, s.h, s.b) = undef(result.type());
        s.out(min(channel, channels - 1), min(row, rows - 1), s.h, s.b) = result;
    }
};

}  // namespace

LaneGradient lane_gradient(GradientOf of, const LaneGradientInputs &in, const LaneShape &lanes, int chunk, int tile_rows,
                           const Score &score, const LaneInstructions &does, const std::function<Expr(Expr)> &stored) {
    GradientBuilder build{of, in, lanes, chunk, score, does};
    build.run(tile_rows, stored);
    return build.s;
}

}  // namespace attune
