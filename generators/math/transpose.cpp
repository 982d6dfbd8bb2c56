#include "generators/math/transpose.h"

namespace attune {
using namespace Halide;

BlockTranspose::BlockTranspose(const std::string &name, int side, const std::vector<Var> &outer,
                               const std::function<Expr(Expr, Expr)> &source)
    : side(side) {
    if (side < 2 || (side & (side - 1)) != 0)
        throw CompileError("attune: block is " + std::to_string(side) + ", must be a power of two, at least 2\n");
    auto with_outer = [&](std::vector<Var> vars) {
        vars.insert(vars.end(), outer.begin(), outer.end());
        return vars;
    };
    rows = Func(name + "_rows");
    rows(with_outer({column, row, row_block, column_block})) = source(row_block * side + row, column_block * side + column);
    const std::vector<Var> vars = with_outer({half, at, row_block, column_block});
    const Expr from = at + half * (side * side / 2);
    for (int reach = 1; reach < side; reach *= 2) {
        Func pass(name + "_" + std::to_string(passes.size()));
        std::vector<Expr> args(vars.begin(), vars.end());
        const int width = passes.empty() ? side : 2;  // of what the pass before, or rows, has innermost
        args[0] = from % width, args[1] = from / width;
        pass(vars) = passes.empty() ? rows(args) : passes.back()(args);
        passes.push_back(pass);
    }
}

Expr BlockTranspose::operator()(Expr row, Expr column, const std::vector<Expr> &outer) const {
    const Expr to = (column % side) * side + row % side;
    std::vector<Expr> args = {to % 2, to / 2, row / side, column / side};
    args.insert(args.end(), outer.begin(), outer.end());
    return passes.back()(args);
}

}  // namespace attune
