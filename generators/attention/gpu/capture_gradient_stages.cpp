// SPDX-License-Identifier: MIT
#include "generators/attention/gpu/capture_gradient_stages.h"
#include "generators/attention/equations/score_derivative.h"
#include "generators/attention/equations/softmax_gradient.h"
#include "generators/math/precise.h"
#include <numbers>

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
    Expr key_head(const Expr &h) const { return h / (f.query_heads / f.key_heads); }
    Index index(const Row &of, const Expr &j) const {
        Index at{of.b, of.h, of.i, j, of.i + f.offset(of.b), key_head(of.h), f.query_heads, f.queries, f.keys, {}};
        at.of_pair = [at](const Func &table) { return table(at.j, at.i, at.h, at.b); };
        return at;
    }

    // The last step that is a function of the score is the user's: only steps that mask follow it.
    std::size_t step_of_user() const {
        std::size_t last = score.steps.size();
        for (std::size_t n = 0; n < score.steps.size(); n++)
            if (score.steps[n].score) last = n;
        return last;
    }
    ScoreFunction factor() const {
        return [this](const Expr &x, const Index &at) { return cast(x.type(), score.probability(at)); };
    }

    struct Read {
        bool of_factor;
        std::size_t n;
        int buffer;
    };
    std::vector<CaptureDerivative> derivatives(bool of_factor, const Expr &x, const Index &at) const {
        const std::size_t user = step_of_user();
        if (of_factor ? !score.probability : user == score.steps.size()) return {};
        return capture_derivatives(of_factor ? factor() : score.steps[user].score, x, at);
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

    Func product(const std::string &name, const Func &of_query, const Func &of_key, const Expr &channels, RVar &along) const {
        RDom channel(0, channels, name + "_channel");
        along = channel.x;
        const Row of = row(s.n, s.c);
        Func sum(name);
        sum(s.n, s.j, s.c) = 0.0f;
        sum(s.n, s.j, s.c) += of_query(channel, of.i, of.h, of.b) * of_key(channel, s.j, key_head(of.h), of.b);
        return sum;
    }

    // Summands of the reads of a pair; 0 where the pair is masked: its products may be NaN.
    void terms(const std::vector<Read> &all) {
        const Row of = row(s.n, s.c);
        const Index at = index(of, s.j);
        s.qk = product("qk", f.query, f.key, f.head_dim, s.channel);
        s.weight_gradient = product("weight_gradient", in.rows.grad_out, f.value, f.value_dim, s.value_channel);
        Expr x = s.qk(s.n, s.j, s.c) * cast<float>(f.scale), before = x;
        for (std::size_t n = 0; n < score.steps.size(); n++) {
            const ScoreStep &step = score.steps[n];
            if (n == step_of_user()) before = x;
            Expr after = step.score ? precise(step.score(x, at)) : x;
            if (step.mask) after = select(step.mask(at), after, masked_score(Float(32)));
            x = step.when.defined() ? select(step.when, after, x) : after;
        }
        const Expr difference = x - in.rows.row_lse(of.i, of.h, of.b);
        const Expr weight = in.exp2(difference * Expr(static_cast<float>(std::numbers::log2e)));
        const Expr of_weight = s.weight_gradient(s.n, s.j, s.c), delta = in.rows.row_delta(of.i, of.h, of.b);
        const Expr by_score =
            SoftmaxGradient().dS(weight, score.probability ? of_weight * precise(factor()(x, at)) : of_weight, delta);
        std::vector<Expr> values;
        for (const Read &read : all) {
            const Expr derivative = derivatives(read.of_factor, before, at)[read.n].derivative;
            const Expr by_result = read.of_factor ? weight * of_weight : by_score;
            values.push_back(select(is_masked(x), 0.0f, by_result * precise(cast<float>(derivative))));
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
