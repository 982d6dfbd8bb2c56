// SPDX-License-Identifier: MIT
// Parts that the prefetch passes share.
#pragma once
#include "lowering/passes/places.h"
#include "lowering/passes/prefetch.h"
#include "lowering/required_pass.h"
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace attune {
// Defined in prefetch_next.cpp and prefetch_stores.cpp.
Halide::Internal::IRMutator *prefetch_pass(const Halide::ImageParam &input, const PrefetchRuns &);
Halide::Internal::IRMutator *prefetch_pass(const Halide::ImageParam &input, const PrefetchRows &);
Halide::Internal::IRMutator *prefetch_pass(const PrefetchStores &);
}  // namespace attune

namespace attune::prefetch_parts {
using namespace Halide;
using namespace Halide::Internal;

inline Stmt fetch_into_all_caches(const Expr &address) {
    constexpr int read = 0, all_caches = 3, data = 1;
    return Evaluate::make(
        Call::make(Int(32), "llvm.prefetch.p0", {reinterpret(Handle(), address), read, all_caches, data}, Call::Extern));
}

// Places where the loads of a buffer begin, one for loads that share a line; in loops inside, those of all rounds.
class Places : public IRVisitor {
    using IRVisitor::visit;
    const std::string &buffer_;
    const Lets &around_;             // outside the code that is visited
    Lets lets_;                      // inside it
    std::vector<Expr> written_out_;  // of `found`

    template<typename T> void visit_let(const T *op) {
        op->value.accept(this);
        lets_[op->name] = substitute(lets_, op->value);
        op->body.accept(this);
        lets_.erase(op->name);
    }
    void visit(const Let *op) override { visit_let(op); }
    void visit(const LetStmt *op) override { visit_let(op); }
    void visit(const For *op) override {
        const auto rounds = as_const_int(op->extent);
        if (!rounds) return IRVisitor::visit(op);
        for (int n = 0; n < *rounds; n++) {
            lets_[op->name] = simplify(substitute(lets_, op->min) + n);
            op->body.accept(this);
        }
        lets_.erase(op->name);
    }
    void visit(const Load *op) override {
        IRVisitor::visit(op);
        const Ramp *ramp = op->index.as<Ramp>();
        const Expr place = substitute(lets_, ramp ? ramp->base : op->index);
        if (op->name != buffer_ || !place.type().is_scalar()) return;
        element_bytes = op->type.bytes();
        const Expr here = written_out(place, around_);
        for (const Expr &other : written_out_) {
            const auto apart = as_const_int(simplify(here - other));
            if (apart && std::abs(*apart) * element_bytes < cache_line_bytes) return;
        }
        found.push_back(place), written_out_.push_back(here);
    }

public:
    std::vector<Expr> found;  // in elements
    int element_bytes = 1;
    Places(const std::string &buffer, const Lets &around) : buffer_(buffer), around_(around) {}
};

// Pass that fetches lines of a buffer that `inner` reads or stores later.
class Fetch : public RequiredPass {
protected:
    using RequiredPass::visit;
    const std::string buffer_;
    const LoweredLoop inner_;

    Expr address(const Expr &bytes) const {
        return reinterpret(UInt(64), Variable::make(Handle(), buffer_)) + reinterpret(UInt(64), bytes);
    }
    static Expr counter(const std::string &loop) { return Variable::make(Int(32), loop); }
    static Stmt with_body(const For *op, const Stmt &body) {
        return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api, body);
    }

public:
    // `accesses`: "reads" an input or "stores" an output.
    Fetch(const std::string &buffer, const LoweredLoop &inner, const std::string &accesses = "reads")
        : RequiredPass("nothing to fetch: no loop over " + inner.var + " of " + inner.func.name() + " " + accesses + " " +
                       buffer),
          buffer_(buffer), inner_(inner) {}
};

}  // namespace attune::prefetch_parts
