// SPDX-License-Identifier: MIT
#include "generators/math/transpose.h"
#include <algorithm>
#include <bit>
#include <utility>

namespace attune {
using namespace Halide;

// The vector in which a row enters, or a column leaves, and the inverse of that map. Passes take the bits of a place in a group
// from the last on.
Expr BlockTranspose::vector_of(const Expr &row_or_column) const {
    const int group = 1 << group_bits;
    const Expr within = row_or_column % group;
    Expr vector = row_or_column / group * group;
    for (int bit = 1; bit < group; bit *= 2) vector += within / bit % 2 * (group / 2 / bit);
    return vector;
}

static void require_block(int side, int unit) {
    if (side < 2 || !std::has_single_bit(unsigned(side)))
        throw CompileError("attune: block is " + std::to_string(side) + ", must be a power of two, at least 2\n");
    if (side / unit < 2 || !std::has_single_bit(unsigned(unit)))
        throw CompileError("attune: of a block of " + std::to_string(side) +
                           " so many elements cannot stay together: " + std::to_string(unit) + "\n");
}

// `base` plus the number that these bits represent.
static Expr with_number(Expr base, const std::vector<Expr> &of_bits) {
    for (std::size_t bit = 0; bit < of_bits.size(); bit++) base += of_bits[bit] << int(bit);
    return base;
}

BlockTranspose::BlockTranspose(const std::string &name, int side, const std::vector<Var> &outer,
                               const std::function<Expr(Expr, Expr)> &source, bool by_halves, int unit)
    : side(side), vectors(side / unit), read_together(side) {
    require_block(side, unit);
    std::vector<Var> of_block = {row_block, column_block};
    of_block.insert(of_block.end(), outer.begin(), outer.end());
    auto with_block = [&](auto args) {
        args.insert(args.end(), of_block.begin(), of_block.end());
        return args;
    };
    constexpr int group_bytes = 16;
    const int group = std::min(side, group_bytes / source(row_block, column_block).type().bytes());
    const int unit_bits = std::countr_zero(unsigned(unit));
    group_bits = std::max(std::countr_zero(unsigned(group)) - unit_bits, 0);
    for (int bit = 1; bit < side; bit *= 2) bits.emplace_back("bit" + std::to_string(bits.size()));
    if (by_halves && side > group) read_together = side / 2;
    const Expr piece = column / read_together, within = column % read_together, in_piece = vector % read_together;
    // Where halves have several groups, the passes between groups bring in the other rows between the two rows of a vector.
    const Expr of_row =
        read_together < side ? piece * group + in_piece / group * (2 * group) + vector_of(in_piece % group) : vector_of(vector);
    rows = Func(name + (read_together < side ? row_halves : "_rows"));
    rows(with_block(std::vector<Var>{column, vector})) =
        source(row_block * vectors + of_row, column_block * side + vector / read_together * read_together + within);

    const int last = std::countr_zero(unsigned(read_together / unit)) - 1, size = int(bits.size());
    // The element, in bits, and the vector of the previous stage that come to a place: one bit of the vector's number is
    // exchanged for a bit of the place, the last bit of a group in passes within groups, the first bit in the others.
    auto before = [&](int pass, const std::vector<Expr> &to, const Expr &v) {
        std::vector<Expr> from = to;
        const auto units = from.begin() + unit_bits, groups_end = units + group_bits;
        const bool in_groups = pass < group_bits;
        const Expr of_two = std::exchange(in_groups ? *units : from.back(), v / (vectors / 2));
        if (in_groups)
            std::rotate(units, units + 1, groups_end);
        else
            std::rotate(groups_end, from.end() - 1, from.end());
        const Expr neighbour = v % (vectors / 2) * 2 + of_two;
        if (pass == 0) return Expr(rows(with_block(std::vector<Expr>{with_number(0, from), neighbour})));
        from.push_back(neighbour);
        return Expr(passes.back()(with_block(from)));
    };
    for (int pass = 0; pass < last; pass++) {
        Func f(name + "_" + std::to_string(pass));
        std::vector<Var> args = bits;
        args.push_back(vector);
        f(with_block(args)) = before(pass, std::vector<Expr>(bits.begin(), bits.end()), vector);
        passes.push_back(f);
    }
    Region all(bits.size(), Range(0, 2));
    all.emplace_back(0, vectors);
    block_bits = RDom(all, name + "_bits");
    std::vector<Expr> to;
    for (int bit = 0; bit < size; bit++) to.push_back(block_bits[bit]);
    // The bits of a vector's number that no pass has moved (its piece of the rows) are the lowest now.
    const int pieces = side / read_together;
    const Expr of_last = block_bits[size], number = of_last % pieces * read_together + of_last / pieces;
    block = Func(name);
    block(with_block(std::vector<Var>{place})) = undef(rows.type());
    block(with_block(std::vector<Expr>{with_number(number * side, to)})) = before(last, to, of_last);
}

Expr BlockTranspose::operator()(Expr row, Expr column, const std::vector<Expr> &outer) const {
    const int unit = side / vectors;
    const Expr within = column % side;
    std::vector<Expr> args = {vector_of(within / unit) * side + row % vectors * unit + within % unit, row / vectors,
                              column / side};
    args.insert(args.end(), outer.begin(), outer.end());
    return block(args);
}

int block_side(Type type, std::initializer_list<int> extents) {
    constexpr int cache_line = 64;
    int side = cache_line / type.bytes();
    while (side > 1 && std::any_of(extents.begin(), extents.end(), [&](int extent) { return extent % side != 0; })) side /= 2;
    return side;
}

}  // namespace attune
