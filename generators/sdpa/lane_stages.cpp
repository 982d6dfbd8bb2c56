#include "generators/sdpa/lane_stages.h"
#include "generators/math/bits.h"
#include "generators/sdpa/builder.h"

namespace attune {
using namespace Halide;

namespace {

// Calls of Funcs as what they are defined as: Halide asks a condition that calls none once for a chunk, not for each of its
// keys and rows.
class WithoutCalls : public Internal::IRMutator {
    using IRMutator::visit;
    Expr visit(const Internal::Call *op) override {
        if (op->call_type != Internal::Call::Halide) return IRMutator::visit(op);
        const Internal::Function f(op->func);
        std::map<std::string, Expr> args;
        for (std::size_t n = 0; n < op->args.size(); n++) args[f.args()[n]] = mutate(op->args[n]);
        return mutate(Internal::substitute(args, f.values()[static_cast<std::size_t>(op->value_index)]));
    }
};
// Kept from Halide's solver: by a lower end it narrows the bounds of a stage to what it cannot show to be one chunk.
Expr unsolved(const Expr &condition) { return (cast<int32_t>(condition) & 1) != 0; }
Expr without_calls(const Expr &e) { return WithoutCalls().mutate(e); }

struct ChunkSpan {
    Expr begin, end;
};

struct LaneBuilder {
    const LaneShape &lanes;
    const LaneInstructions &does;
    Builder &build;
    LaneStages &stages;

    // Channel of element j of lane t.
    Expr channel(Expr j, Expr t) const { return t % lanes.channel_lanes * lanes.lane_channels() + j; }
    // A channel beyond the last counts as 0: heads may be smaller than what lanes hold.
    Expr within(Expr channel, Expr channels, const std::function<Expr(Expr)> &read) const {
        const auto known = as_const_int(channels);
        if (known && *known == lanes.channels) return read(channel);
        return select(channel < channels, read(min(channel, channels - 1)), 0.0f);
    }

    // Chunks of which a group's rows see some key, and those that all rows see whole by their intervals. As bounds of the
    // chunk's number, unlike Builder::seen(), so that Halide trims the loop at its end. A group behind the last query sees none.
    ChunkSpan seen_chunks() const {
        auto [first, last] = build.queries_of(build.s.t);
        const int chunk = build.shape.chunk;
        const Expr b = build.s.b, begin = max(0, first + build.in.band_begin(b));
        const Expr end = min(build.in.longest(build.s.t, b), last + build.in.band_end(b));
        return {begin / chunk, select(first < build.in.queries, (end + chunk - 1) / chunk, 0)};
    }
    ChunkSpan whole_chunks() const {
        auto [first, last] = build.queries_of(build.s.t);
        const int chunk = build.shape.chunk;
        const Expr b = build.s.b, begin = max(0, last + build.in.band_begin(b));
        return {(begin + chunk - 1) / chunk, min(build.in.shortest(build.s.t, b), first + build.in.band_end(b)) / chunk};
    }
    // By a step of the score.
    Expr pairs_may_be_masked() const {
        Expr any = Internal::const_false();
        for (const ScoreStep &step : build.score.steps)
            if (step.may_mask) any = any || (step.when.defined() ? step.when : Internal::const_true());
        return any;
    }

    void query() {
        Var j = stages.j, r = build.s.r, t = build.s.t, h = build.s.h, b = build.s.b;
        const Rows row = build.rows(r, t, h);
        stages.query = Func("lane_query");
        stages.query(j, r, t, h, b) =
            within(channel(j, t), build.in.head_dim, [&](Expr d) { return build.in.query(d, row.query, row.query_head, b); });
    }

    LanePartials partials(const std::string &suffix, bool masked) {
        const SdpaInputs &in = build.in;
        const SdpaStages &s = build.s;
        Var j = stages.j, r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
        LanePartials l;
        SdpaPartials &p = l.p;
        Expr key_head = build.rows(r, t, h).key_head, key = build.key_at(k, !masked);
        l.key = Func("lane_key" + suffix), l.value = Func("lane_value" + suffix);
        l.key(j, k, c, t, h, b) = within(channel(j, t), in.head_dim, [&](Expr d) { return in.key(d, key, key_head, b); });
        l.value(j, k, c, t, h, b) = within(channel(j, t), in.value_dim, [&](Expr d) { return in.value(d, key, key_head, b); });

        RDom element(0, lanes.lane_channels(), "element" + suffix);
        l.channel = element.x;
        l.part_score = Func("part_score" + suffix);
        l.part_score(r, k, c, t, h, b) = 0.0f;
        l.part_score(r, k, c, t, h, b) += weighted_term(build.score.pair, stages.query(element, r, t, h, b),
                                                        l.key(element, k, c, t, h, b), channel(element, t));
        p.score = Func("score" + suffix);
        p.score(r, k, c, t, h, b) =
            does.sum([&](Expr lane) { return l.part_score(r, k, c, lane, h, b); }, t, lanes.channel_lanes);
        p.logit = Func("logit" + suffix);
        build.finish_scores(p, suffix, masked);
        build.row_max(p, suffix, masked);
        return l;
    }

