// SPDX-License-Identifier: MIT
// Steps on rows of queries, keys and values: RMS norm, rotary position embedding (RoPE), Hadamard rotation. No tile, no vector
// width, no target.
//
// All arithmetic is strict, in f32 (f64 for f64), so that every schedule and CPU gives the same bits. A step that a call does
// not take has loops without iterations. Loop names: d channel, t row, h head, b batch, e partial sum, k pair of channels.
// Layout innermost first.
#pragma once
#include "Halide.h"
#include <functional>
#include <string>
#include <vector>

namespace attune {

struct RowSteps {
    Halide::Expr has_norm, eps;       // RMS norm with a weight
    Halide::Func weight, weight_f32;  // (d, h): of the type of rows, and of f32
    Halide::Expr weight_is_f32;       // which of the two
    Halide::Func cos, sin;            // (k, position)
    Halide::Func positions;           // (t, b)
    Halide::Expr table_positions;     // rows of the tables
    Halide::Expr halves, neighbours;  // pairs (k, k + halves) and (2k, 2k + 1) that RoPE rotates; one of them is 0
    Halide::Expr first_rotated;       // first channel of the pairs
    Halide::Expr butterflies,
        half_block;                // passes of the Hadamard rotation, and half the channels of its blocks; 0 and 1: none
    Halide::Expr hadamard_factor;  // 1 / sqrt(block), or 1
    Halide::Expr sign = 1;         // of the angles: -1 rotates back
    // Inputs of steps that a call does not take can be read, as the stand-ins of a device are: no stage copies the others.
    bool has_stand_ins = false;
    // Not 0: no row has more channels, for memory of a fixed size. Passes of the Hadamard rotation write two rows in turn.
    int most_channels = 0;

    // A channel, a group of `group` channels and a pass as they are places in memory.
    Halide::Expr channel_place(const Halide::Expr &d, int group = 1) const;
    Halide::Expr pass_place(const Halide::Expr &s) const;
};

struct RowVars {
    Halide::Var d{"d"}, s{"s"}, t{"t"}, h{"h"}, b{"b"}, e{"e"};
};

// Weight of the norm in the type of sums, or 1; with stand-ins an expression, without loops.
struct RowWeight {
    Halide::Func weight;  // (d, h)
    Halide::RVar channel_f32, channel;
};
RowWeight row_weight(const RowSteps &, const RowVars &, Halide::Type sums, Halide::Expr channels, Halide::Expr heads);

// A reduction over the first dimension of f, of 16 numbers, by halves: Funcs of 8, 4 and 2 numbers, and the last step.
struct Halves {
    std::vector<Halide::Func> halves;
    Halide::Expr result;
};
Halves by_halves(const Halide::Func &f, const std::vector<Halide::Var> &others,
                 const std::function<Halide::Expr(Halide::Expr, Halide::Expr)> &combine);

// Sum over the channels of a row in a fixed order: a row is cut in blocks of 16 channels, which are added place by place;
// the 16 sums are added by halves.
struct RowSum {
    static constexpr int places = 16;
    Halide::Func of_places;            // (e, t, h, b)
    Halide::RVar block;                // of channels
    std::vector<Halide::Func> halves;  // (e, t, h, b): 8, 4, 2 sums
    Halide::Expr sum;                  // of row (t, h, b)
};
// element(d, x) of a channel in the type of sums; no blocks are read unless `wanted`.
RowSum row_sum(const std::string &name, const RowVars &, Halide::Type sums, Halide::Expr channels, Halide::Expr wanted,
               const std::function<Halide::Expr(Halide::Expr d)> &element);

// 1 / sqrt(mean of squares + eps), or 1 without a norm.
struct RowNorm {
    RowSum squares;
    Halide::Func factor;  // (t, h, b)
};
RowNorm row_norm(const RowSteps &, const RowVars &, const Halide::Func &x, Halide::Type sums, Halide::Expr channels,
                 const std::string &name = "squares");

// Loops of RoPE: the channels before and behind the rotated ones, and both kinds of pairs, with the number in the pair.
struct RopeLoops {
    Halide::RVar before, after, half_pair, in_half_pair, near_pair, in_near_pair;
};
// Updates of `rotated` at place(d), for each channel d, from source(d).
RopeLoops rotate_pairs(const RowSteps &, Halide::Func rotated, const RowVars &, Halide::Expr channels,
                       const std::function<std::vector<Halide::Expr>(Halide::Expr d)> &place,
                       const std::function<Halide::Expr(Halide::Expr d)> &source);

// Loops of the Hadamard rotation: updates of mixed(d, s, t, h, b), where s passes are done. A pass takes neighbours and puts
// their sum in the lower half of the block and their difference in the upper one. So all passes are alike, and read and write
// whole vectors (constant geometry: Pease, 1968, for the fast Fourier transform).
struct ButterflyLoops {
    Halide::RVar place, difference, block, pass;
    Halide::Expr half;  // of a block: the extent of place
};
ButterflyLoops mix_blocks(const RowSteps &, Halide::Func mixed, const RowVars &, Halide::Expr channels);
// Channel d after all passes.
Halide::Expr after_passes(const RowSteps &, Halide::Func mixed, const RowVars &, Halide::Expr d);

}  // namespace attune
