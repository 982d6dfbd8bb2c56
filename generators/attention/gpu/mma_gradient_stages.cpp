// SPDX-License-Identifier: MIT
#include "generators/attention/gpu/mma_gradient_stages.h"
#include "generators/math/bits.h"

namespace attune {
using namespace Halide;

namespace {

struct FragmentGradientBuilder {
    const GradientInputs &in;
    const RawGradientInputs &raw;
    const FragmentShape &shape;
    const FragmentInstructions &does;
    const GradientPairs &pairs, &pairs_again;
    FragmentGradient s = {};
    const FragmentVars &v = s.v;

    bool of_value() const { return pairs.of == GradientOf::value; }
    // Of query or key, or else of grad_out or value.
    const RawInput &raw_of(bool of_queries, bool other) const {
        return of_queries ? (other ? raw.grad_out : raw.query) : (other ? raw.value : raw.key);
    }
    const Func &full_precision(bool of_queries, bool other) const {
        const SdpaInputs &f = in.forward;
        return of_queries ? (other ? in.grad_out : f.query) : (other ? f.value : f.key);
    }

    OwnWords own(const std::string &name, bool other) const {
        return own_words(name + pairs.name(), shape, v, does, raw_of(pairs.of_query(), other),
                         [&](const Expr &slot) -> RowOfInput {
                             return {min(row_of_slot(shape, slot, v.t), pairs.own_rows() - 1), v.h};
                         });
    }

    // What the query of a pair has. Of rows that are met, a lane's of a chunk are a stage, which can be loaded ahead.
    Expr total_of_row(FragmentPairs &p, const Func &total, const std::string &name, bool masked) const {
        if (pairs.of_query()) return pairs.of_row(total, masked);
        GradientPairs of_lane = pairs;
        of_lane.met_at = v.c * shape.chunk + v.u * terms_together + element_of_lane(v.k, v.l);
        Func met("met_" + name);
        met(v.k, v.l, v.u, v.c, v.t, v.g, v.h, v.b) = of_lane.of_row(total, masked);
        p.met_totals.push_back(met);
        return met(v.k, v.r / shape.lane_rows, v.u, v.c, v.t, v.g, v.h, v.b);
    }

    FragmentPairs pairs_of(const std::string &kind, bool masked) const {
        const std::string suffix = pairs.name() + kind;
        const std::vector<Var> of = {v.c, v.t, v.g, v.h, v.b};
        FragmentPairs p;
        const Expr last = pairs.met_rows() - 1, j = v.c * shape.chunk + v.k;
        const Expr row = masked ? min(j, last) : unsafe_promise_clamped(j, 0, last);
        // What lies outside of the rows that the tile sees may be no number: it is left out here, once for all rows.
        const Span seen = pairs.seen_rows();
        const Expr given = masked ? select(j >= seen.begin && j < seen.end, bytes_together, 0) : Expr(bytes_together);
        auto address = [&](bool other) {
            return raw_of(!pairs.of_query(), other).address(v.w * shape.in_word, row, pairs.met_head(), v.b);
        };
        p.rows = Func("rows" + suffix);
        p.rows(v.w, v.k, v.side, v.c, v.t, v.g, v.h, v.b) =
            does.copied(select(v.side == 0, address(false), address(true)), given);
        p.met_words = chunk_words("met_words" + suffix, shape, v, does, p.rows, 0, false, of);
        p.summed_words = chunk_words("summed_words" + suffix, shape, v, does, p.rows, of_value(), true, of);
        p.product = product_of("product" + suffix, shape, v, does, s.own, p.met_words, of);
        const Expr k = v.u * (terms_together / lanes_of_row) + v.k;
        Expr gradient;
        if (!of_value()) {
            p.met_other_words = chunk_words("met_other_words" + suffix, shape, v, does, p.rows, 1, false, of);
            p.product_gradient = product_of("product_gradient" + suffix, shape, v, does, s.own_other, p.met_other_words, of);
            gradient = element_of_product(p.product_gradient.sum, shape, v.r, k, of);
        }
        p.of_pair = pairs.weights(
            element_of_product(p.product.sum, shape, v.r, k, of), gradient, total_of_row(p, in.row_lse, "lse" + suffix, masked),
            of_value() ? Expr() : total_of_row(p, in.row_delta, "delta" + suffix, masked), suffix, masked);
        auto weight = [&](const Expr &k) {
            return p.of_pair.weight(v.l * shape.lane_rows + v.p * 2 + v.e % 2, k, v.u, v.c, v.t, v.g, v.h, v.b);
        };
        p.weight_words = Func("weight_words" + suffix);
        std::vector<Expr> word;
        for (int n = 0; n < shape.in_word; n++) word.push_back(weight((v.m * 2 + v.e / 2) * shape.in_word + n));
        p.weight_words(v.e, v.l, v.p, v.m, v.u, v.c, v.t, v.g, v.h, v.b) = does.word(word);
        return p;
    }

