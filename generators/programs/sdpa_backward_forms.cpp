// SPDX-License-Identifier: MIT
#include "generators/programs/sdpa_backward_forms.h"
#include "lowering/instructions/bf16.h"
#include "lowering/instructions/powers.h"

namespace attune {
using namespace Halide;

namespace {

BackwardNumerics same_numerics(BackwardNumerics numerics, const Target &) { return numerics; }
BackwardNumerics blocked_numerics(BackwardNumerics numerics, const Target &target) {
    numerics.powers = power_instructions(target);
    return numerics;
}
BackwardNumerics bf16_dot_numerics(BackwardNumerics numerics, const Target &target) {
    numerics = blocked_numerics(numerics, target);
    numerics.round_pairs = rounding_to_bf16(target);
    return numerics;
}
BackwardNumerics amx_numerics(BackwardNumerics numerics, const Target &target) {
    numerics = bf16_dot_numerics(numerics, target);
    numerics.amx_tiles = true;
    return numerics;
}

using Outputs = std::vector<Func>;
void gradients_at_root(BackwardStages &s, const Outputs &out, const BackwardParameters &, const Target &, int) {
    schedule_backward_root(s, out);
}
void capture_at_root(BackwardStages &s, Func out, const BackwardParameters &, const Target &) {
    schedule_backward_root(s, {std::move(out)});
}
void gradients_by_tiles(BackwardStages &s, const Outputs &out, const BackwardParameters &parameters, const Target &target,
                        int) {
    if (s.full.term.defined())
        schedule_backward_terms(s, out, parameters, target);
    else
        schedule_backward(s, out, parameters, target);
}

}  // namespace

const std::vector<BackwardForm> &backward_forms() {
    static const std::vector<BackwardForm> forms = {
        {"root", same_numerics, hints_for_backward_root, gradients_at_root, capture_at_root, capture_at_root},
        {"blocked", blocked_numerics, hints_for_backward, gradients_by_tiles, schedule_captures, schedule_captured},
        {"bf16_dot", bf16_dot_numerics, hints_for_backward_bf16_dot, gradients_by_tiles, schedule_captures, schedule_captured},
        {"amx", amx_numerics, hints_for_backward_bf16_dot, schedule_backward_amx, schedule_captures, schedule_captured},
    };
    return forms;
}

}  // namespace attune
