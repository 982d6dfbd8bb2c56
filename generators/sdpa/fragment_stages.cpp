#include "generators/sdpa/fragment_stages.h"
#include "generators/math/bits.h"
#include "generators/sdpa/running_chunks.h"

namespace attune {
using namespace Halide;

namespace {

Expr word_of(const Expr &low, const Expr &high) { return concat_bits({low, high}); }

// Of 32 columns of scores or weighted values a lane is left with 8 that follow on each other: the n-th group of 8 columns is
// dealt out to that end. Column 2 * (l % 4) of group n is element 2 * n of lane l.
Expr column(const Expr &n, const Expr &of_group) { return n / 4 * 32 + of_group / 2 * 8 + n % 4 * 2 + of_group % 2; }
Expr element_of_lane(const Expr &j, const Expr &l) { return j / 8 * 32 + l % lanes_of_row * 8 + j % 8; }
// The terms of a sum are taken in an order in which the words that a lane needs follow on each other, four of them in 32 terms.
Expr word_in_sum(const Expr &word, const Expr &l, const Expr &m) { return word + l % lanes_of_row * 4 + m * 16; }

struct FragmentBuilder {
    const HalfInputs &halves;
    const FragmentShape &shape;
    const FragmentInstructions &does;
    Builder &build;
    FragmentStages &stages;

    Expr column_of_lane(const Expr &l) const { return l % lanes_of_warp / lanes_of_row; }
    Expr over_row(Expr x, const std::function<Expr(Expr, Expr)> &combine) const {
        for (int bits = 1; bits < lanes_of_row; bits *= 2) x = combine(x, does.exchange(x, bits));
        return x;
    }

    void query() {
        const SdpaStages &s = build.s;
        Var e = stages.e, l = stages.l, m = stages.m, t = s.t, h = s.h, b = s.b;
        const Rows row = build.rows(l * 2 + e % 2, t, h);
        const Expr d = word_in_sum(m % 2 * 2 + e / 2, l, m / 2) * 2;
        auto read = [&](const Expr &d) { return halves.query(d, row.query, row.query_head, b); };
        stages.query_words = Func("query_words");
        stages.query_words(e, l, m, t, h, b) = word_of(read(d), read(d + 1));
    }

    // Keys and values of a chunk, for all lanes of a block.
    void stage(FragmentPartials &f, const std::string &suffix, bool masked) const {
        const SdpaStages &s = build.s;
        Var w = stages.w, k = s.k, d = s.d, c = s.c, t = s.t, h = s.h, b = s.b;
        const Expr head = build.rows(0, t, h).key_head, last = build.in.keys - 1;
        auto key_of = [&](const Expr &k) {
            const Expr j = c * shape.chunk + k;
            return masked ? min(j, last) : unsafe_promise_clamped(j, 0, last);
        };
        f.key_pairs = Func("key_pairs" + suffix);
        auto key = [&](const Expr &d) { return halves.key(d, key_of(k), head, b); };
        f.key_pairs(w, k, c, t, h, b) = word_of(key(w * 2), key(w * 2 + 1));
        f.value_pairs = Func("value_pairs" + suffix);
        // What lies outside the tile's keys may be no number: it is left out here, once for all rows.
        auto value = [&](const Expr &k) {
            const Expr v = halves.value(d, key_of(k), head, b);
            return masked ? select(within_tile(c * shape.chunk + k, build), v, cast<uint16_t>(0)) : v;
        };
        f.value_pairs(w, d, c, t, h, b) = word_of(value(w * 2), value(w * 2 + 1));

        Var e = stages.e, l = stages.l, n = stages.n, m = stages.m;
        const Expr at = column(n, column_of_lane(l));
        f.key_words = Func("key_words" + suffix), f.value_words = Func("value_words" + suffix);
        f.key_words(e, l, n, m, c, t, h, b) = f.key_pairs(word_in_sum(e, l, m), at, c, t, h, b);
        f.value_words(e, l, n, m, c, t, h, b) = f.value_pairs(word_in_sum(e, l, m), at, c, t, h, b);
    }

