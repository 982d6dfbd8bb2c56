// SPDX-License-Identifier: MIT
// Where the lanes of a warp multiply matrices together: which elements a lane holds, what instructions compute, and stages
// that attention (mma_stages.h) and its gradients (mma_gradient_stages.h) share. The instruction (m16n8k16 of a 16-bit type,
// m16n8k8 of f32, with sums in f32) says which: of 16 rows two, of their columns a quarter. Its operands are words: two
// elements of 16 bits, or an f32.
//
// A block of warps holds the resident rows and goes over the streamed ones in blocks, for all of its rows together.
// Names: l lane of a block, e register of a fragment, p product of 16 rows, n group of 8 columns, m the terms of one product, 8
// words, w word. Slot r of a tile is row r % lane_rows of lane r / lane_rows.
#pragma once
#include "Halide.h"
#include <array>

namespace attune {

constexpr int lanes_of_warp = 32, rows_of_product = 16, lanes_of_row = 4, words_of_product = 8;
constexpr int terms_together = 16;  // of one product of 16-bit elements, of two of f32
constexpr int bytes_together = 16;  // that are copied to shared memory

struct MmaShape {
    int rows;             // of a block: a multiple of those of a warp
    int lane_rows;        // 2 of each product of matrices
    int channels;         // of a head, a multiple of 16
    int kv_block;         // keys of a block; of gradients streamed rows, a multiple of 16
    int in_word;          // elements
    bool stage_resident;  // resident rows are in shared memory, else their operands in registers
    int products() const { return lane_rows / 2; }
    int warp_rows() const { return products() * rows_of_product; }
    int warps() const { return rows / warp_rows(); }
    int lanes() const { return warps() * lanes_of_warp; }
    int slots() const { return lane_rows * lanes(); }
    int lane_keys() const { return kv_block / lanes_of_row; }
    int lane_channels() const { return channels / lanes_of_row; }
    int channel_words() const { return channels / in_word; }
    // Products that sum the terms of `terms_together`, and of all channels.
    int together() const { return 2 / in_word; }
    int channel_products() const { return channel_words() / words_of_product; }
};

// What instructions of a target compute.
struct MmaInstructions {
    std::function<Halide::Expr(Halide::Expr)> exp2, reciprocal;
    std::function<Halide::Expr(Halide::Expr, Halide::Expr)> max;  // of two numbers; what it makes of a NaN does not matter
    // The floats of a word, rounded to its elements.
    std::function<Halide::Expr(const std::vector<Halide::Expr> &)> word;
    // Register e of a sum and the products of matrices of `terms_together`, of register e, e % 2 and e of the operands, of
    // which there is one for each product. For all four e at once; and of operands given whole, four words of a and two of b
    // for each product. Of f32 a NaN where an element is infinite.
    std::function<Halide::Expr(const std::vector<Halide::Expr> &a, const std::vector<Halide::Expr> &b, Halide::Expr sum)>
        multiply;
    std::function<Halide::Expr(const std::vector<Halide::Expr> &a, const std::vector<Halide::Expr> &b,
                               const std::array<Halide::Expr, 4> &sum, int e)>
        element;
    // Register e of what a lane gets of four matrices of 8 rows of 4 words: of matrix e word l % 4 of row l / 4; or where
    // they are transposed, of 8 by 8 elements of 16 bits, elements 2 * (l % 4) and the next of column l / 4. A lane's operand
    // is the first word of row l % 8 of matrix l / 8.
    std::function<Halide::Expr(Halide::Expr row, Halide::Expr e, bool transposed)> matrices;
    // The word at an address, copied together with those beside it that share 16 bytes: `given` of these, the others are 0.
    std::function<Halide::Expr(Halide::Expr address, Halide::Expr given)> copied;
    // x, of which code generation knows nothing else than which turn of a loop it belongs to: what follows from it is computed
    // where it is used, and in each turn, and not kept in registers.
    std::function<Halide::Expr(Halide::Expr x, Halide::Expr turn)> opaque;
    // x of the lane whose number differs in these bits. Lanes of a row differ in 1 and 2.
    std::function<Halide::Expr(Halide::Expr x, int bits)> exchange;
};

// An input as it is in memory, the bits of an element: (d, s, h, b), and where that element is, in bytes.
struct RawInput {
    Halide::Func bits;
    std::function<Halide::Expr(Halide::Expr d, Halide::Expr s, Halide::Expr h, Halide::Expr b)> address;
};

struct MmaVars {
    Halide::Var e{"e"}, l{"l"}, n{"n"}, p{"p"}, m{"m"}, w{"w"}, side{"side"};
    Halide::Var r{"r"}, k{"k"}, u{"u"}, c{"c"}, t{"t"}, g{"g"}, h{"h"}, b{"b"};
};

// The row that a slot of tile t is, beyond the last one too; and which column of a group of products the j-th one of lane l is.
Halide::Expr row_of_slot(const MmaShape &, const Halide::Expr &r, const Halide::Expr &t);
Halide::Expr element_of_lane(const Halide::Expr &j, const Halide::Expr &l);

// Operands of the block's resident rows, (e, l, p, m, t, h, b); and the words of these rows, (w, k, t, h, b), where they are
// staged.
struct ResidentWords {
    Halide::Func words, rows;
};
struct RowOfInput {
    Halide::Expr row, head;
};
ResidentWords resident_words(const std::string &name, const MmaShape &, const MmaVars &, const MmaInstructions &,
                             const RawInput &, const std::function<RowOfInput(Halide::Expr slot)> &row_of);

// Operands of a KV block's rows, (e, l, n, m, of...): registers of two groups of columns, 2 n and the next. `staged` has the
// words of these rows, (w, k, side, of...). Columns are its rows, and terms channels; transposed, columns are its channels.
Halide::Func block_words(const std::string &name, const MmaShape &, const MmaVars &, const MmaInstructions &,
                         const Halide::Func &staged, int side, bool transposed, const std::vector<Halide::Var> &of);

// Those of each of the products of `terms_together`.
std::vector<Halide::Expr> of_each_product(const MmaShape &, const std::function<Halide::Expr(int j)> &operand);

// x, one of `extent`, of which nothing that follows is kept in registers from before a loop for what comes behind it, or of a
// turn of the loop from one to the next (MmaInstructions::opaque).
Halide::Expr unfollowed(const MmaInstructions &, const Halide::Expr &x, const Halide::Expr &extent,
                        const Halide::Expr &turn = 0);

// Products of resident rows and those of a block, (e, l, p, n, of...) as the instruction leaves them, summed along `term`.
struct MmaProduct {
    Halide::Func sum;
    Halide::RVar term;
};
MmaProduct product_of(const std::string &name, const MmaShape &, const MmaVars &, const MmaInstructions &,
                      const ResidentWords &resident, const Halide::Func &streamed, const std::vector<Halide::Var> &of);
// Of such a product, of slot r and the k-th column that its lane has.
Halide::Expr element_of_product(const Halide::Func &sum, const MmaShape &, const Halide::Expr &r, const Halide::Expr &k,
                                const std::vector<Halide::Var> &of);

// What a lane has of the totals of its rows, in the end. A product of matrices multiplies by 0 where a pair is masked, and an
// infinite element, or one that is no number, makes a NaN of that; of f32 an infinite element always does. So a row that is
// non-finite is computed once more, by one streamed row after the other: masked elements are replaced there, as
// everywhere else.
struct RecomputedTotals {
    Halide::Func nonfinite;   // (r, t, h, b) of how many streamed rows a slot is computed once more: all or none
    Halide::Func recomputed;  // (r, u, t, h, b) of a stretch of them; with heads (r, u, t, g, h, b)
    Halide::Func totals;      // (r, t, h, b) both are Tuples of totals: the lane's channels, and more
    Halide::RVar stretch, streamed, head;
    bool has_heads = false;
};
struct NonfiniteRows {
    Halide::Expr nonfinite;                                                  // whether slot r is
    std::vector<Halide::Expr> totals, begin;                                 // of slot r, and where they begin once more
    Halide::Expr streamed_rows, heads;                                       // heads not defined: none to go over
    std::function<void(Halide::RDom &, const Halide::Expr &streamed)> take;  // leaves out rows that the tile does not see
    // What row `streamed` adds to the totals.
    std::function<std::vector<Halide::Expr>(const Halide::Expr &streamed, const Halide::Expr &head)> terms;
};
RecomputedTotals recompute_nonfinite(const MmaVars &, const NonfiniteRows &);

Halide::Expr is_no_number(const Halide::Expr &x);

}  // namespace attune
