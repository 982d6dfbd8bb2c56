// SPDX-License-Identifier: MIT
// Shapes as dispatch sees them: the variants that can compute a shape, the terms of their predicted times, and random shapes.
#pragma once
#include "bench/cases/shapes.h"
#include <attune/context.h>
#include <attune/detail/cost.h>
#include <attune/variants.h>
#include <random>
#include <string>
#include <vector>

namespace attune::dispatch {

// Ops whose variants dispatch chooses by predicted times.
const std::vector<std::string> &ops();
bool is_product(const std::string &op);

// The kernels that one fit needs: an op, a type, a kind of attention (else ""), and a head size (else 0).
struct Family {
    std::string op;
    DType dtype = DType::f32;
    std::string kind;
    std::int64_t head_dim = 0;
};
// Every family of an op that has tuned kernels here. For head sizes without kernels of their own three stand.
std::vector<Family> families(const std::string &op);

// A random shape of a family: sizes uniform in their logarithms, few rows as often as many, of at most `work` FLOP (tanh) that
// root would compute. With a batch of 1 where `fit`.
bench::Shape random_shape(const Family &, std::mt19937_64 &, double work, bool fit);

// The variants that can compute a shape, by name, and whether dispatch chooses among them: not one for any head size where
// there is one for the shape's.
std::vector<std::string> variants_for(const bench::Shape &);
bool is_dispatched(const std::string &variant, const bench::Shape &);
detail::CostTerms terms_of(const std::string &variant, const bench::Shape &);

// The variant of a name; throws MachineError where none is linked in.
const VariantInfo &info_of(const std::string &variant);

// The library's plan for a shape. `last`: the variant of the last queries or columns, where another one computes them.
struct Planned {
    Status status;
    std::string variant, reason, last;
    std::vector<PlanCandidate> candidates;
};
Planned planned(Context &, const bench::Shape &);

SdpaProblem attention_of(const bench::Shape &);
ProductProblem product_of(const bench::Shape &);

}  // namespace attune::dispatch
