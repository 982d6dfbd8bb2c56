#include "schedules/prefetch.h"

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

class IntoCaches : public IRMutator {
    using IRMutator::visit;

    static const Call *prefetch_in(const Stmt &s) {
        const Evaluate *evaluate = s.as<Evaluate>();
        const Call *call = evaluate ? evaluate->value.as<Call>() : nullptr;
        return call && call->is_intrinsic(Call::prefetch) ? call : nullptr;
    }
    // The line that is `line` lines behind the place.
    static Stmt fetched(const Call *op, const Expr &place, const Expr &line) {
        constexpr int line_bytes = 64, read = 0, all_caches = 3, data = 1;
        const Expr bytes = cast<int64_t>(place) * op->type.bytes(), behind = cast<int64_t>(line) * line_bytes;
        const Expr address = reinterpret(UInt(64), op->args[0]) + reinterpret(UInt(64), bytes) + reinterpret(UInt(64), behind);
        return Evaluate::make(
            Call::make(Int(32), "llvm.prefetch.p0", {reinterpret(Handle(), address), read, all_caches, data}, Call::Extern));
    }

    Stmt visit(const Evaluate *op) override {
        const Call *prefetch = prefetch_in(op);
        return prefetch ? fetched(prefetch, prefetch->args[1], 0) : op;
    }
    // Halide 21 counts the lines of a row in bytes and steps through them in elements.
    Stmt visit(const For *op) override {
        const Call *prefetch = prefetch_in(op->body);
        if (!prefetch || !starts_with(op->name, "prefetch_split")) return IRMutator::visit(op);
        const Expr row = substitute(op->name, 0, prefetch->args[1]);
        const auto lines = as_const_int(op->extent);
        if (!lines)
            return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api,
                             fetched(prefetch, row, Variable::make(Int(32), op->name)));
        std::vector<Stmt> all;
        for (int n = 0; n < *lines; n++) all.push_back(fetched(prefetch, row, n));
        return Block::make(all);
    }
};

}  // namespace

void fetch_ahead(Stage stage, const ImageParam &input, const RVar &loop, int rounds) {
    if (rounds > 0) stage.prefetch(input, loop, loop, rounds, PrefetchBoundStrategy::NonFaulting);
}

void fetch_into_caches(Pipeline pipeline) { pipeline.add_custom_lowering_pass(new IntoCaches); }

}  // namespace attune
