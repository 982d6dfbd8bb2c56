// SPDX-License-Identifier: MIT
#include "generators/math/exp2.h"
#include "lowering/instructions/nvptx.h"
#include "schedules/sdpa/simt_schedules.h"

namespace attune {
using namespace Halide;

namespace {

SimtInstructions of_cuda() {
    SimtInstructions does{true, {}, {}, {}, {}};
    does.exp2 = cuda_exp2, does.reciprocal = cuda_reciprocal, does.max = cuda_max;
    // The lanes of a row are neighbours in their warp; by exchanges in pairs, all of them get the same sum.
    does.sum = [](const std::function<Expr(Expr)> &term, const Expr &t, int lanes) {
        Expr sum = term(t);
        for (int n = 1; n < lanes; n *= 2) sum = sum + cuda_exchange(sum, n);
        return sum;
    };
    return does;
}

}  // namespace

SimtInstructions simt_instructions(const Target &target) {
    if (target.has_feature(Target::CUDA)) return of_cuda();
    SimtInstructions does{false, {}, {}, {}, {}};
    does.exp2 = [](const Expr &x) { return exp2_nonpositive(x, 1.0f); };
    does.reciprocal = [](const Expr &x) { return 1.0f / x; };
    does.max = [](const Expr &x, const Expr &y) { return max(x, y); };
    does.sum = [](const std::function<Expr(Expr)> &term, const Expr &t, int lanes) {
        std::vector<Expr> terms;
        for (int n = 0; n < lanes; n++) terms.push_back(term(t / lanes * lanes + n));
        // The order of exchanges in pairs.
        for (int n = lanes; n > 1; n /= 2)
            for (int m = 0; m < n / 2; m++) terms[m] = terms[2 * m] + terms[2 * m + 1];
        return terms[0];
    };
    return does;
}

}  // namespace attune
