// What the stages of products with a matrix share.
#pragma once
#include "generators/linear/linear_stages.h"

namespace attune {

// Row m of x at k. A tile may reach beyond the last row: what is read there instead is never stored.
Halide::Expr element_of_row(const LinearStages &, const LinearInputs &, const Halide::Expr &k);

// The bias and the sum of the partials, of chunk c and, in pairs, strand u.
void add_partials(LinearStages &, const LinearInputs &, const LinearShape &);

// The product, and what is added last if that is given, in the type of x.
void add_output(LinearStages &, const LinearInputs &, const Halide::Expr &last = {});

}  // namespace attune