    void take_up(FragmentPairs &p, const std::string &kind, bool masked) {
        std::vector<Range> loops = {{0, shape.chunk / terms_together}, {0, (pairs.met_rows() + shape.chunk - 1) / shape.chunk}};
        // The heads that share a key head, one after the other.
        p.has_heads = !pairs.of_query();
        if (p.has_heads) loops.emplace_back(0, pairs.group());
        RDom at(loops, "running" + pairs.name() + kind);
        pairs.take(at, at[1], masked ? SeenChunks::part : SeenChunks::whole);
        p.running_rows = at[0], p.running_chunk = at[1];
        if (p.has_heads) p.running_head = at[2];
        const Expr step = at[0], chunk = at[1], g = p.has_heads ? Expr(at[2]) : Expr(0);
        FuncRef total = s.running(v.e, v.l, v.p, v.n, v.t, v.h, v.b);
        const auto weights = [&](int j) { return p.weight_words(v.e, v.l, v.p, j, step, chunk, v.t, g, v.h, v.b); };
        const auto summed = [&](int j) {
            return p.summed_words(v.n % 2 * 2 + v.e % 2, v.l, v.n / 2, step * shape.together() + j, chunk, v.t, g, v.h, v.b);
        };
        total = does.multiply(of_each_product(shape, weights), of_each_product(shape, summed), total);
    }

    // Nor need what is rounded to 16 bits be finite where its sum is: such a row is computed once more in f32, too.
    static Expr is_finite(const Expr &x) { return (bits_of(x) & 0x7fffffff) < 0x7f800000; }

    void settle_rows() {
        const Expr row = unfollowed(does, pairs_again.own(), pairs.own_rows());
        const Expr met = pairs_again.met(false), head = pairs_again.met_head();
        auto product = [&](const std::string &name, bool other) {
            RDom channel(0, shape.channels, name + "_channel");
            Func sum(name + pairs.name());
            sum(v.r, v.k, v.c, v.t, v.g, v.h, v.b) = 0.0f;
            sum(v.r, v.k, v.c, v.t, v.g, v.h, v.b) += full_precision(pairs.of_query(), other)(channel, row, v.h, v.b) *
                                                      full_precision(!pairs.of_query(), other)(channel, met, head, v.b);
            return sum;
        };
        auto of_pair = [&](const Func &f) { return f(v.r, v.k, v.c, v.t, v.g, v.h, v.b); };
        s.product_again = product("product_again", false);
        Expr gradient;
        if (!of_value()) {
            s.product_gradient_again = product("product_gradient_again", true);
            gradient = of_pair(s.product_gradient_again);
        }
        s.of_pair_again = pairs_again.weights(of_pair(s.product_again), gradient, pairs_again.of_row(in.row_lse, true),
                                              pairs_again.of_row(in.row_delta, true), "_again" + pairs.name(), true);

        std::vector<Expr> totals;
        Expr finite = Internal::const_true();
        for (int j = 0; j < shape.lane_channels(); j++) {
            totals.push_back(element_of_product(s.running, shape, v.r, j, {v.t, v.h, v.b}));
            finite = finite && is_finite(totals.back());
        }
        const auto terms = [&](const Expr &at, const Expr &g) {
            const Expr counted = s.of_pair_again.weight(v.r, 0, at, v.t, g, v.h, v.b);
            std::vector<Expr> each;
            for (int j = 0; j < shape.lane_channels(); j++) {
                const Expr x = full_precision(!pairs.of_query(), of_value())(element_of_lane(j, v.r / shape.lane_rows),
                                                                             min(at, pairs.met_rows() - 1), head, v.b);
                each.push_back(counted * select(counts(counted), x, 0.0f));
            }
            return each;
        };
        s.settled = settle(v, {.spoilt = !finite,
                               .totals = totals,
                               .begin = std::vector<Expr>(totals.size(), 0.0f),
                               .met_rows = pairs.met_rows(),
                               .heads = pairs.of_query() ? Expr() : pairs.group(),
                               .take = [&](RDom &at, const Expr &met) { pairs_again.take(at, met, SeenChunks::all); },
                               .terms = terms});
    }

