// SPDX-License-Identifier: MIT
#include "lowering/passes/pin_stack_slots.h"

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

bool is_constant_place(const Expr &index) {
    if (const Ramp *ramp = index.as<Ramp>()) return is_constant_place(ramp->base) && is_constant_place(ramp->stride);
    if (const Broadcast *same = index.as<Broadcast>()) return is_constant_place(same->value);
    return is_const(index);
}

// Whether a buffer is read and written at constant places alone.
class ConstantPlaces : public IRVisitor {
    using IRVisitor::visit;
    const std::string &buffer_;

    void visit(const Load *op) override {
        if (op->name == buffer_ && !is_constant_place(op->index)) all_ = false;
        IRVisitor::visit(op);
    }
    void visit(const Store *op) override {
        if (op->name == buffer_ && !is_constant_place(op->index)) all_ = false;
        IRVisitor::visit(op);
    }
    void visit(const Variable *op) override {  // the buffer's address is taken
        if (op->name == buffer_) all_ = false;
    }
    bool all_ = true;

public:
    explicit ConstantPlaces(const std::string &buffer) : buffer_(buffer) {}
    bool all_of(const Stmt &body) {
        body.accept(this);
        return all_;
    }
};

class PinStackSlots : public IRMutator {
    using IRMutator::visit;

    // Storage is reused by stages of the same type; no other stage's storage has elements that are vectors.
    static constexpr int lanes = 4;

    static bool is_in_vectors(const Allocate *op) {
        const bool on_stack = op->memory_type == MemoryType::Auto || op->memory_type == MemoryType::Stack;
        const auto size = op->constant_allocation_size();
        return on_stack && !op->new_expr.defined() && op->type.is_scalar() && size > 0 && size % lanes == 0 &&
               ConstantPlaces(op->name).all_of(op->body);
    }
    Stmt visit(const Allocate *op) override {
        if (!is_in_vectors(op)) return IRMutator::visit(op);
        const int vectors = int(op->constant_allocation_size()) / lanes;
        return Allocate::make(op->name, op->type.with_lanes(lanes), op->memory_type, {vectors}, op->condition,
                              mutate(op->body));
    }
};

}  // namespace

void pin_stack_slots(Pipeline pipeline, const Target &target) {
    // A register tile takes all of 16 registers: LLVM would spill its sums to keep such arrays in registers.
    if (target.has_feature(Target::AVX512_Skylake)) pipeline.add_custom_lowering_pass(new PinStackSlots);
}

}  // namespace attune
