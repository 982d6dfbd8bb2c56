// SPDX-License-Identifier: MIT
#include "generators/attention/equations/scores.h"
#include "generators/attention/equations/masked.h"
#include "generators/math/accumulator.h"
#include "generators/math/bits.h"
#include "generators/math/tanh.h"
#include <cmath>

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

Func inverse_norms(const std::string &name, const std::function<Expr(const Expr &d)> &x, const std::vector<Var> &row,
                   const Expr &head_dim, Type type) {
    // Separate sums for the squares of small and of large numbers, which are scaled by 2^shift and 2^-shift (Blue 1978).
    const bool narrow = type.bits() == 32;
    const int shift = narrow ? 58 : 500;
    const Expr zero = make_const(type, 0), up = make_const(type, std::ldexp(1, shift)),
               down = make_const(type, std::ldexp(1, -shift));
    const Expr most = make_const(type, std::ldexp(1, narrow ? 120 : 1000)),
               least = make_const(type, std::ldexp(1, narrow ? -126 : -1022));
    RDom d(0, head_dim, name + "_channel");
    const Expr small = cast(type, x(d)) * up, large = cast(type, x(d)) * down;
    Func squares(name + "_squares"), inverse(name);
    squares(row) = Tuple(zero, zero);
    squares(row) = Tuple(squares(row)[0] + strict_float(small * small), squares(row)[1] + strict_float(large * large));
    const Expr of_small = squares(row)[0], of_large = squares(row)[1];
    // Strict comparisons that are false for NaN.
    const Expr bounded = strict_float(select(of_small < least, least, of_small));
    inverse(row) = strict_float(select(of_small == zero, zero, of_small < most, up / sqrt(bounded), down / sqrt(of_large)));
    return inverse;
}

namespace {

// The power of two in front of the significand of a non-negative number; at least the smallest normal number.
Expr power_of_two(const Expr &x) {
    const Type type = x.type(), bits = UInt(type.bits());
    const int mantissa = type.bits() == 32 ? 23 : 52;
    const Expr exponent = make_const(bits, uint64_t((1 << (type.bits() == 32 ? 8 : 11)) - 1) << mantissa);
    return reinterpret(type, max(bits_of(x) & exponent, make_const(bits, uint64_t(1) << mantissa)));
}

}  // namespace

PairTerm cosine_pair(Func &query, Func &key, const Expr &head_dim, Type type, bool scales_keys) {
    const Var d("d"), s("s"), h("h"), b("b");
    PairTerm pair;
    // 1 / |x| of each row of x.
    auto inverse_of = [&](const std::string &name, const Func &x) {
        pair.prepared.push_back(inverse_norms(
            name, [&](const Expr &d) -> Expr { return x(d, s, h, b); }, {s, h, b}, head_dim, type));
        return pair.prepared.back();
    };
    // x becomes rows of norms from 1/2 to 1; 1 / |x| of these.
    auto scale_rows = [&](const std::string &name, Func &x) {
        const Func rows = x, inverse = inverse_of(name + "_inverse_norm", x);
        const Expr power = power_of_two(inverse(s, h, b));
        Func norm(name + "_norm");
        norm(s, h, b) = strict_float(inverse(s, h, b) / power);
        x = Func("scaled_" + name);
        x(d, s, h, b) = strict_float(cast(type, rows(d, s, h, b)) * power);
        pair.prepared.push_back(norm);
        return norm;
    };
    const Func query_norm = scale_rows("query", query);
    const Func key_norm = scales_keys ? scale_rows("key", key) : inverse_of("key_norm", key);
    pair.finish = [=](Expr sum, const Index &at) {
        return sum * query_norm(at.i, at.h, at.b) * key_norm(at.j, at.key_head, at.b);
    };
    pair.unit_rows = true;
    return pair;
}

PairTerm gaussian_pair(Type type) {
    PairTerm pair;
    pair.term = [](Expr q, Expr k) { return q - k; };
    pair.contribution = [](Expr difference) { return difference * difference; };
    pair.finish = [type](Expr sum, const Index &) { return sum * make_const(type, -0.5); };
    return pair;
}

PairTerm additive_pair(const AdditiveInputs &additive, Type type) {
    PairTerm pair;
    pair.term = [](Expr q, Expr k) { return tanh(q + k); };
    pair.weight = [additive](Expr d) { return additive.weight(d); };
    pair.finish = [additive, type](Expr sum, const Index &) { return sum + cast(type, additive.bias); };
    return pair;
}

PairTerm additive_separable_pair(const AdditiveInputs &additive, Type type) {
    const Expr one = make_const(type, 1), two = make_const(type, 2);
    PairTerm pair = additive_pair(additive, type);
    pair.query = pair.key = [=](Expr x) { return exp_of(x * two); };
    // Not 1 - 2 / (e + 1) with the ones summed apart: sums of terms of one sign have larger rounding errors. The quotient is
    // strict and of named numbers: code generation would multiply by the weight before it divides, which overflows.
    pair.computed = [=](Expr q, Expr k) {
        const std::string above = Internal::unique_name("above"), below = Internal::unique_name("below");
        const Expr quotient = strict_float(Internal::Variable::make(type, above) / Internal::Variable::make(type, below));
        return Internal::Let::make(above, q * k - one, Internal::Let::make(below, q * k + one, quotient));
    };
    return pair;
}

ScoreStep softcap_step(Expr cap, Type type) {
    ScoreStep step;
    step.score = [=](Expr x, const Index &) { return cast(type, cap) * tanh(x * cast(type, make_const(Float(64), 1) / cap)); };
    step.when = cap > 0;
    return step;
}

ScoreStep bias_step(const Func &bias, Expr given) {
    ScoreStep step;
    step.score = [=](Expr x, const Index &at) { return x + cast(x.type(), at.of_pair(bias)); };
    step.mask = [=](const Index &at) {
        Expr value = at.of_pair(bias);
        value = cast(accumulator_of(value.type()), value);
        return !is_masked(value);
    };
    step.when = given;
    step.reads_pairs = step.may_mask = true;
    return step;
}

ScoreStep alibi_step(const Func &slopes, Expr given, Type type) {
    ScoreStep step;
    step.score = [=](Expr x, const Index &at) {
        return x - cast(type, slopes(at.h, at.b)) * abs(cast(type, at.position - at.j));
    };
    step.when = given;
    return step;
}

ScoreStep mask_step(const Func &mask, Expr given) {
    ScoreStep step;
    step.mask = [=](const Index &at) { return at.of_pair(mask) != 0; };
    step.when = given;
    step.reads_pairs = step.may_mask = true;
    return step;
}

}  // namespace attune
