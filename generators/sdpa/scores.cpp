#include "generators/sdpa/scores.h"
#include "generators/math/accumulator.h"
#include "generators/math/tanh.h"
#include "generators/sdpa/builder.h"

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

namespace {

// Of each row x(., s, h, b).
Func inverse_norms(const std::string &name, const Func &x, Expr head_dim, Type type) {
    Var s("s"), h("h"), b("b");
    RDom d(0, head_dim, name + "_channel");
    Func squares(name + "_squares"), norm(name);
    Expr e = cast(type, x(d, s, h, b));
    squares(s, h, b) = make_const(type, 0);
    squares(s, h, b) += e * e;
    norm(s, h, b) = inverse_norm(squares(s, h, b));
    return norm;
}

}  // namespace

Expr inverse_norm(const Expr &squares) {
    const Expr zero = make_const(squares.type(), 0), one = make_const(squares.type(), 1);
    return select(strict_float(squares == zero), zero, one / sqrt(squares));
}

PairTerm cosine_pair(const SdpaInputs &in, Type type) {
    Func query_norm = inverse_norms("query_norm", in.query, in.head_dim, type);
    Func key_norm = inverse_norms("key_norm", in.key, in.head_dim, type);
    PairTerm pair;
    pair.finish = [=](Expr sum, const Index &at) {
        return sum * query_norm(at.i, at.h, at.b) * key_norm(at.j, at.key_head, at.b);
    };
    pair.prepared = {query_norm, key_norm};
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
    // Not as 1 - 2 / (e + 1) with the ones summed apart: sums of terms of one sign round off more.
    // A strict quotient of named numbers: code generation would multiply by the weight before it divides, which overflows.
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
        return !strict_float(value < make_const(value.type(), lowest_max));
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