    void run(const std::function<Expr(Expr)> &stored) {
        s.own = own("own_words", false);
        if (!of_value()) s.own_other = own("own_other_words", true);
        s.running = Func("running" + pairs.name());
        s.running(v.e, v.l, v.p, v.n, v.t, v.h, v.b) = 0.0f;
        for (auto [p, masked] : {std::pair(&s.full, false), std::pair(&s.part, true)}) {
            const std::string kind = masked ? "_part" : "";
            *p = pairs_of(kind, masked);
            take_up(*p, kind, masked);
        }
        settle_rows();

        const Expr rows = pairs.own_rows();
        const Expr tiles = (rows + shape.rows - 1) / shape.rows;
        RDom at(0, shape.lane_channels(), 0, shape.slots(), 0, tiles, "out" + pairs.name());
        s.element = at.x, s.slot = at.y, s.tile = at.z;
        // Under a diagonal the last queries and the first keys see most: they begin first.
        const Expr tile = pairs.of_query() ? tiles - 1 - at.z : Expr(at.z), row = row_of_slot(shape, at.y, tile);
        at.where(unsolved(row < rows));
        std::vector<Expr> totals;
        for (int j = 0; j < shape.lane_channels(); j++) totals.push_back(s.settled.settled(at.y, tile, v.h, v.b)[j]);
        Expr total = mux(at.x, totals);
        if (!of_value()) total *= cast<float>(in.forward.scale);
        const Expr result = stored(total);
        Var d("d"), row_out("row");
        s.out = Func("gradient" + pairs.name());
        s.out(d, row_out, v.h, v.b) = undef(result.type());
        s.out(element_of_lane(at.x, at.y / shape.lane_rows), unfollowed(does, min(row, rows - 1), rows), v.h, v.b) = result;
    }
};

}  // namespace

FragmentGradient fragment_gradient(GradientOf of, const GradientInputs &in, const RawGradientInputs &raw,
                                   const FragmentShape &shape, const Score &score, const FragmentInstructions &does,
                                   const std::function<Expr(Expr)> &stored) {
    const FragmentVars v;
    const int lane_rows_together = terms_together / lanes_of_row;
    // Or the distance of each met row to the end of each own row would be kept in registers.
    const Expr met_of_lane = unfollowed(does, element_of_lane(v.k, v.r / shape.lane_rows), terms_together, v.c);
    const Expr first = v.t * shape.rows;
    const GradientPairs pairs{.of = of,
                              .in = in,
                              .score = score,
                              .exp2 = does.exp2,
                              .chunk = shape.chunk,
                              .own_at = row_of_slot(shape, v.r, v.t),
                              .met_at = v.c * shape.chunk + v.u * terms_together + met_of_lane,
                              .tile_rows = {first, first + shape.rows},
                              .pair = {v.r, v.k, v.u, v.c, v.t, v.g, v.h, v.b},
                              .stepped = v.k,
                              .steps = lane_rows_together};
    // The same rows, with chunks of one.
    GradientPairs again = pairs;
    again.chunk = 1, again.met_at = v.c, again.pair = {v.r, v.k, v.c, v.t, v.g, v.h, v.b}, again.steps = 1;
    FragmentGradientBuilder build{in, raw, shape, does, pairs, again};
    build.run(stored);
    return build.s;
}

}  // namespace attune
