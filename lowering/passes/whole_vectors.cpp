// SPDX-License-Identifier: MIT
#include "lowering/passes/whole_vectors.h"
#include "generators/math/transpose.h"
#include <map>

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

class WholeVectors : public IRMutator {
    using IRMutator::visit;
    std::map<std::string, int> sizes_;  // sizes of allocations, where constant

    Stmt visit(const Allocate *op) override {
        if (const int size = int(op->constant_allocation_size())) sizes_[op->name] = size;
        return IRMutator::visit(op);
    }
    // Loads of rows that were stored by halves, two to a vector.
    Expr visit(const Load *op) override {
        const auto *ramp = op->index.as<Ramp>();
        if (!ramp || op->name.find(BlockTranspose::row_halves) == std::string::npos) return IRMutator::visit(op);
        const int lanes = op->type.lanes() / 2;
        std::vector<Expr> halves;
        for (const int at : {0, lanes})
            halves.push_back(Load::make(op->type.with_lanes(lanes), op->name, Ramp::make(ramp->base + at, 1, lanes), op->image,
                                        op->param, const_true(lanes), ModulusRemainder()));
        return Shuffle::make_concat(halves);
    }
    Expr visit(const Shuffle *op) override {
        const auto *load = op->vectors.size() == 1 ? op->vectors[0].as<Load>() : nullptr;
        const auto *ramp = load ? load->index.as<Ramp>() : nullptr;
        const auto begin = ramp ? as_const_int(ramp->base) : std::nullopt;
        const auto stride = ramp ? as_const_int(ramp->stride) : std::nullopt;
        const int lanes = op->type.lanes();
        if (!begin || !stride || *stride < 1 || sizes_.count(load->name) == 0 || sizes_[load->name] % lanes != 0)
            return IRMutator::visit(op);
        const int step = int(*stride), end = int(*begin) + (load->type.lanes() - 1) * step + 1;
        const int first = int(*begin) / lanes * lanes, skipped = int(*begin) - first;
        if (step == 1 && skipped == 0 && end % lanes == 0) return IRMutator::visit(op);
        std::vector<Expr> vectors;
        for (int at = first; at < end; at += lanes)
            vectors.push_back(mutate(Load::make(op->type, load->name, Ramp::make(at, 1, lanes), load->image, load->param,
                                                const_true(lanes), ModulusRemainder(lanes, 0))));
        std::vector<int> places = op->indices;
        for (int &place : places) place = place * step + skipped;
        return Shuffle::make(vectors, places);
    }
};

}  // namespace

void shuffle_whole_vectors(Pipeline pipeline) { pipeline.add_custom_lowering_pass(new WholeVectors); }

}  // namespace attune
