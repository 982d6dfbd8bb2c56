// SPDX-License-Identifier: MIT
// Merge of attentions by SIMT lanes. The form differs from merge_stages.h because no lse may be copied beside the others on a
// device: each part has a buffer of its own, and all parts are added at once. No tile, no number of lanes, no target.
//
// Loop names: d channel, i query, h head, b batch. Layout innermost first.
#pragma once
#include "Halide.h"
#include <array>
#include <functional>
#include <string>
#include <vector>

namespace attune {

constexpr int merged_on_device = 8;

struct MergeSimtInputs {
    std::array<Halide::Func, merged_on_device> out, lse;  // (d, i, h, b) and (i, h, b) of parts, f32
    Halide::Expr count;                                   // of parts; the others are read and have no effect
};

// Values that a row has once, (i, h, b), in the order in which they are computed: the lse of each part, -inf beyond the last;
// the largest of the first parts; exp(lse - largest lse); and its share among all parts.
struct MergeSimtRow {
    std::array<Halide::Func, merged_on_device> part_lse, largest, weight, share;
    std::vector<Halide::Func> all() const;
};

struct MergeSimtStages {
    MergeSimtRow of_out, of_lse;
    Halide::Func out;  // (d, i, h, b): the sum, as stored
    Halide::Func lse;  // (i, h, b)

    Halide::Var d{"d"}, i{"i"}, h{"h"}, b{"b"};
};

MergeSimtStages merge_simt_stages(const MergeSimtInputs &, const std::function<Halide::Expr(Halide::Expr)> &stored);

}  // namespace attune
