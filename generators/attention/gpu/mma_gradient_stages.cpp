// SPDX-License-Identifier: MIT
#include "generators/attention/gpu/mma_gradient_stages.h"
#include "generators/math/bits.h"

namespace attune {
using namespace Halide;

namespace {

struct MmaGradientBuilder {
    const GradientInputs &in;
    const RawGradientInputs &raw;
    const MmaShape &shape;
    const MmaInstructions &does;
    const GradientPairs &pairs, &recomputed_pairs;
    MmaGradient s = {};
    const MmaVars &v = s.v;

    bool of_value() const { return pairs.of == GradientOf::value; }
    // Query or key, or, if `other`, grad_out or value.
    const RawInput &raw_of(bool of_queries, bool other) const {
        return of_queries ? (other ? raw.grad_out : raw.query) : (other ? raw.value : raw.key);
    }
    const Func &full_precision(bool of_queries, bool other) const {
        const SdpaInputs &f = in.forward;
        return of_queries ? (other ? in.grad_out : f.query) : (other ? f.value : f.key);
    }

    ResidentWords resident(const std::string &name, bool other) const {
        return resident_words(name + pairs.name(), shape, v, does, raw_of(pairs.of_query(), other),
                              [&](const Expr &slot) -> RowOfInput {
                                  return {min(row_of_slot(shape, slot, v.t), pairs.resident_rows() - 1), v.h};
                              });
    }

    // The total of a pair's query. For streamed queries, a lane's totals of a block are a stage, which can be loaded ahead.
    Expr total_of_row(MmaPairs &p, const Func &total, const std::string &name, bool masked) const {
        if (pairs.of_query()) return pairs.of_row(total, masked);
        GradientPairs of_lane = pairs;
        of_lane.streamed_at = v.c * shape.kv_block + v.u * terms_together + element_of_lane(v.k, v.l);
        Func streamed("streamed_" + name);
        streamed(v.k, v.l, v.u, v.c, v.t, v.g, v.h, v.b) = of_lane.of_row(total, masked);
        p.streamed_totals.push_back(streamed);
        return streamed(v.k, v.r / shape.lane_rows, v.u, v.c, v.t, v.g, v.h, v.b);
    }

