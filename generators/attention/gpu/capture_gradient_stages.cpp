// SPDX-License-Identifier: MIT
#include "generators/attention/gpu/capture_gradient_stages.h"
#include "generators/attention/equations/score_derivative.h"
#include "generators/math/precise.h"

namespace attune {
using namespace Halide;

namespace {

struct CaptureGradientBuilder {
    const CaptureGradientInputs &in;
    const Score &score;
    CaptureGradientStages s = {};
    const SdpaInputs &f = in.rows.forward;

    // Query, head and batch entry of the n-th query of lane c: neighbouring lanes have neighbouring queries, and read the same
    // keys. The last ones are read again where there are no more.
    struct Row {
        Expr number, i, h, b;
    };
    Row row(const Expr &n, const Expr &c) const {
        const Expr number = n * in.copies + c;
        const Expr of_head = number / f.queries;
        return {number, number % f.queries, of_head % f.query_heads, clamp(of_head / f.query_heads, 0, in.batch - 1)};
    }
    LanePairs pairs() const { return {in.rows, score, in.exp2}; }
    Index index(const Row &of, const Expr &j) const { return pairs().index(j, of.i, of.h, of.b); }

    // The last step that is a function of the score is the user's: only steps that mask follow it.
    std::size_t step_of_user() const {
        std::size_t last = score.steps.size();
        for (std::size_t n = 0; n < score.steps.size(); n++)
            if (score.steps[n].score) last = n;
        return last;
    }
    struct Read {
        bool of_factor;
        std::size_t n;
        int buffer;
    };
    std::vector<CaptureDerivative> derivatives(bool of_factor, const Expr &x, const Index &at) const {
        const std::size_t user = step_of_user();
        if (of_factor ? !score.probability : user == score.steps.size()) return {};
        return capture_derivatives(of_factor ? pairs().factor() : score.steps[user].score, x, at);
    }
    std::vector<Read> reads() const {
        std::vector<Read> all;
        const Expr unknown = Internal::Variable::make(Float(32), "score");
        for (const bool of_factor : {false, true}) {
            const auto list = derivatives(of_factor, unknown, index(row(s.n, s.c), s.j));
            for (std::size_t n = 0; n < list.size(); n++)
                for (std::size_t b = 0; b < in.buffers.size(); b++)
                    if (list[n].buffer == in.buffers[b].name) all.push_back({of_factor, n, int(b)});
        }
        return all;
    }

    // Summands of the reads of a pair; 0 where the pair is masked: its products may be NaN.
    void terms(const std::vector<Read> &all) {
        const Index at = index(row(s.n, s.c), s.j);
        const LanePairs lane = pairs();
        const std::vector<Var> place = {s.n, s.j, s.c};
        s.qk = lane.product("qk", place, at), s.weight_gradient = lane.weight_gradient("weight_gradient", place, at);
        const LanePairs::Pair pair = lane.pair(s.qk(s.n, s.j, s.c), s.weight_gradient(s.n, s.j, s.c), at, step_of_user());
        std::vector<Expr> values;
        for (const Read &read : all) {
            const Expr derivative = derivatives(read.of_factor, pair.before, at)[read.n].derivative;
            const Expr by_result = read.of_factor ? pair.weight * pair.by_weight : pair.by_score;
            values.push_back(select(is_masked(pair.score), 0.0f, by_result * precise(cast<float>(derivative))));
        }
        s.term = Func("capture_term");
        if (values.size() == 1)
            s.term(s.n, s.j, s.c) = values[0];
        else
            s.term(s.n, s.j, s.c) = Tuple(values);
    }

    // Number of an element of a buffer, from its indices, innermost first.
    Expr number_of(const Read &read, const Index &at) const {
        const CapturedBuffer &buffer = in.buffers[static_cast<std::size_t>(read.buffer)];
        const std::vector<Expr> indices =
            derivatives(read.of_factor, Internal::Variable::make(Float(32), "score"), at)[read.n].element;
        Expr element = 0;
        for (std::size_t n = indices.size(); n-- > 0;) element = element * buffer.extents[n] + indices[n];
        return element;
    }

    void add_terms(const std::vector<Read> &all) {
        const Expr rows = f.queries * f.query_heads * in.batch;
        RDom at(0, static_cast<int>(all.size()), 0, f.keys, 0, (rows + in.copies - 1) / in.copies, "pair");
        s.read = at[0], s.key = at[1], s.query = at[2];
        const Row of = row(at[2], s.c);
        const Span keys = seen_by(of.i, f.lengths(of.i, of.b), {f.band_begin(of.b), f.band_end(of.b)});
        at.where(unsolved(of.number < rows));
        at.where(without_calls(at[1] < keys.end));
        at.where(without_calls(unsolved(at[1] >= keys.begin)));
        std::vector<Expr> elements, buffers, values;
        for (std::size_t n = 0; n < all.size(); n++) {
            elements.push_back(number_of(all[n], index(of, at[1])));
            buffers.emplace_back(all[n].buffer);
            const FuncRef term = s.term(at[2], at[1], s.c);
            values.push_back(all.size() == 1 ? Expr(term) : Expr(term[n]));
        }
        const auto of_read = [&](const std::vector<Expr> &list) { return list.size() == 1 ? list[0] : mux(at[0], list); };
        at.where(unsolved(of_read(buffers) == in.which));
        s.sums(s.c, clamp(of_read(elements), 0, in.elements - 1)) += cast<double>(of_read(values));
    }

    void sum_copies() {
        RDom copy(0, (in.copies + lanes_of_sum - 1) / lanes_of_sum, "copy"), group(0, lanes_of_sum, "group");
        s.copy = copy.x, s.group = group.x;
        const auto &[x_extent, y_extent, z_extent] = in.extents;
        const Expr number = copy * lanes_of_sum + s.g, zero = Internal::make_const(Float(64), 0);
        const Expr element = clamp(s.x + x_extent * (s.y + y_extent * (s.z + z_extent * s.w)), 0, in.elements - 1);
        s.partial_sum = Func("partial_sum"), s.sum = Func("sum_of_copies"), s.out = Func("capture_gradient");
        s.partial_sum(s.g, s.x, s.y, s.z, s.w) = zero;
        s.partial_sum(s.g, s.x, s.y, s.z, s.w) += select(number < in.copies, s.sums(min(number, in.copies - 1), element), zero);
        s.sum(s.x, s.y, s.z, s.w) = zero;
        s.sum(s.x, s.y, s.z, s.w) += s.partial_sum(group, s.x, s.y, s.z, s.w);
        s.out(s.x, s.y, s.z, s.w) = cast<float>(s.sum(s.x, s.y, s.z, s.w));
    }

    void run() {
        const std::vector<Read> all = reads();
        s.has_reads = !all.empty();
        s.sums = Func("sums_of_lanes");
        s.sums(s.c, s.e) = Internal::make_const(Float(64), 0);
        if (s.has_reads) {
            terms(all);
            add_terms(all);
        }
        sum_copies();
    }
};

}  // namespace

CaptureGradientStages capture_gradient_stages(const CaptureGradientInputs &in, const Score &score) {
    CaptureGradientBuilder build{in, score};
    build.run();
    return build.s;
}

}  // namespace attune
