// SPDX-License-Identifier: MIT
// Gradients of buffers that a score function or a factor of the weights reads, at any elements.
#include "generators/attention/backward/builder.h"
#include "generators/attention/equations/score_derivative.h"
#include "generators/math/precise.h"

namespace attune {
using namespace Halide;

// The input of the score function of step n.
Expr BackwardBuilder::score_before(std::size_t step, const Expr &scaled, const Index &at) const {
    Expr x = scaled;
    for (std::size_t n = 0; n < step; n++) {
        if (!score.steps[n].score) continue;
        const Expr y = precise(score.steps[n].score(x, at));
        x = score.steps[n].when.defined() ? select(score.steps[n].when, y, x) : y;
    }
    return x;
}

namespace {
// Number of an element of a buffer, from its indices, innermost first.
Expr number_of_element(const CapturedBuffer &buffer, const std::vector<Expr> &indices) {
    Expr element = 0;
    for (std::size_t n = indices.size(); n-- > 0;) {
        if (Internal::expr_uses_var(indices[n], "score"))
            throw CompileError("attune: " + buffer.name + " is read at an element that depends on the score\n");
        element = element * buffer.extents[n] + indices[n];
    }
    return element;
}
}  // namespace

// Reads of the buffers by the last step of the score and by the factor of the weights.
struct BackwardBuilder::CaptureReads {
    // The n-th read of a function.
    struct Read {
        bool of_factor;
        std::size_t n;
        int buffer;
    };
    std::size_t last = 0;        // number of the step
    ScoreFunction step, factor;  // empty where there is none
    Expr unknown;                // the score that they read, as a symbol
    std::vector<Read> reads;

    // For each read of a function: the derivative by it, and the element, in terms of a pair's index.
    std::vector<CaptureDerivative> derivatives(bool of_factor, const Expr &x, const Index &at) const {
        const ScoreFunction &f = of_factor ? factor : step;
        return f ? capture_derivatives(f, x, at) : std::vector<CaptureDerivative>();
    }
};

BackwardBuilder::CaptureReads BackwardBuilder::reads_of(const CapturedInputs &captures) const {
    CaptureReads all;
    for (std::size_t n = 0; n < score.steps.size(); n++)
        if (score.steps[n].score) all.last = n;
    if (!score.steps.empty()) all.step = score.steps[all.last].score;
    if (score.probability)
        all.factor = [this](const Expr &x, const Index &at) { return cast(x.type(), score.probability(at)); };
    all.unknown = Internal::Variable::make(type, "score");
    for (const bool of_factor : {false, true}) {
        const auto of_function = all.derivatives(of_factor, all.unknown, index(query_at(s.q, true), key_at(s.r, true), s.h));
        for (std::size_t n = 0; n < of_function.size(); n++)
            for (std::size_t b = 0; b < captures.buffers.size(); b++)
                if (of_function[n].buffer == captures.buffers[b].name) all.reads.push_back({of_factor, n, int(b)});
    }
    return all;
}

// Adds the terms of the pairs of the full or of the partial tiles to the elements that they read.
void BackwardBuilder::add_captured(const CapturedInputs &captures, const CaptureReads &all, bool full) {
    Var r = s.r, q = s.q, u = s.u, h = s.h, t = s.t;
    const BackwardTile &p = full ? s.full : s.partial;
    const std::string suffix = full ? "" : "_partial";
    RDom pairs(
        {{0, int(all.reads.size())}, {0, numerics.kv_block}, {0, numerics.tile_q}, {0, in.query_tiles}, {0, in.key_tiles}},
        "pair" + suffix);
    const Expr x = in.first_query_tile + pairs[3], z = in.first_key_tile + pairs[4];
    take_tiles(pairs, x, 0, z, full);
    auto of_read = [&](const std::vector<Expr> &list) { return list.size() == 1 ? list[0] : mux(pairs[0], list); };
    (full ? s.full_tiles : s.partial_tiles) = {pairs[3], {}, pairs[4], pairs[1], pairs[2], {}, {}};
    (full ? s.full_read : s.partial_read) = pairs[0];
    const Index of_pair =
        index(min(x * numerics.tile_q + pairs[2], in.queries - 1), min(z * numerics.kv_block + pairs[1], in.keys - 1), 0);
    const Index at = index(query_at(q, full), key_at(r, full), h);
    const Expr before = score_before(all.last, p.scaled(r, q, u, h, t), at);

    std::vector<Expr> added, elements, buffers;
    for (const CaptureReads::Read &read : all.reads) {
        const Expr by_score = p.score_gradient(r, q, u, h, t);
        // dZ = P dP, where Z is the factor; dropout is a factor of its own.
        const Expr by_result = read.of_factor ? p.weight(r, q, u, h, t) * p.kept(r, q, u, h, t) : by_score;
        const Expr derivative = all.derivatives(read.of_factor, before, at)[read.n].derivative;
        const Expr adds = by_result * precise(cast(type, derivative));
        Func contribution("contribution" + std::to_string(added.size()) + suffix);
        // A masked pair's term may be NaN, and is not computed where a block of pairs is not seen.
        contribution(r, q, u, h, t) = full ? adds : select(counts(by_score), adds, value_of(0));
        (full ? s.full : s.partial).contributions.push_back(contribution);
        added.push_back(contribution(pairs[1], pairs[2], x, 0, z));
        const std::vector<Expr> indices = all.derivatives(read.of_factor, all.unknown, of_pair)[read.n].element;
        elements.push_back(number_of_element(captures.buffers[std::size_t(read.buffer)], indices));
        buffers.emplace_back(read.buffer);
    }
    pairs.where(of_read(buffers) == captures.which);
    s.captured(of_read(elements)) += cast<double>(of_read(added));
}

void BackwardBuilder::captured(const CapturedInputs &captures) {
    const CaptureReads all = reads_of(captures);
    s.captured = Func("captured");
    s.captured(Var("element")) = undef<double>();
    if (all.reads.empty()) return;
    for (const bool full : {true, false}) add_captured(captures, all, full);
}

BackwardStages captured_stages(const BackwardInputs &in, const BackwardNumerics &numerics, const BackwardHints &hints,
                               const Score &score, const CapturedInputs &captures) {
    BackwardBuilder b{in, numerics, hints, score, true, true};
    b.rows();
    b.s.full = b.tile_of("", false);
    b.s.partial = b.tile_of("_partial", true);
    b.captured(captures);
    return std::move(b.s);
}

}  // namespace attune
