// What is computed where the lanes of a warp multiply matrices together. Another form than LaneStages because the instruction
// (m16n8k16, of two 16-bit types with sums in f32) says which elements a lane holds: of 16 rows two, of their keys and channels
// a quarter. Its result is laid out as its first operand, so weights never leave the registers of a lane.
// Scores, masks, lengths and bands are those of sdpa_stages.h: rows of a tile are slots, a row as one lane holds it.
//
// Names: l lane of a block, e register of a fragment, n group of 8 columns, m group of 16 terms of a sum, w word of two
// elements. Slot r of a tile is row r % 2 of lane r / 2.
#pragma once
#include "generators/sdpa/builder.h"

namespace attune {

constexpr int lanes_of_warp = 32, rows_of_warp = 16, lanes_of_row = 4;

struct FragmentShape {
    int rows;      // of a block, which walks the keys for all of them together: a multiple of 16
    int channels;  // of a head, a multiple of 32
    int chunk;     // keys, a multiple of 32
    int warps() const { return rows / rows_of_warp; }
    int lanes() const { return warps() * lanes_of_warp; }
    int slots() const { return 2 * lanes(); }
    int lane_keys() const { return chunk / lanes_of_row; }
    int lane_channels() const { return channels / lanes_of_row; }
};

// What instructions of a target compute.
struct FragmentInstructions {
    std::function<Halide::Expr(Halide::Expr)> exp2, reciprocal;
    std::function<Halide::Expr(Halide::Expr, Halide::Expr)> max;  // of two numbers; what it makes of a NaN does not matter
    // Two floats, rounded, as a word.
    std::function<Halide::Expr(Halide::Expr low, Halide::Expr high)> pair;
    // Register e of a product of matrices and a sum, of register e, e % 2 and e of the operands. For all four e at once.
    std::function<Halide::Expr(Halide::Expr a, Halide::Expr b, Halide::Expr sum)> multiply;
    // x of the lane whose number differs in these bits. Lanes of a row differ in 1 and 2.
    std::function<Halide::Expr(Halide::Expr x, int bits)> exchange;
};

// The inputs as they are in memory, 16 bits an element: (d, s, h, b).
struct HalfInputs {
    Halide::Func query, key, value;
};

struct FragmentPartials {
    SdpaPartials p;                       // (r, k, c, t, h, b) score, logit with its steps; k counts the keys of a lane
    Halide::Func key_pairs;               // (w, key, c, t, h, b) pairs of channels, read by all lanes
    Halide::Func value_pairs;             // (w, d, c, t, h, b) pairs of keys
    Halide::Func key_words, value_words;  // (e, l, n, m, c, t, h, b) four words of a lane
    Halide::Func product;                 // (e, l, n, c, t, h, b) scores as the instruction leaves them
    Halide::Func lane_max, row_max;       // (r, c, t, h, b) of the lane's keys, of all
    Halide::Func weight, weight_words;    // (r, k, c, t, h, b), (e, l, m, c, t, h, b)
    Halide::Func lane_sum, mixed;         // (r, c, t, h, b) of the lane's keys; (e, l, n, c, t, h, b)
    Halide::RVar channel, max_key, sum_key, key, running_chunk;
};

struct FragmentStages {
    SdpaStages s;              // row_begin, row_end, out; t counts tiles
    Halide::Func query_words;  // (e, l, m, t, h, b)
    FragmentPartials full, part;
    Halide::Func running;   // (r, t, h, b) Tuple {weighted values of each channel of the slot, sum of its keys, maximum}
    Halide::Func sum, lse;  // (r, t, h, b) of all keys
    // (r, t, h, b) of how many keys a row is computed once more, key by key (c counts keys): all or none; and Tuple {weighted
    // values} in the end; (r, u, t, h, b) those of a stretch of keys.
    Halide::Func spoilt, settled, again;
    SdpaPartials of_key;
    Halide::RVar stretch, key_again;
    Halide::RVar element, slot, tile;  // of out
    Halide::Var e{"e"}, l{"l"}, n{"n"}, m{"m"}, w{"w"};
};

// Inputs as those of lane_stages(); t of shortest and longest counts tiles.
FragmentStages fragment_stages(const SdpaInputs &, const HalfInputs &, const FragmentShape &, const Score &,
                               const FragmentInstructions &, const std::function<Halide::Expr(Halide::Expr)> &stored);

}  // namespace attune
