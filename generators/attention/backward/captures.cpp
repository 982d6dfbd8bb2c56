// SPDX-License-Identifier: MIT
// Gradients of the buffers that steps of the score read.
#include "generators/attention/backward/builder.h"
#include "generators/attention/equations/score_derivative.h"
#include "generators/math/precise.h"

namespace attune {
using namespace Halide;
using Halide::Internal::is_const_one;

// The derivative of the final score by the buffer that a step reads, where x is the score before any step.
Expr BackwardBuilder::by_capture(const CaptureInputs &capture, const Expr &x, const Index &at) const {
    Expr chosen = value_of(0);
    for (std::size_t n = 0; n < score.steps.size(); n++) {
        if (!score.steps[n].score) continue;
        const auto read = capture_derivatives(score.steps[n].score, x, at);
        if (read.empty()) continue;
        for (std::size_t later = n + 1; later < score.steps.size(); later++)
            if (score.steps[later].score && !is_const_one(score_derivative(score.steps[later].score, x, at)))
                throw CompileError("attune: a step after one whose buffer has a gradient does more than add to the score\n");
        Expr sum = value_of(0);
        for (const CaptureDerivative &d : read) sum += cast(type, d.derivative);
        chosen = select(capture.step == int(n), precise(sum), chosen);
    }
    return chosen;
}

void BackwardBuilder::captures(const CaptureInputs &capture) {
    Var r = s.r, q = s.q, u = s.u, t = s.t, j = s.j, y("y");
    s.capture_total = Func("capture_total");
    s.capture_total(r, q, u, t) =
        capture.before(min(t * numerics.kv_block + r, capture.columns - 1), min(u * numerics.tile_q + q, capture.rows - 1));
    const Expr keeps = clamp(capture.keeps_queries, 0, 1);
    for (const bool full : {true, false}) {
        const BackwardTile &p = full ? s.full : s.partial;
        RDom tiles(0, numerics.tile_q, 0, in.query_tiles, 0, in.key_tiles, full ? "full" : "partial");
        const Expr x = in.first_query_tile + tiles.y, z = in.first_key_tile + tiles.z;
        take_tiles(tiles, x, 0, z, full);
        (full ? s.full_tiles : s.partial_tiles) = {tiles.y, {}, tiles.z, {}, {}, {}, {}};
        (full ? s.full_query : s.partial_query) = tiles.x;
        const Index at =
            index(min(x * numerics.tile_q + tiles.x, in.queries - 1), min(z * numerics.kv_block + r, in.keys - 1), 0);
        s.capture_total(r, tiles.x * keeps, tiles.y * keeps, tiles.z) +=
            p.score_gradient(r, tiles.x, x, 0, z) * by_capture(capture, value_of(0), at);
    }
    s.capture_out = Func("capture_out");
    s.capture_out(j, y) =
        s.capture_total(j % numerics.kv_block, y % numerics.tile_q, y / numerics.tile_q, j / numerics.kv_block);
}

BackwardStages capture_stages(const BackwardInputs &in, const BackwardNumerics &numerics, const BackwardHints &hints,
                              const Score &score, const CaptureInputs &capture) {
    BackwardBuilder b{in, numerics, hints, score, true};
    b.rows();
    b.s.full = b.tile_of("", false);
    b.s.partial = b.tile_of("_partial", true);
    b.captures(capture);
    return std::move(b.s);
}

}  // namespace attune