    void scores(FragmentPartials &f, const std::string &suffix, bool masked) const {
        const SdpaStages &s = build.s;
        Var e = stages.e, l = stages.l, n = stages.n, r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
        RDom step(0, shape.channels / 16, "channels" + suffix);
        f.channel = step.x;
        f.product = Func("product" + suffix);
        f.product(e, l, n, c, t, h, b) = 0.0f;
        f.product(e, l, n, c, t, h, b) =
            does.multiply(stages.query_words(e, l, step, t, h, b),
                          f.key_words(step % 2 * 2 + e % 2, l, n, step / 2, c, t, h, b), f.product(e, l, n, c, t, h, b));
        f.p.score = Func("score" + suffix);
        f.p.score(r, k, c, t, h, b) = f.product(r % 2 * 2 + k % 2, r / 2, k / 2, c, t, h, b);
        f.p.logit = Func("logit" + suffix);
        build.finish_scores(f.p, suffix, masked);
    }

    void weights(FragmentPartials &f, const std::string &suffix, bool masked) const {
        const SdpaStages &s = build.s;
        Var e = stages.e, l = stages.l, n = stages.n, m = stages.m, r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
        RDom max_key(0, shape.lane_keys(), "max_keys" + suffix), sum_key(0, shape.lane_keys(), "sum_keys" + suffix);
        f.max_key = max_key.x, f.sum_key = sum_key.x;
        f.lane_max = Func("lane_max" + suffix), f.row_max = Func("row_max" + suffix);
        f.lane_max(r, c, t, h, b) = build.value_of(lowest_max);
        f.lane_max(r, c, t, h, b) = does.max(f.lane_max(r, c, t, h, b), f.p.logit(r, max_key, c, t, h, b));
        f.row_max(r, c, t, h, b) = over_row(f.lane_max(r, c, t, h, b), does.max);

        const Expr logit = f.p.logit(r, k, c, t, h, b);
        Expr weight = does.exp2(build.base2(logit - f.row_max(r, c, t, h, b)));
        if (masked) weight = select(build.is_masked(logit), 0.0f, weight);
        f.weight = Func("weight" + suffix);
        f.weight(r, k, c, t, h, b) = weight;
        // Of the weights as they were before they were rounded: lse is more accurate than those.
        f.lane_sum = Func("lane_sum" + suffix);
        f.lane_sum(r, c, t, h, b) = 0.0f;
        f.lane_sum(r, c, t, h, b) += f.weight(r, sum_key, c, t, h, b);

        auto rounded = [&](int n) { return f.weight(l * 2 + e % 2, m * 4 + e / 2 * 2 + n, c, t, h, b); };
        f.weight_words = Func("weight_words" + suffix);
        f.weight_words(e, l, m, c, t, h, b) = does.pair(rounded(0), rounded(1));
        RDom step(0, shape.chunk / 16, "keys" + suffix);
        f.key = step.x;
        f.mixed = Func("mixed" + suffix);
        f.mixed(e, l, n, c, t, h, b) = 0.0f;
        f.mixed(e, l, n, c, t, h, b) =
            does.multiply(f.weight_words(e, l, step, c, t, h, b),
                          f.value_words(step % 2 * 2 + e % 2, l, n, step / 2, c, t, h, b), f.mixed(e, l, n, c, t, h, b));
    }

    // The running softmax takes up a chunk.
    void take_up(FragmentPartials &f, const std::string &suffix, bool masked) const {
        Var r = build.s.r, t = build.s.t, h = build.s.h, b = build.s.b;
        const int channels = shape.lane_channels();
        RDom at(0, (build.in.keys + shape.chunk - 1) / shape.chunk, "running" + suffix);
        f.running_chunk = at.x;
        const Expr chunk = at.x;
        take_chunks(at, chunk, build, masked ? SeenChunks::part : SeenChunks::whole);
        FuncRef before = stages.running(r, t, h, b);
        const Expr old_max = before[channels + 1], chunk_max = f.row_max(r, chunk, t, h, b);
        const Expr new_max = does.max(old_max, chunk_max);
        const Expr rescale = does.exp2(build.base2(old_max - new_max)), scale = does.exp2(build.base2(chunk_max - new_max));
        std::vector<Expr> after;
        for (int j = 0; j < channels; j++)
            after.push_back(before[j] * rescale + f.mixed(r % 2 * 2 + j % 2, r / 2, j / 2, chunk, t, h, b) * scale);
        after.push_back(before[channels] * rescale + f.lane_sum(r, chunk, t, h, b) * scale);
        after.push_back(new_max);
        stages.running(r, t, h, b) = Tuple(after);
    }

