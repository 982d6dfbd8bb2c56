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

// Ops whose variants dispatch chooses by predicted times, for tensors there.
const std::vector<std::string> &ops(Place = Place::host);
// Throws MachineError, with the reason, where this program has no kernels for a device or no driver runs them.
void check_device_kernels();
bool is_product(const std::string &op);

// The kernels that one fit needs: an op, a type, a kind of attention (else ""), and a head size (else 0).
struct Family {
    std::string op;
    DType dtype = DType::f32;
    std::string kind;
    std::int64_t head_dim = 0;
};
// Every family of an op that has tuned kernels there. For head sizes without kernels of their own three stand.
std::vector<Family> families(const std::string &op, Place = Place::host);

// Sizes that random shapes are drawn from: of at most so many FLOP (tanh) that root would compute, so many queries and keys;
// with a batch of 1 where `single`.
struct Range {
    double work = 0;
    bool single = false;
    double most_rows = 1000, most_keys = 4096;
};
// A random shape of a family: sizes uniform in their logarithms, few rows as often as many.
bench::Shape random_shape(const Family &, std::mt19937_64 &, const Range &);

// The variants that can compute a shape, by name, and whether dispatch chooses among them: not one for any head size where
// there is one for the shape's.
std::vector<std::string> variants_for(const bench::Shape &, Place = Place::host);
bool is_dispatched(const std::string &variant, const bench::Shape &);
detail::CostTerms terms_of(const std::string &variant, const bench::Shape &);
// The coefficients of a variant in the linked library.
detail::CostCoefficients linked_cost(const std::string &variant);
// The shape for which dispatch predicts the times of a choice: on a device not that of the call, whose batch, heads and band do
// not count there.
bench::Shape shape_of_choice(bench::Shape, Place);

// The variant of a name; throws MachineError where none is linked in.
const VariantInfo &info_of(const std::string &variant);

// The library's plan for a shape. `last`: the variant of the last queries or columns, where another one computes them.
struct Planned {
    Status status;
    std::string variant, reason, last;
    std::vector<PlanCandidate> candidates;
};
Planned planned(Context &, const bench::Shape &, Place = Place::host);

SdpaProblem attention_of(const bench::Shape &);
ProductProblem product_of(const bench::Shape &);

}  // namespace attune::dispatch
