// SPDX-License-Identifier: MIT
// Fragments of MMA instructions: the elements that a lane holds, the operations of the instructions, and stages that attention
// (mma_stages.h) and its gradients (mma_gradient_stages.h) share. The instruction (m16n8k16 of a 16-bit type, m16n8k8 of tf32
// parts of f32, with sums in f32) fixes the elements: a quarter of the columns of two of 16 rows. Operands are words: two
// elements of 16 bits, or an f32.
//
// A block of warps holds the resident rows and streams the other ones in blocks, for all of its rows together.
// Names: l lane of a block, e register of a fragment, p product of 16 rows, n group of 8 columns, m the terms of one product, 8
// words, w word. Slot r of a tile is row r % lane_rows of lane r / lane_rows.
#pragma once
#include "Halide.h"
#include <array>

namespace attune {

constexpr int lanes_of_warp = 32, rows_of_product = 16, lanes_of_row = 4, words_of_product = 8;
constexpr int terms_together = 16;  // terms of one product of 16-bit elements, of two products of f32
constexpr int bytes_together = 16;  // bytes of one copy to shared memory

struct MmaShape {
    int rows;             // of a block: a multiple of a warp's rows
    int lane_rows;        // 2 for each product of matrices
    int channels;         // of a head, a multiple of 16
    int kv_block;         // keys of a block; for gradients streamed rows; a multiple of 16
    int in_word;          // elements
    bool stage_resident;  // resident rows are in shared memory, else their operands are in registers
    int products() const { return lane_rows / 2; }
    int warp_rows() const { return products() * rows_of_product; }
    int warps() const { return rows / warp_rows(); }
    int lanes() const { return warps() * lanes_of_warp; }
    int slots() const { return lane_rows * lanes(); }
    int lane_keys() const { return kv_block / lanes_of_row; }
    int lane_channels() const { return channels / lanes_of_row; }
    int channel_words() const { return channels / in_word; }
    // Products that sum `terms_together` terms, and products that sum all channels.
    int together() const { return 2 / in_word; }
    int channel_products() const { return channel_words() / words_of_product; }
};

// Instructions of a target.
struct MmaInstructions {
    std::function<Halide::Expr(Halide::Expr)> exp2, reciprocal;
    std::function<Halide::Expr(Halide::Expr, Halide::Expr)> max;  // of two numbers; any result for a NaN
    // A word from the floats of its elements, rounded.
    std::function<Halide::Expr(const std::vector<Halide::Expr> &)> word;
    // Register e of `sum` plus products of matrices over `terms_together` terms, from register e of a and e % 2 of b, one
    // operand per product. multiply: for all four e at once; element: for operands given whole, four words of a and two of b
    // per product. f32: NaN where an element is infinite.
    std::function<Halide::Expr(const std::vector<Halide::Expr> &a, const std::vector<Halide::Expr> &b, Halide::Expr sum)>
        multiply;
    std::function<Halide::Expr(const std::vector<Halide::Expr> &a, const std::vector<Halide::Expr> &b,
                               const std::array<Halide::Expr, 4> &sum, int e)>
        element;
    // Register e of lane l from a load of four matrices of 8 rows of 4 words (ldmatrix): word l % 4 of row l / 4 of matrix e;
    // or, transposed (8 by 8 elements of 16 bits), elements 2 * (l % 4) and the next of column l / 4. A lane's operand is the
    // first word of row l % 8 of matrix l / 8.
    std::function<Halide::Expr(Halide::Expr row, Halide::Expr e, bool transposed)> matrices;
    // The word at an address, copied with the words that share its 16 bytes (cp.async): `given` bytes, zeros for the others.
    std::function<Halide::Expr(Halide::Expr address, Halide::Expr given)> copied;
    // x as an unknown value of a turn of a loop: code generation computes the values that depend on x where they are used, in
    // each turn, and does not keep them in registers.
    std::function<Halide::Expr(Halide::Expr x, Halide::Expr turn)> opaque;
    // x of the lane whose number differs in `bits`. The lanes of a row differ in bits 1 and 2.
    std::function<Halide::Expr(Halide::Expr x, int bits)> exchange;
};

// An input as it lies in memory: the bits of element (d, s, h, b), and the address of the element in bytes.
struct RawInput {
    Halide::Func bits;
    std::function<Halide::Expr(Halide::Expr d, Halide::Expr s, Halide::Expr h, Halide::Expr b)> address;
};

struct MmaVars {
    Halide::Var e{"e"}, l{"l"}, n{"n"}, p{"p"}, m{"m"}, w{"w"}, side{"side"};
    Halide::Var r{"r"}, k{"k"}, u{"u"}, c{"c"}, t{"t"}, g{"g"}, h{"h"}, b{"b"};
};

// The row of a slot of tile t, not clamped to the last; and the column, in a group of products, of lane l's j-th element.
Halide::Expr row_of_slot(const MmaShape &, const Halide::Expr &r, const Halide::Expr &t);
Halide::Expr element_of_lane(const Halide::Expr &j, const Halide::Expr &l);

// Operands of the block's resident rows, (e, l, p, m, t, h, b); and the words of these rows, (w, k, t, h, b), where staged in
// shared memory.
struct ResidentWords {
    Halide::Func words, rows;
};
struct RowOfInput {
    Halide::Expr row, head;
};
ResidentWords resident_words(const std::string &name, const MmaShape &, const MmaVars &, const MmaInstructions &,
                             const RawInput &, const std::function<RowOfInput(Halide::Expr slot)> &row_of);

// Operands of a KV block's rows, (e, l, n, m, of...): registers of two groups of columns, 2 n and the next. `staged` has the
// words of these rows, (w, k, side, of...). Columns are the rows and terms channels; transposed, columns are channels.
Halide::Func block_words(const std::string &name, const MmaShape &, const MmaVars &, const MmaInstructions &,
                         const Halide::Func &staged, int side, bool transposed, const std::vector<Halide::Var> &of);

// The operands of each of the products over `terms_together` terms.
std::vector<Halide::Expr> of_each_product(const MmaShape &, const std::function<Halide::Expr(int j)> &operand);

// x (below `extent`) with its dependents kept out of registers (MmaInstructions::opaque): none is held across a loop, or from
// one turn of the loop to the next.
Halide::Expr unfollowed(const MmaInstructions &, const Halide::Expr &x, const Halide::Expr &extent,
                        const Halide::Expr &turn = 0);

// Products of resident rows and a block's rows, (e, l, p, n, of...) as the instruction leaves them, summed along `term`.
struct MmaProduct {
    Halide::Func sum;
    Halide::RVar term;
};
MmaProduct product_of(const std::string &name, const MmaShape &, const MmaVars &, const MmaInstructions &,
                      const ResidentWords &resident, const Halide::Func &streamed, const std::vector<Halide::Var> &of);
// The element of such a product for slot r and the k-th column of its lane.
Halide::Expr element_of_product(const Halide::Func &sum, const MmaShape &, const Halide::Expr &r, const Halide::Expr &k,
                                const std::vector<Halide::Var> &of);

// Final totals of a lane's rows. A product of matrices multiplies a masked pair by 0, which gives NaN for an infinite or NaN
// element; in f32 an infinite element always gives NaN. So a non-finite row is recomputed one streamed row at a time, where
// masked elements are replaced, as everywhere else.
struct RecomputedTotals {
    Halide::Func nonfinite;   // (r, t, h, b): number of streamed rows to recompute a slot from: all or none
    Halide::Func recomputed;  // (r, u, t, h, b), u a stretch of streamed rows; with heads (r, u, t, g, h, b)
    Halide::Func totals;      // (r, t, h, b); both are Tuples of totals: the lane's channels, and more
    Halide::RVar stretch, streamed, head;
    bool has_heads = false;
};
struct NonfiniteRows {
    Halide::Expr nonfinite;                                                  // whether slot r is non-finite
    std::vector<Halide::Expr> totals, begin;                                 // of slot r, and initial values to recompute them
    Halide::Expr streamed_rows, heads;                                       // heads not defined: no loop over heads
    std::function<void(Halide::RDom &, const Halide::Expr &streamed)> take;  // leaves out rows that the tile does not see
    // The terms that row `streamed` adds to the totals.
    std::function<std::vector<Halide::Expr>(const Halide::Expr &streamed, const Halide::Expr &head)> terms;
};
RecomputedTotals recompute_nonfinite(const MmaVars &, const NonfiniteRows &);

Halide::Expr is_no_number(const Halide::Expr &x);

}  // namespace attune
