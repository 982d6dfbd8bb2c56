// SPDX-License-Identifier: MIT
// Structs that compile but are mistakes. The environment variable MISTAKE names the struct that the program uses.
#include "generators/attention/equations/register_attention.h"
#include <cstdlib>
#include <string_view>

namespace {

using attune::Capture, attune::Index, Halide::Expr;

struct WrongNumberOfIndices {
    Capture slopes{"slopes", 1};
    Expr score(Expr x, Index at) const { return x + slopes(at.b, at.h); }
};
struct MaskIsNumber {
    Expr mask(Index at) const { return at.position - at.j; }
};
struct ScoreIsBoolean {
    Expr score(Expr x, Index) const { return x > 0; }
};
struct FactorIsBoolean {
    Expr probability(Index at) const { return at.i < at.j; }
};
struct ScoreIsConstant {
    Expr score(Expr, Index) const { return Expr(1.0f); }
};
struct ScoreIsUndefined {
    Expr score(Expr, Index) const { return {}; }
};
struct UnknownType {
    Capture table{"table", Halide::UInt(16), 1};
    Expr score(Expr x, Index at) const { return x + table(at.j); }
};
struct TwoOfOneName {
    Capture slopes{"slopes", 1}, others{"slopes", 1};
    Expr score(Expr x, Index at) const { return x + slopes(at.h) + others(at.h); }
};
struct NoName {
    Capture slopes{"two words", 1};
    Expr score(Expr x, Index at) const { return x + slopes(at.h); }
};
struct Named {
    Capture slopes{std::getenv("CAPTURE"), 1};
    Expr score(Expr x, Index at) const { return x + slopes(at.h); }
    Expr mask(Index at) const { return at.j <= at.i; }
};
struct FloatFactor {
    Expr score(Expr x, Index at) const { return x * 0.1f - 0.5f * at.j; }
};
struct FloatOfIndex {
    Expr mask(Index at) const { return 0.7f * at.j < 1.0f * at.i; }
};
struct FloatInFunction {
    Capture decay{"decay", 1};
    Expr probability(Index at) const { return max(exp(-decay(at.h)), 1e-3f); }
};
// A right struct, with every form in which a double may be written.
struct Doubles {
    Capture rate{"rate", 1};
    Expr score(Expr x, Index at) const {
        Expr y = x * 0.1 + 0.7 * at.j - 341 / 1024. / (2.5 + rate(at.h));
        y = 0.1 - y, y *= 1.1, y += 0.2, y -= 0.3, y /= 0.4;
        y = select(x > 0.1, y, 0.9) + select(0.1 <= x, 0.7, y) + select(x == 0.3 || x != 0.2, 0.1, 0.2);
        y = clamp(max(min(y, 1.7), -1.7), -0.9, 0.9) + clamp(y, -0.7, x) + clamp(y, x, 0.7) + pow(abs(y), 1.3) + pow(0.3, y);
        return y + max(x, y, 0.1) + attune::number(0.6);
    }
    Expr mask(Index at) const { return at.j * 0.7 < at.i * 1.1 && 0.3 > at.j - 0.1 * at.i && at.j >= -0.2; }
    Expr probability(Index at) const { return exp(-0.07 * at.j); }
};
struct TooManyDimensions {
    Capture table{"table", 5};
    Expr score(Expr x, Index at) const { return x + table(at.b, at.h, at.i, at.j, 0); }
};
struct BooleanScalar {
    Capture on{"on", Halide::Bool(), 0};
    Expr score(Expr x, Index) const { return select(on(), x, -x); }
};
struct ElementOfScore {
    Capture table{"table", 1};
    Expr score(Expr x, Index) const { return x + table(clamp(Halide::cast<int>(x), 0, 9)); }
};
const Capture outside{"outside", 1};
struct NoMember {
    Expr score(Expr x, Index at) const { return x + outside(at.h); }
};

template<typename User> void register_if_named(std::string_view name) {
    const char *asked = std::getenv("MISTAKE");
    if (asked && name == asked) attune::RegisterAttention<User>(std::string(name));
}
const bool registered = [] {
    register_if_named<WrongNumberOfIndices>("WrongNumberOfIndices");
    register_if_named<MaskIsNumber>("MaskIsNumber");
    register_if_named<ScoreIsBoolean>("ScoreIsBoolean");
    register_if_named<FactorIsBoolean>("FactorIsBoolean");
    register_if_named<ScoreIsConstant>("ScoreIsConstant");
    register_if_named<ScoreIsUndefined>("ScoreIsUndefined");
    register_if_named<UnknownType>("UnknownType");
    register_if_named<TwoOfOneName>("TwoOfOneName");
    register_if_named<NoName>("NoName");
    register_if_named<Named>("Named");
    register_if_named<FloatFactor>("FloatFactor");
    register_if_named<FloatOfIndex>("FloatOfIndex");
    register_if_named<FloatInFunction>("FloatInFunction");
    register_if_named<Doubles>("Doubles");
    register_if_named<TooManyDimensions>("TooManyDimensions");
    register_if_named<BooleanScalar>("BooleanScalar");
    register_if_named<ElementOfScore>("ElementOfScore");
    register_if_named<NoMember>("NoMember");
    return true;
}();

}  // namespace
