// SPDX-License-Identifier: MIT
// Queries of Halide's compiler that the programs that make kernels answer: whether an expression uses a variable, and whether
// bounds are infinite.
#include "lowering/halide_patches/uses_variable.h"
#include "tests/support/catch.h"
#include <dlfcn.h>

namespace {
using namespace Halide;
using namespace Halide::Internal;

Expr variable(const std::string &name) { return Variable::make(Int(32), name); }

bool as_halide_answers(const Expr &expression, const std::string &name, const Scope<Expr> &bound) {
    Scope<> asked;
    asked.push(name);
    ExprUsesVars<void> uses(asked, &bound);
    expression.accept(&uses);
    return uses.result;
}
}  // namespace

TEST_CASE("libHalide's question is answered by the program", "[user_attention]") {
    const char *name = "_ZN6Halide8Internal21stmt_or_expr_uses_varINS_4ExprEEEbRKT_"
                       "RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKNS0_5ScopeIS2_EE";
    CHECK(dlsym(RTLD_DEFAULT, name) == reinterpret_cast<void *>(&attune::expression_uses_variable));
}

TEST_CASE("an expression uses the variables that Halide says it does", "[user_attention]") {
    const Expr shared = variable("a") + variable("b");
    const std::vector<Expr> expressions = {
        Expr(3),
        variable("a"),
        shared * shared,
        Let::make("c", variable("a"), variable("c") * 2),
        Call::make(Int(32), "f", {shared}, Call::PureExtern),
        Load::make(Int(32), "g", variable("b"), Buffer<>(), Parameter(), const_true(), ModulusRemainder()),
        select(variable("a") < 2, min(variable("t1"), 4), cast<int>(cast<float>(variable("t2"))))};
    Scope<Expr> bound;
    bound.push("t2", variable("d"));
    // Three times: computed, from the cache, and after others have reused the memory of these.
    for (int time = 0; time < 3; time++) {
        for (const Expr &expression : expressions) {
            for (const char *name : {"a", "b", "c", "d", "f", "g", "t", "t1", "t2", "none"}) {
                CAPTURE(time, expression, name);
                for (const Scope<Expr> *scope : {&Scope<Expr>::empty_scope(), (const Scope<Expr> *)&bound})
                    CHECK(attune::expression_uses_variable(expression, name, *scope) ==
                          as_halide_answers(expression, name, *scope));
            }
        }
        std::vector<Expr> others;
        for (int i = 0; time == 1 && i < 100000; i++) {
            others.push_back(variable("t" + std::to_string(i)));
            REQUIRE(attune::expression_uses_variable(others.back(), "t" + std::to_string(i), Scope<Expr>::empty_scope()));
        }
    }
}

TEST_CASE("libHalide's questions for infinite bounds are answered by the program", "[user_attention]") {
    for (const char *name : {"_ZNK6Halide8Internal8Interval8is_emptyEv", "_ZNK6Halide8Internal8Interval15has_upper_boundEv",
                             "_ZNK6Halide8Internal8Interval15has_lower_boundEv"}) {
        CAPTURE(name);
        Dl_info definition;
        void *symbol = dlsym(RTLD_DEFAULT, name);
        REQUIRE(symbol);
        REQUIRE(dladdr(symbol, &definition));
        CHECK(std::string(definition.dli_fname).find("libHalide") == std::string::npos);
    }
}

TEST_CASE("an interval has the bounds that Halide says it has", "[user_attention]") {
    const Expr x = variable("x");
    for (const Interval &i :
         {Interval::everything(), Interval::nothing(), Interval(x, x + 1), Interval(Interval::neg_inf(), x),
          Interval(x, Interval::pos_inf()), Interval(Interval::pos_inf(), x), Interval(x, Interval::neg_inf())}) {
        const bool empty = i.min.same_as(Interval::pos_inf()) || i.max.same_as(Interval::neg_inf());
        CAPTURE(i.min, i.max);
        CHECK(i.is_empty() == empty);
        CHECK(i.has_upper_bound() == (!i.max.same_as(Interval::pos_inf()) && !empty));
        CHECK(i.has_lower_bound() == (!i.min.same_as(Interval::neg_inf()) && !empty));
    }
}