    MmaPairs pairs_of(const std::string &kind, bool masked) const {
        const std::string suffix = pairs.name() + kind;
        const std::vector<Var> of = {v.c, v.t, v.g, v.h, v.b};
        MmaPairs p;
        const Expr last = pairs.streamed_rows() - 1, j = v.c * shape.kv_block + v.k;
        const Expr row = masked ? min(j, last) : unsafe_promise_clamped(j, 0, last);
        // Rows that the tile does not see may hold NaN: their words become 0 here, once for all rows.
        const Span seen = pairs.seen_rows();
        const Expr given = masked ? select(j >= seen.begin && j < seen.end, bytes_together, 0) : Expr(bytes_together);
        auto address = [&](bool other) {
            return raw_of(!pairs.of_query(), other).address(v.w * shape.in_word, row, pairs.streamed_head(), v.b);
        };
        p.rows = Func("rows" + suffix);
        p.rows(v.w, v.k, v.side, v.c, v.t, v.g, v.h, v.b) =
            does.copied(select(v.side == 0, address(false), address(true)), given);
        p.streamed_words = block_words("streamed_words" + suffix, shape, v, does, p.rows, 0, false, of);
        p.summed_words = block_words("summed_words" + suffix, shape, v, does, p.rows, of_value(), true, of);
        p.product = product_of("product" + suffix, shape, v, does, s.resident, p.streamed_words, of);
        const Expr k = v.u * (terms_together / lanes_of_row) + v.k;
        Expr gradient;
        if (!of_value()) {
            p.streamed_other_words = block_words("streamed_other_words" + suffix, shape, v, does, p.rows, 1, false, of);
            p.weight_gradient =
                product_of("weight_gradient" + suffix, shape, v, does, s.resident_other, p.streamed_other_words, of);
            gradient = element_of_product(p.weight_gradient.sum, shape, v.r, k, of);
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

    void accumulate(MmaPairs &p, const std::string &kind, bool masked) {
        std::vector<Range> loops = {{0, shape.kv_block / terms_together},
                                    {0, (pairs.streamed_rows() + shape.kv_block - 1) / shape.kv_block}};
        // The query heads that share a key head, one after the other.
        p.has_heads = !pairs.of_query();
        if (p.has_heads) loops.emplace_back(0, pairs.group());
        RDom at(loops, "accumulator" + pairs.name() + kind);
        pairs.take(at, at[1], masked ? SeenKvBlocks::partial : SeenKvBlocks::whole);
        p.sum_rows = at[0], p.sum_block = at[1];
        if (p.has_heads) p.sum_head = at[2];
        const Expr step = at[0], kv_block = at[1], g = p.has_heads ? Expr(at[2]) : Expr(0);
        FuncRef total = s.accumulator(v.e, v.l, v.p, v.n, v.t, v.h, v.b);
        const auto weights = [&](int j) { return p.weight_words(v.e, v.l, v.p, j, step, kv_block, v.t, g, v.h, v.b); };
        const auto summed = [&](int j) {
            return p.summed_words(v.n % 2 * 2 + v.e % 2, v.l, v.n / 2, step * shape.together() + j, kv_block, v.t, g, v.h, v.b);
        };
        total = does.multiply(of_each_product(shape, weights), of_each_product(shape, summed), total);
    }

    // A finite sum may round to a non-finite 16-bit number: such a row is recomputed in f32, too.
    static Expr is_finite(const Expr &x) { return (bits_of(x) & 0x7fffffff) < 0x7f800000; }

    void recompute_nonfinite_rows() {
        const Expr row = unfollowed(does, recomputed_pairs.resident(), pairs.resident_rows());
        const Expr streamed = recomputed_pairs.streamed(false), head = recomputed_pairs.streamed_head();
        auto product = [&](const std::string &name, bool other) {
            RDom channel(0, shape.channels, name + "_channel");
            Func sum(name + pairs.name());
            sum(v.r, v.k, v.c, v.t, v.g, v.h, v.b) = 0.0f;
            sum(v.r, v.k, v.c, v.t, v.g, v.h, v.b) += full_precision(pairs.of_query(), other)(channel, row, v.h, v.b) *
                                                      full_precision(!pairs.of_query(), other)(channel, streamed, head, v.b);
            return sum;
        };
        auto of_pair = [&](const Func &f) { return f(v.r, v.k, v.c, v.t, v.g, v.h, v.b); };
        s.product_recomputed = product("product_recomputed", false);
        Expr gradient;
        if (!of_value()) {
            s.weight_gradient_recomputed = product("weight_gradient_recomputed", true);
            gradient = of_pair(s.weight_gradient_recomputed);
        }
        s.recomputed_pair =
            recomputed_pairs.weights(of_pair(s.product_recomputed), gradient, recomputed_pairs.of_row(in.row_lse, true),
                                     recomputed_pairs.of_row(in.row_delta, true), "_recomputed" + pairs.name(), true);

        std::vector<Expr> totals;
        Expr finite = Internal::const_true();
        for (int j = 0; j < shape.lane_channels(); j++) {
            totals.push_back(element_of_product(s.accumulator, shape, v.r, j, {v.t, v.h, v.b}));
            finite = finite && is_finite(totals.back());
        }
        const auto terms = [&](const Expr &at, const Expr &g) {
            const Expr counted = s.recomputed_pair.weight(v.r, 0, at, v.t, g, v.h, v.b);
            std::vector<Expr> each;
            for (int j = 0; j < shape.lane_channels(); j++) {
                const Expr x = full_precision(!pairs.of_query(), of_value())(element_of_lane(j, v.r / shape.lane_rows),
                                                                             min(at, pairs.streamed_rows() - 1), head, v.b);
                each.push_back(counted * select(counts(counted), x, 0.0f));
            }
            return each;
        };
        s.recomputed = recompute_nonfinite(
            v, {.nonfinite = !finite,
                .totals = totals,
                .begin = std::vector<Expr>(totals.size(), 0.0f),
                .streamed_rows = pairs.streamed_rows(),
                .heads = pairs.of_query() ? Expr() : pairs.group(),
                .take = [&](RDom &at, const Expr &streamed) { recomputed_pairs.take(at, streamed, SeenKvBlocks::all); },
                .terms = terms});
    }

    void run(const std::function<Expr(Expr)> &stored) {
        s.resident = resident("resident_words", false);
        if (!of_value()) s.resident_other = resident("resident_other_words", true);
        s.accumulator = Func("accumulator" + pairs.name());
        s.accumulator(v.e, v.l, v.p, v.n, v.t, v.h, v.b) = 0.0f;
        for (auto [p, masked] : {std::pair(&s.full, false), std::pair(&s.partial, true)}) {
            const std::string kind = masked ? "_partial" : "";
            *p = pairs_of(kind, masked);
            accumulate(*p, kind, masked);
        }
        recompute_nonfinite_rows();

        const Expr rows = pairs.resident_rows();
        const Expr tiles = (rows + shape.rows - 1) / shape.rows;
        RDom at(0, shape.lane_channels(), 0, shape.slots(), 0, tiles, "out" + pairs.name());
        s.element = at.x, s.slot = at.y, s.tile = at.z;
        // Under a diagonal the last queries and the first keys see most: their tiles begin first.
        const Expr tile = pairs.of_query() ? tiles - 1 - at.z : Expr(at.z), row = row_of_slot(shape, at.y, tile);
        at.where(unsolved(row < rows));
        std::vector<Expr> totals;
        for (int j = 0; j < shape.lane_channels(); j++) totals.push_back(s.recomputed.totals(at.y, tile, v.h, v.b)[j]);
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

MmaGradient mma_gradient(GradientOf of, const GradientInputs &in, const RawGradientInputs &raw, const MmaShape &shape,
                         const Score &score, const MmaInstructions &does, const std::function<Expr(Expr)> &stored) {
    const MmaVars v;
    const int lane_rows_together = terms_together / lanes_of_row;
    // Otherwise the distance of each streamed row to the end of each resident row would be kept in registers.
    const Expr streamed_of_lane = unfollowed(does, element_of_lane(v.k, v.r / shape.lane_rows), terms_together, v.c);
    const Expr first = v.t * shape.rows;
    const GradientPairs pairs{.of = of,
                              .in = in,
                              .score = score,
                              .exp2 = does.exp2,
                              .kv_block = shape.kv_block,
                              .resident_at = row_of_slot(shape, v.r, v.t),
                              .streamed_at = v.c * shape.kv_block + v.u * terms_together + streamed_of_lane,
                              .tile_rows = {first, first + shape.rows},
                              .pair = {v.r, v.k, v.u, v.c, v.t, v.g, v.h, v.b},
                              .stepped = v.k,
                              .steps = lane_rows_together};
    // The same rows with blocks of one streamed row.
    GradientPairs recomputed = pairs;
    recomputed.kv_block = 1, recomputed.streamed_at = v.c, recomputed.pair = {v.r, v.k, v.c, v.t, v.g, v.h, v.b},
    recomputed.steps = 1;
    MmaGradientBuilder build{in, raw, shape, does, pairs, recomputed};
    build.run(stored);
    return build.s;
}

}  // namespace attune
