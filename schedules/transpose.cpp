#include "schedules/transpose.h"
#include <algorithm>
#include <map>

namespace attune {
using namespace Halide;

namespace {

class WholeVectors : public Internal::IRMutator {
    using Internal::IRMutator::visit;
    std::map<std::string, int> sizes_;  // of what is allocated, where it is a constant

    Stmt visit(const Internal::Allocate *op) override {
        if (const int size = int(op->constant_allocation_size())) sizes_[op->name] = size;
        return IRMutator::visit(op);
    }
    // Of rows that were stored by halves, two to a vector.
    Expr visit(const Internal::Load *op) override {
        const auto *ramp = op->index.as<Internal::Ramp>();
        if (!ramp || op->name.find(BlockTranspose::row_halves) == std::string::npos) return IRMutator::visit(op);
        const int lanes = op->type.lanes() / 2;
        std::vector<Expr> halves;
        for (const int at : {0, lanes})
            halves.push_back(Internal::Load::make(op->type.with_lanes(lanes), op->name,
                                                  Internal::Ramp::make(ramp->base + at, 1, lanes), op->image, op->param,
                                                  Internal::const_true(lanes), Internal::ModulusRemainder()));
        return Internal::Shuffle::make_concat(halves);
    }
    Expr visit(const Internal::Shuffle *op) override {
        const auto *load = op->vectors.size() == 1 ? op->vectors[0].as<Internal::Load>() : nullptr;
        const auto *ramp = load ? load->index.as<Internal::Ramp>() : nullptr;
        const auto begin = ramp ? Internal::as_const_int(ramp->base) : std::nullopt;
        const auto stride = ramp ? Internal::as_const_int(ramp->stride) : std::nullopt;
        const int lanes = op->type.lanes();
        if (!begin || !stride || *stride < 1 || sizes_.count(load->name) == 0 || sizes_[load->name] % lanes != 0)
            return IRMutator::visit(op);
        const int step = int(*stride), end = int(*begin) + (load->type.lanes() - 1) * step + 1;
        const int first = int(*begin) / lanes * lanes, skipped = int(*begin) - first;
        if (step == 1 && skipped == 0 && end % lanes == 0) return IRMutator::visit(op);
        std::vector<Expr> vectors;
        for (int at = first; at < end; at += lanes)
            vectors.push_back(
                mutate(Internal::Load::make(op->type, load->name, Internal::Ramp::make(at, 1, lanes), load->image, load->param,
                                            Internal::const_true(lanes), Internal::ModulusRemainder(lanes, 0))));
        std::vector<int> places = op->indices;
        for (int &place : places) place = place * step + skipped;
        return Internal::Shuffle::make(vectors, places);
    }
};

}  // namespace

void shuffle_whole_vectors(Pipeline pipeline) { pipeline.add_custom_lowering_pass(new WholeVectors); }

void schedule_transpose(BlockTranspose transpose, const LoopLevel &block) {
    const int side = transpose.side, vectors = transpose.vectors;
    auto one_block = [&](Func f) -> Func {
        for (const Var &v : f.args()) {
            const bool inside = v.same_as(transpose.column) || v.same_as(transpose.vector) || v.same_as(transpose.place);
            const bool bit =
                std::any_of(transpose.bits.begin(), transpose.bits.end(), [&](const Var &b) { return b.same_as(v); });
            if (bit) f.bound(v, 0, 2).vectorize(v);
            if (!inside && !bit) f.bound_extent(v, 1);
        }
        return f.compute_at(block).store_in(MemoryType::Stack);
    };
    Func rows = one_block(transpose.rows).bound_extent(transpose.column, side).bound_extent(transpose.vector, vectors);
    if (transpose.read_together < side)
        rows.vectorize(transpose.column, transpose.read_together).unroll(transpose.column);
    else
        rows.vectorize(transpose.column);
    rows.unroll(transpose.vector);
    for (Func pass : transpose.passes) one_block(pass).bound(transpose.vector, 0, vectors).unroll(transpose.vector);
    one_block(transpose.block).bound(transpose.place, 0, side * vectors);
    Stage last = transpose.block.update();
    // Each place once.
    last.allow_race_conditions();
    const int bits = int(transpose.bits.size());
    for (int bit = 0; bit < bits; bit++) last.vectorize(transpose.block_bits[bit]);
    last.unroll(transpose.block_bits[bits]);
}

void schedule_blocks(Stage consumer, Func of, VarOrRVar row, VarOrRVar column, VarOrRVar column_block,
                     const std::vector<BlockTranspose> &tables) {
    // Named after the block, which tells the stages of a Func apart: Halide finds the place of a table by name.
    Var row_block(column_block.name() + "_row_block"), in_row("in_row");
    consumer.split(row, row_block, in_row, tables[0].side)
        .reorder({in_row, column, column_block, row_block})
        .vectorize(in_row)
        .unroll(column);
    for (const BlockTranspose &table : tables) schedule_transpose(table, LoopLevel(of, column_block));
}

}  // namespace attune