    void run() {
        Var r = build.s.r, t = build.s.t, h = build.s.h, b = build.s.b;
        stages.running = Func("running");
        std::vector<Expr> start(static_cast<std::size_t>(shape.lane_channels()), 0.0f);
        // A sink is one more score, which has no value; the first lane of a row has it in its sum.
        const Expr lowest = build.value_of(lowest_max);
        const Expr sink = build.in.sinks.defined() ? build.sink(build.rows(r, t, h).query_head) : lowest;
        start.push_back(select(sink > lowest && r / 2 % lanes_of_row == 0, 1.0f, 0.0f));
        start.push_back(sink);
        stages.running(r, t, h, b) = Tuple(start);
        for (auto [f, masked] : {std::pair(&stages.full, false), std::pair(&stages.part, true)}) {
            const std::string suffix = masked ? "_part" : "";
            stage(*f, suffix, masked);
            scores(*f, suffix, masked);
            weights(*f, suffix, masked);
            take_up(*f, suffix, masked);
        }
    }

    // A product of matrices multiplies by 0 where a key is masked for a row, and an infinite value, or one that is no number,
    // makes a NaN of that. So a row whose sum of weights is a number, but not what they weigh, is computed once more, key by
    // key: masked values are replaced there, as everywhere else.
    void settle(Builder &by_key) {
        const SdpaStages &s = build.s;
        const SdpaInputs &in = build.in;
        Var r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
        const Rows row = by_key.rows(r, t, h);
        SdpaPartials &p = stages.of_key;
        RDom channel(0, shape.channels, "channel_of_key");
        p.score = Func("score_of_key");
        p.channel = channel.x;
        p.score(r, k, c, t, h, b) = 0.0f;
        p.score(r, k, c, t, h, b) += weighted_term(build.score.pair, in.query(channel, row.query, row.query_head, b),
                                                   in.key(channel, by_key.key_at(k, false), row.key_head, b), channel);
        p.logit = Func("logit_of_key");
        by_key.finish_scores(p, "_of_key", true);

        const int channels = shape.lane_channels();
        FuncRef total = stages.running(r, t, h, b);
        auto not_a_number = [](const Expr &x) { return (bits_of(x) & 0x7fffffff) > 0x7f800000; };
        Expr spoilt = Internal::const_false();
        for (int j = 0; j < channels; j++) spoilt = spoilt || not_a_number(total[j]);
        stages.spoilt = Func("spoilt");
        stages.spoilt(r, t, h, b) = select(spoilt && !not_a_number(stages.sum(r, t, h, b)), in.keys, 0);
        const Expr is_spoilt = stages.spoilt(r, t, h, b) > 0;
        std::vector<Expr> start, after;
        for (int j = 0; j < channels; j++) start.push_back(select(is_spoilt, 0.0f, total[j]));
        stages.settled = Func("settled");
        stages.settled(r, t, h, b) = Tuple(start);
        // In stretches of keys, because a lane asks for each of them whether it takes part.
        constexpr int stretch = 1024;
        Var u("u");
        RDom at(0, stretch, "key_again"), stretches(0, (in.keys + stretch - 1) / stretch, "stretch");
        stages.key_again = at.x, stages.stretch = stretches.x;
        const Expr key = u * stretch + at.x;
        take_chunks(at, key, by_key, SeenChunks::all);
        const Expr logit = p.logit(r, 0, key, t, h, b), masked = build.is_masked(logit);
        const Expr weight = does.exp2(build.base2(logit - total[channels + 1]));
        stages.again = Func("again");
        stages.again(r, u, t, h, b) = Tuple(std::vector<Expr>(static_cast<std::size_t>(channels), 0.0f));
        stretches.where(stages.spoilt(r, t, h, b) > stretches.x * stretch);
        std::vector<Expr> sums;
        for (int j = 0; j < channels; j++) {
            const Expr value = in.value(element_of_lane(j, r / 2), min(key, in.keys - 1), row.key_head, b);
            after.push_back(stages.again(r, u, t, h, b)[j] + select(masked, 0.0f, weight) * select(masked, 0.0f, value));
            sums.push_back(stages.settled(r, t, h, b)[j] + stages.again(r, stretches, t, h, b)[j]);
        }
        stages.again(r, u, t, h, b) = Tuple(after);
        stages.settled(r, t, h, b) = Tuple(sums);
    }