    // The running softmax takes up a key of a chunk; the first of them moves its maximum.
    void take_up(LanePartials &l, const std::string &suffix, bool masked) {
        const SdpaStages &s = build.s;
        Var r = s.r, t = s.t, h = s.h, b = s.b;
        const int channels = lanes.lane_channels();
        RDom at(0, build.shape.chunk, 0, (build.in.keys + build.shape.chunk - 1) / build.shape.chunk, "running" + suffix);
        const ChunkSpan seen = seen_chunks(), whole = whole_chunks();
        const Expr chunk = at.y, not_whole = chunk < whole.begin || chunk >= whole.end || pairs_may_be_masked();
        at.where(without_calls(chunk < (masked ? seen.end : min(seen.end, whole.end))));
        at.where(without_calls(unsolved(chunk >= seen.begin)));
        at.where(without_calls(unsolved(masked ? not_whole : chunk >= whole.begin && !pairs_may_be_masked())));
        l.running_key = at.x, l.running_chunk = at.y;
        FuncRef before = stages.running(r, t, h, b);
        const Expr old_sum = before[channels], old_max = before[channels + 1], first = at.x == 0;
        const Expr new_max = select(first, does.max(old_max, l.p.row_max(r, chunk, t, h, b)), old_max);
        const Expr rescale = select(first, does.exp2(build.base2(old_max - new_max)), 1.0f);
        const Expr logit = l.p.logit(r, at.x, chunk, t, h, b);
        Expr weight = does.exp2(build.base2(logit - new_max));
        if (masked) weight = select(build.is_masked(logit), 0.0f, weight);
        std::vector<Expr> after;
        for (int j = 0; j < channels; j++) {
            Expr value = l.value(j, at.x, chunk, t, h, b);
            // A masked value may be NaN: it is replaced, not multiplied by 0.
            if (masked) value = select(build.is_masked(logit), 0.0f, value);
            after.push_back(before[j] * rescale + weight * value);
        }
        after.push_back(old_sum * rescale + weight);
        after.push_back(new_max);
        stages.running(r, t, h, b) = Tuple(after);
    }

    void run() {
        const SdpaInputs &in = build.in;
        Var r = build.s.r, t = build.s.t, h = build.s.h, b = build.s.b;
        stages.running = Func("running");
        std::vector<Expr> start(lanes.lane_channels(), 0.0f);
        // A sink is one more score, which has no value.
        const Expr lowest = build.value_of(lowest_max);
        const Expr sink = in.sinks.defined() ? build.sink(build.rows(r, t, h).query_head) : lowest;
        start.push_back(select(sink > lowest, 1.0f, 0.0f));
        start.push_back(sink);
        stages.running(r, t, h, b) = Tuple(start);
        take_up(stages.full, "", false);
        take_up(stages.part, "_part", true);
    }

    void finish(int tile_q, const std::function<Expr(Expr)> &stored) {
        SdpaStages &s = build.s;
        const SdpaInputs &in = build.in;
        Var r = s.r, t = s.t, h = s.h, b = s.b, d = s.d, i = s.i;
        const int channels = lanes.lane_channels();
        FuncRef total = stages.running(r, t, h, b);
        stages.lse = Func("lse");
        // A row that sees no key has sum 0; -inf as a bit pattern, because arithmetic on it would be undefined.
        auto empty = [](const Expr &sum) { return strict_float(sum == 0.0f); };
        const Expr sum = total[channels], sum_bits = bits_of(sum);
        Expr lse = bits_of(build.natural(total[channels + 1]) + log(sum));
        // log() of a NaN may be a number; a NaN is told by its bits, because code generation may take it that there are none.
        lse = select((sum_bits & 0x7fffffff) > 0x7f800000, sum_bits, lse);
        stages.lse(r, t, h, b) = reinterpret(Float(32), select(empty(sum), minus_infinity_bits(Float(32)), lse));

        RDom at(0, channels, 0, lanes.rows, 0, lanes.channel_lanes, 0,
                (in.queries + tile_q - 1) / tile_q * (tile_q / lanes.rows), "out");
        stages.element = at.x, stages.row = at.y, stages.share = at.z, stages.row_lane = at.w;
        const Expr lane = at.w * lanes.channel_lanes + at.z, query = at.w * lanes.rows + at.y, element = channel(at.x, lane);
        at.where(unsolved(element < in.value_dim && query < in.queries));
        FuncRef own = stages.running(at.y, lane, h, b);
        std::vector<Expr> mixed;
        for (int n = 0; n < channels; n++) mixed.push_back(own[n]);
        const Expr value = select(empty(own[channels]), 0.0f, mux(at.x, mixed) * does.reciprocal(own[channels]));
        s.out = Func("out_stage");
        const Expr result = stored(value);
        s.out(d, i, h, b) = Tuple(undef(result.type()), undef<float>());
        s.out(min(element, in.value_dim - 1), min(query, in.queries - 1), h, b) = Tuple(result, stages.lse(at.y, lane, h, b));
    }
};

}  // namespace

LaneStages lane_stages(const SdpaInputs &in, const LaneShape &lanes, int chunk, int tile_q, const Score &score,
                       const LaneInstructions &does, const std::function<Expr(Expr)> &stored) {
    LaneStages stages;
    // One block of keys: a chunk is what is computed or left out. Steps that read tables read them as they lie.
    const SdpaShape shape{Float(32), chunk, chunk, lanes.rows, false};
    const Expr group = in.query_heads / in.key_heads, queries = in.queries;
    const int group_rows = lanes.group_rows();
    Builder build{in, shape, score,
                  [=](Expr r, Expr t, Expr h) {
                      return Rows{min(t / lanes.channel_lanes * lanes.rows + r, queries - 1), h, h / group};
                  },
                  [=](Expr t) {
                      Expr first = t / lanes.group * group_rows;
                      return std::pair(first, min(first + group_rows, queries) - 1);
                  }};
    LaneBuilder lane{lanes, does, build, stages};
    build.prepare();
    build.intervals();
    lane.query();
    stages.full = lane.partials("", false);
    stages.part = lane.partials("_part", true);
    lane.run();
    lane.finish(tile_q, stored);
    stages.s = build.s;
    return stages;
}

}  // namespace attune
