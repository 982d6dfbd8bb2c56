// SPDX-License-Identifier: MIT
#include "lowering/passes/int8_matrix_products.h"
#include "lowering/instructions/bf16.h"
#include <vector>

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

constexpr int rows = 2, columns = 2, terms = 8, products = rows * columns * terms;
enum class Along { rows, columns };

// Two vectors of terms, one behind the other, which the lanes of a factor repeat for each row or for each column; undefined for
// any other factor.
Expr terms_of(const Expr &factor, Along along) {
    const Shuffle *shuffle = factor.as<Shuffle>();
    if (!shuffle) return {};
    std::vector<int> lanes(2 * terms, -1);
    for (int n = 0; n < products; n++) {
        const int term = n % terms, column = n / terms % columns, row = n / (columns * terms);
        int &lane = lanes[(along == Along::rows ? row : column) * terms + term];
        if (lane == -1) lane = shuffle->indices[n];
        if (lane != shuffle->indices[n]) return {};
    }
    return Shuffle::make(shuffle->vectors, lanes);
}

class Int8MatrixProducts : public IRMutator {
    using IRMutator::visit;

    // The matrix product of the lanes of a reduction, added to `sum`; undefined for a reduction of another form.
    Expr matrix(const Expr &reduction, const Expr &sum) {
        const VectorReduce *reduce = reduction.as<VectorReduce>();
        if (!reduce || reduce->op != VectorReduce::Add || reduce->type != Int(32, rows * columns)) return {};
        const Cast *wide = reduce->value.as<Cast>();
        const Call *product = wide ? wide->value.as<Call>() : nullptr;
        if (!product || !product->is_intrinsic(Call::widening_mul) || product->args[0].type() != Int(8, products) ||
            product->args[1].type() != Int(8, products))
            return {};
        for (int n = 0; n < 2; n++) {
            const Expr of_rows = terms_of(product->args[n], Along::rows),
                       of_columns = terms_of(product->args[1 - n], Along::columns);
            if (of_rows.defined() && of_columns.defined())
                return Call::make(reduce->type, "attune_int8_matrix", {mutate(sum), mutate(of_rows), mutate(of_columns)},
                                  Call::PureExtern);
        }
        return {};
    }

    Expr visit(const Add *op) override {
        Expr with = matrix(op->b, op->a);
        if (!with.defined()) with = matrix(op->a, op->b);
        return with.defined() ? with : IRMutator::visit(op);
    }
    Expr visit(const VectorReduce *op) override {
        const Expr alone = matrix(op, make_zero(op->type));
        return alone.defined() ? alone : IRMutator::visit(op);
    }
};

}  // namespace

bool has_int8_matrix_products(const Target &target) { return is_aarch64_with_bf16(target); }

void use_int8_matrix_products(Pipeline pipeline, const Target &target) {
    if (has_int8_matrix_products(target)) pipeline.add_custom_lowering_pass(new Int8MatrixProducts);
}

}  // namespace attune
