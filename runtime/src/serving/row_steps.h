// SPDX-License-Identifier: MIT
// Steps on rows (RowSteps) as kernels take them: checked, with tables of the call's own where RoPE has a base.
#pragma once
#include "attune/rows.h"
#include "dispatch/op_call.h"
#include "execution/halide_call.h"
#include "execution/scratch.h"
#include <cstdint>
#include <string>
#include <string_view>

namespace attune {

// Steps of rows (B, H, T, D). Views are checked, and not given where there is no such step.
struct StepsOfRows {
    Rope rope;
    double norm_eps = 1;
    ConstView norm_weight;                    // (H, D)
    ConstView positions;                      // (B, T)
    std::int64_t halves = 0, neighbours = 0;  // pairs that RoPE rotates, of the one kind or the other
    int butterflies = 0;                      // log2 of the block of the Hadamard rotation

    bool any() const { return norm_weight.given() || halves + neighbours > 0 || butterflies > 0; }
};

// Checks the steps on rows `x` of rank 4; `prefix` stands before the names of their members, such as "key_steps.".
Status check_steps(const std::string &prefix, const RowSteps &, const ConstView &x, StepsOfRows &);
// Checks positions, i32 (B, T), against the tables of the steps; `shape` names their extents. On a device nothing is read.
Status check_positions(std::string_view name, ConstView positions, std::string_view shape, const ConstView &x, bool on_device,
                       StepsOfRows &);
// Checks for a Hadamard rotation of these rows, and adds it.
Status check_hadamard(const std::string &name, const ConstView &x, StepsOfRows &);
Status check_rope_base(const std::string &prefix, double base, double scaling);

// Rows of rank 3, (T, H, D), as (1, H, T, D).
template<typename Data> BasicView<Data> as_rows_of_heads(BasicView<Data> v) {
    if (v.rank == 4) return v;
    constexpr int from[] = {-1, 1, 0, 2};
    BasicView<Data> w = v;
    w.rank = 4;
    for (int n = 0; n < 4; n++) {
        w.extent[n] = from[n] < 0 ? 1 : v.extent[from[n]];
        w.stride[n] = from[n] < 0 ? 0 : v.stride[from[n]];
    }
    return w;
}

// Fills tables f32 (positions, pairs) with the cosines and sines of count positions: of `positions`, (B, T), in order, or 0, 1,
// ... where it is not given.
void fill_rope_tables(double base, double scaling, const ConstView &positions, const View &cos, const View &sin);

// Tables of RoPE that kernels read, and the row of the tables of each row: the caller's, or the call's own in scratch, which
// have one row for each row of x in turn.
class StepTables {
public:
    StepTables(Context::State &, const StepsOfRows &, const ConstView &x);
    // Not ok: no memory for tables, or tables that are too large.
    Status status;
    ConstView cos, sin;   // (positions, pairs)
    ConstView positions;  // (B, T)

private:
    ScratchBlock own_;
};

// Inputs of kernels that hold the steps. Inputs of steps that a call does not take have extents, and memory that is not read.
struct StepInputs {
    StepInputs(const StepsOfRows &, const StepTables &, const ConstView &x);

    HalideBuffer positions, cos, sin, norm_weight, norm_weight_f32;
    bool has_norm, weight_is_f32;
    double norm_eps, hadamard_factor;
    std::int32_t halves, neighbours, first_rotated, butterflies, half_block;
};

// The factor of the Hadamard rotation, 1 / sqrt(block), and half its block; without one both are 1.
double hadamard_factor(const StepsOfRows &);
std::int32_t half_block(const StepsOfRows &);

// Elements of a type that kernels neither read nor write.
ConstView not_read(DType, std::initializer_list<std::int64_t> extents);

// Threads that steps on so many elements are worth.
int threads_of_rows(const Context::State &, const ConstView &x);

}  // namespace attune
