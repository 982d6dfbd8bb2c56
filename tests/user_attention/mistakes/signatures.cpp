// SPDX-License-Identifier: MIT
// Structs that must not compile, for check_mistakes.py.
#include "generators/attention/equations/register_attention.h"

using Halide::Expr;

struct Empty {
    attune::Capture slopes{"slopes", 1};
};
struct ScoreOfTwo {
    Expr score(Expr x, Expr i, Expr j) const { return x + i - j; }
};
struct MaskNotConst {
    Expr mask(attune::Index at) { return at.i < at.j; }
};
struct ProbabilityOfScore {
    Expr probability(Expr x, attune::Index) const { return x; }
};
struct NotConstructible {
    explicit NotConstructible(int width) : width(width) {}
    int width;
    Expr mask(attune::Index at) const { return at.i - at.j < width; }
};

template struct attune::RegisterAttention<Empty>;
template struct attune::RegisterAttention<ScoreOfTwo>;
template struct attune::RegisterAttention<MaskNotConst>;
template struct attune::RegisterAttention<ProbabilityOfScore>;
template struct attune::RegisterAttention<NotConstructible>;