    void finish(Builder &by_key, const std::function<Expr(Expr)> &stored) {
        SdpaStages &s = build.s;
        const SdpaInputs &in = build.in;
        Var r = s.r, t = s.t, h = s.h, b = s.b, d = s.d, i = s.i;
        const int channels = shape.lane_channels();
        stages.sum = Func("row_sum");
        stages.sum(r, t, h, b) =
            over_row(Expr(stages.running(r, t, h, b)[channels]), [](const Expr &x, const Expr &y) { return x + y; });
        stages.lse = Func("lse");
        stages.lse(r, t, h, b) = running_lse(build, stages.running(r, t, h, b)[channels + 1], stages.sum(r, t, h, b));
        settle(by_key);

        RDom at(0, channels, 0, shape.slots(), 0, (in.queries + shape.rows - 1) / shape.rows, "out");
        stages.element = at.x, stages.slot = at.y, stages.tile = at.z;
        const Expr query = unclamped_query(shape, at.y, at.z);
        at.where(unsolved(query < in.queries));
        FuncRef own = stages.settled(at.y, at.z, h, b);
        std::vector<Expr> mixed;
        for (int n = 0; n < channels; n++) mixed.push_back(own[n]);
        const Expr sum = stages.sum(at.y, at.z, h, b);
        const Expr result = stored(select(is_empty_sum(sum), 0.0f, mux(at.x, mixed) * does.reciprocal(sum)));
        s.out = Func("out_stage");
        s.out(d, i, h, b) = Tuple(undef(result.type()), undef<float>());
        s.out(element_of_lane(at.x, at.y / 2), min(query, in.queries - 1), h, b) = Tuple(result, stages.lse(at.y, at.z, h, b));
    }

    static Expr unclamped_query(const FragmentShape &shape, const Expr &r, const Expr &t) {
        const Expr l = r / 2;
        return t * shape.rows + l / lanes_of_warp * rows_of_warp + l % lanes_of_warp / lanes_of_row + r % 2 * 8;
    }
};

}  // namespace

FragmentStages fragment_stages(const SdpaInputs &in, const HalfInputs &halves, const FragmentShape &fragment,
                               const Score &score, const FragmentInstructions &does, const std::function<Expr(Expr)> &stored) {
    FragmentStages stages;
    const SdpaShape shape{Float(32), fragment.chunk, fragment.chunk, fragment.rows, false};
    const Expr group = in.query_heads / in.key_heads, queries = in.queries;
    const auto rows = [=](Expr r, Expr t, Expr h) {
        return Rows{min(FragmentBuilder::unclamped_query(fragment, r, t), queries - 1), h, h / group};
    };
    const auto queries_of = [=](Expr t) {
        const Expr first = t * fragment.rows;
        return std::pair(first, min(first + fragment.rows, queries) - 1);
    };
    Builder build{in, shape, score, rows, queries_of};
    build.share = {fragment.lane_keys(), [](Expr k, Expr r) { return element_of_lane(k, r / 2); }};
    FragmentBuilder fragments{halves, fragment, does, build, stages};
    build.prepare();
    build.intervals();
    fragments.query();
    fragments.run();
    // The same rows, with chunks of one key.
    const SdpaShape shape_of_key{Float(32), 1, 1, fragment.rows, false};
    Builder by_key{in, shape_of_key, score, rows, queries_of, build.s};
    fragments.finish(by_key, stored);
    stages.s = build.s;
    return stages;
}

}  // namespace attune
