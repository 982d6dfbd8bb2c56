// What is computed where the lanes of a warp multiply matrices together. Another form than LaneStages because the instruction
// (m16n8k16, of two 16-bit types with sums in f32) says which elements a lane holds: of 16 rows two, of their keys and channels
// a quarter. Its result is laid out as its first operand, so weights never leave the registers of a lane.
// Scores, masks, lengths and bands are those of sdpa_stages.h: rows of a tile are slots, a row as one lane holds it.
//
// Names: l lane of a block, e register of a fragment, p product of 16 rows, n group of 8 columns, m group of 16 terms of a sum,
// w word of two elements. Slot r of a tile is row r % lane_rows of lane r / lane_rows.
#pragma once
#include "generators/sdpa/builder.h"
#include <array>

namespace attune {

constexpr int lanes_of_warp = 32, rows_of_product = 16, lanes_of_row = 4;

struct FragmentShape {
    int rows;       // of a block, which walks the keys for all of them together: a multiple of those of a warp
    int lane_rows;  // 2 of each product of matrices
    int channels;   // of a head, a multiple of 16
    int chunk;      // keys, a multiple of 16
    int products() const { return lane_rows / 2; }
    int warp_rows() const { return products() * rows_of_product; }
    int warps() const { return rows / warp_rows(); }
    int lanes() const { return warps() * lanes_of_warp; }
    int slots() const { return lane_rows * lanes(); }
    int lane_keys() const { return chunk / lanes_of_row; }
    int lane_channels() const { return channels / lanes_of_row; }
};

// Where in a lane's part of the running softmax what lies: rows and channels of the lane.
struct RunningPart {
    const FragmentShape &shape;
    // Register e of the product of matrices of 16 rows and a group of 8 channels; and of a row of the lane.
    int weighted(int product, int group, int e) const { return (product * (shape.channels / 8) + group) * 4 + e; }
    int weighted(int row, int channel) const { return weighted(row / 2, channel / 2, row % 2 * 2 + channel % 2); }
    int sum(int row) const { return shape.lane_rows * shape.lane_channels() + row; }
    int max(int row) const { return sum(shape.lane_rows) + row; }
    int size() const { return max(shape.lane_rows); }
};

// What instructions of a target compute.
struct FragmentInstructions {
    std::function<Halide::Expr(Halide::Expr)> exp2, reciprocal;
    std::function<Halide::Expr(Halide::Expr, Halide::Expr)> max;  // of two numbers; what it makes of a NaN does not matter
    // Two floats, rounded, as a word.
    std::function<Halide::Expr(Halide::Expr low, Halide::Expr high)> pair;
    // Register e of a product of matrices and a sum, of register e, e % 2 and e of the operands. For all four e at once; and of
    // operands given whole.
    std::function<Halide::Expr(Halide::Expr a, Halide::Expr b, Halide::Expr sum)> multiply;
    std::function<Halide::Expr(const std::array<Halide::Expr, 4> &a, const std::array<Halide::Expr, 2> &b,
                               const std::array<Halide::Expr, 4> &sum, int e)>
        element;
    // Register e of what a lane gets of four matrices of 8 by 8 elements: of matrix e the elements 2 * (l % 4) and the next of
    // row l / 4, or where they are transposed of column l / 4. A lane's operand is the first word of row l % 8 of matrix l / 8.
    std::function<Halide::Expr(Halide::Expr row, Halide::Expr e, bool transposed)> matrices;
    // The word at an address, copied together with those beside it that share 16 bytes: `given` of these, the others are 0.
    std::function<Halide::Expr(Halide::Expr address, Halide::Expr given)> copied;
    // x of the lane whose number differs in these bits. Lanes of a row differ in 1 and 2.
    std::function<Halide::Expr(Halide::Expr x, int bits)> exchange;
};

// The inputs as they are in memory, 16 bits an element: (d, s, h, b) or, of keys and values, where that element is, in bytes.
struct HalfInputs {
    using Address = std::function<Halide::Expr(Halide::Expr d, Halide::Expr j, Halide::Expr h, Halide::Expr b)>;
    Halide::Func query;
    Address key, value;
};

struct FragmentPartials {
    SdpaPartials p;                       // (r, k, c, t, h, b) score, logit with its steps; k counts the keys of a lane
    Halide::Func rows;                    // (w, key, g, c, t, h, b) pairs of channels of the keys (g 0) and values (g 1)
    Halide::Func key_words, value_words;  // (e, l, n, m, c, t, h, b) registers of two groups, 2 n and the next
    Halide::Func product;                 // (e, l, p, n, c, t, h, b) scores as the instruction leaves them
    Halide::Func lane_max, row_max;       // (r, c, t, h, b) of the lane's keys, of all
    Halide::RVar channel, max_key, running_keys, running_chunk;
};

struct FragmentStages {
    SdpaStages s;              // row_begin, row_end, out; t counts tiles
    Halide::Func query_words;  // (e, l, p, m, t, h, b)
    FragmentPartials full, part;
    Halide::Func running;   // (l, t, h, b) Tuple: RunningPart
    Halide::Func sum, lse;  // (r, t, h, b) of all keys
    // (r, t, h, b) of how many keys a row is computed once more, key by key (c counts keys): all or none; and Tuple {weighted
    // values} in the end; (r, u, t, h, b) those of a stretch of keys.
    Halide::Func spoilt, settled, again;
    SdpaPartials of_key;
    Halide::RVar stretch, key_again;
    Halide::RVar element, slot, tile;  // of out
    Halide::Var e{"e"}, l{"l"}, n{"n"}, p{"p"}, m{"m"}, w{"w"}, g{"g"};
};

// Inputs as those of lane_stages(); t of shortest and longest counts tiles.
FragmentStages fragment_stages(const SdpaInputs &, const HalfInputs &, const FragmentShape &, const Score &,
                               const FragmentInstructions &, const std::function<Halide::Expr(Halide::Expr)> &stored);

}  // namespace attune
