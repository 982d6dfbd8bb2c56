// SPDX-License-Identifier: MIT
#include "generators/math/exp2.h"
#include "lowering/instructions/nvptx.h"
#include "schedules/masked_softmax/simt_schedules.h"

namespace attune {
using namespace Halide;

SoftmaxLanes softmax_lanes(int lanes, int keys, const Target &target) {
    constexpr int warp = 32;
    if (target.has_feature(Target::CUDA)) return {lanes, warp, keys, cuda_exp2, cuda_max, cuda_exchange};
    return {lanes,
            1,
            keys,
            [](const Expr &x) { return exp2_nonpositive(x, 1.0f); },
            [](const Expr &x, const Expr &y) { return max(x, y); },
            [](const Expr &x, int) { return x; }};
}

}  // namespace attune
