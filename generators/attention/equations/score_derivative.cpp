// SPDX-License-Identifier: MIT
#include "generators/attention/equations/score_derivative.h"
#include <map>
#include <utility>

namespace attune {
using namespace Halide;
using Halide::Internal::Call;
using Halide::Internal::is_const;
using Halide::Internal::make_const;
using Halide::Internal::Variable;

namespace {

// Expression taken out of its loops. Halide differentiates pipelines, and does so well only for a function of one number, so
// every buffer element and every index that the expression reads becomes a constant of a pipeline without dimensions.
class Detach : public Internal::IRMutator {
public:
    struct Read {
        Func stand_in;
        Expr original;
    };
    std::vector<Read> reads;
    std::map<std::string, Expr> originals;  // scalars, by the name of their stand-in
    explicit Detach(std::string score) : score_(std::move(score)) {}
    using Internal::IRMutator::mutate;
    // Integers are replaced as a whole: nothing is differentiated by an index.
    Expr mutate(const Expr &e) override {
        if (!e.type().is_int_or_uint() || e.type().is_bool() || is_const(e)) return IRMutator::mutate(e);
        Param<void> stand_in(e.type());
        originals.emplace(stand_in.name(), e);
        return stand_in;
    }

private:
    std::string score_;

    Expr visit(const Call *op) override {
        if (op->call_type != Call::Halide && op->call_type != Call::Image) return IRMutator::visit(op);
        if (op->name == score_) return op;
        for (const Read &r : reads)
            if (Internal::equal(r.original, op)) return r.stand_in();
        Func stand_in("read");
        stand_in() = make_const(op->type, 0);
        reads.push_back({stand_in, op});
        return stand_in();
    }
    Expr visit(const Variable *op) override {
        if (op->param.defined()) return op;
        Param<void> stand_in(op->type);
        originals.emplace(stand_in.name(), op);
        return stand_in;
    }
};

// Inverse of Detach.
class Attach : public Internal::IRMutator {
public:
    std::map<std::string, Expr> calls, scalars;

private:
    Expr visit(const Call *op) override {
        auto found = calls.find(op->name);
        return op->call_type == Call::Halide && found != calls.end() ? found->second : IRMutator::visit(op);
    }
    Expr visit(const Variable *op) override {
        auto found = scalars.find(op->name);
        return found != scalars.end() ? IRMutator::mutate(found->second) : op;  // an index may be made of the score
    }
};

// 1 / cosh^2 rewritten as 1 - tanh^2: the tanh is computed already.
class BySquareOfTanh : public Internal::IRMutator {
    using Internal::IRMutator::visit;
    static const Call *cosh_of(const Expr &e) {
        const Call *call = e.as<Call>();
        return call && (call->name == "cosh_f32" || call->name == "cosh_f64") ? call : nullptr;
    }
    Expr visit(const Internal::Div *op) override {
        const auto *square = op->b.as<Internal::Mul>();
        const Call *cosh = square && Internal::equal(square->a, square->b) ? cosh_of(square->a) : nullptr;
        if (!cosh) return IRMutator::visit(op);
        const Expr t = tanh(mutate(cosh->args[0]));
        return mutate(op->a) * (make_const(t.type(), 1) - t * t);
    }
};

struct Detached {
    Func score{"score_value"}, result{"step_value"};
    Detach parts{score.name()};
    Derivative derivative;
    Expr original_score;

    static Func step_of(Detached &d, const ScoreFunction &step, const Expr &score, const Index &at) {
        d.score() = make_const(score.type(), 0);
        d.result() = d.parts.mutate(step(d.score(), at));
        return d.result;
    }
    Detached(const ScoreFunction &step, const Expr &score, const Index &at)
        : derivative(propagate_adjoints(step_of(*this, step, score, at))), original_score(score) {}

    Expr by(const Func &x) const {
        const Func adjoint = derivative(x);
        if (!adjoint.defined()) return make_const(original_score.type(), 0);
        if (adjoint.has_update_definition()) throw CompileError("attune: a score has a derivative of several parts\n");
        Attach back;
        back.calls = {{score.name(), original_score}, {derivative(result).name(), make_const(original_score.type(), 1)}};
        for (const Detach::Read &r : parts.reads) back.calls[r.stand_in.name()] = r.original;
        back.scalars = parts.originals;
        return Internal::simplify(
            BySquareOfTanh().mutate(Internal::substitute_in_all_lets(Internal::simplify(back.mutate(adjoint.value())))));
    }
};

}  // namespace

Expr score_derivative(const ScoreFunction &step, const Expr &score, const Index &at) {
    const Detached d(step, score, at);
    return d.by(d.score);
}

TermDerivatives term_derivatives(const PairTerm &pair, const Expr &value) {
    const Expr query = Variable::make(value.type(), "query_element"), key = Variable::make(value.type(), "key_element");
    const Expr term = Internal::simplify(pair.term(query, key));
    auto derivative = [&](const ScoreFunction &of, const Expr &by) {
        const Expr found = Internal::substitute(term, value, score_derivative(of, by, {}));
        if (Internal::expr_uses_var(found, "query_element") || Internal::expr_uses_var(found, "key_element"))
            throw CompileError("attune: a term has a derivative that does not follow from the term\n");
        return found;
    };
    return {derivative([&](Expr x, const Index &) { return pair.term(x, key); }, query),
            derivative([&](Expr x, const Index &) { return pair.term(query, x); }, key)};
}

std::vector<CaptureDerivative> capture_derivatives(const ScoreFunction &step, const Expr &score, const Index &at) {
    const Detached d(step, score, at);
    std::vector<CaptureDerivative> list;
    for (const Detach::Read &r : d.parts.reads) {
        const Call *call = r.original.as<Call>();
        if (call->type.is_float()) list.push_back({call->name, call->args, d.by(r.stand_in)});
    }
    return list;
}

}  // namespace attune
