// SPDX-License-Identifier: MIT
#include "generators/programs/sdpa_backward_forms.h"
#include "lowering/instructions/bf16.h"
#include "lowering/instructions/powers.h"

namespace attune {
using namespace Halide;

namespace {

BackwardNumerics same_numerics(BackwardNumerics numerics, const Target &) { return numerics; }
BackwardNumerics tile_numerics(BackwardNumerics numerics, const Target &target) {
    numerics.powers = power_instructions(target);
    return numerics;
}
BackwardNumerics pair_numerics(BackwardNumerics numerics, const Target &target) {
    numerics = tile_numerics(numerics, target);
    numerics.round_pairs = rounding_to_bf16(target);
    return numerics;
}
BackwardNumerics matrix_tile_numerics(BackwardNumerics numerics, const Target &target) {
    numerics = pair_numerics(numerics, target);
    numerics.matrix_tiles = true;
    return numerics;
}

using Outputs = std::vector<Func>;
void gradients_at_root(BackwardStages &s, const Outputs &out, const BackwardTuning &, const Target &, int) {
    schedule_backward_root(s, out);
}
void capture_at_root(BackwardStages &s, Func out, const BackwardTuning &, const Target &) {
    schedule_backward_root(s, {std::move(out)});
}
void gradients_by_tiles(BackwardStages &s, const Outputs &out, const BackwardTuning &tuning, const Target &target, int) {
    if (s.full.term.defined())
        schedule_backward_terms(s, out, tuning, target);
    else
        schedule_backward(s, out, tuning, target);
}

}  // namespace

const std::vector<BackwardForm> &backward_forms() {
    static const std::vector<BackwardForm> forms = {
        {"root", same_numerics, hints_for_backward_root, gradients_at_root, capture_at_root, capture_at_root},
        {"tiles", tile_numerics, hints_for_backward, gradients_by_tiles, schedule_captures, schedule_captured},
        {"pairs", pair_numerics, hints_for_backward_pairs, gradients_by_tiles, schedule_captures, schedule_captured},
        {"matrix_tiles", matrix_tile_numerics, hints_for_backward_pairs, schedule_backward_matrix_tiles, schedule_captures,
         schedule_captured},
    };
    return forms;
}

}  // namespace attune
