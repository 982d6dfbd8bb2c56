#include "lowering/instructions/powers.h"
#include "lowering/instructions/stand_ins.h"
#include "lowering/require.h"
#include <functional>
#include <vector>

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

const std::string to_nearest = "attune_nearest", scaled = "attune_scaled";
constexpr int lanes = 16;

Expr in_vectors(const Call *op, const std::function<Expr(const std::vector<Expr> &)> &instruction) {
    require_multiple("vectors of powers of two: the number of lanes", op->type.lanes(), "a register's", lanes);
    std::vector<Expr> vectors;
    for (int first = 0; first < op->type.lanes(); first += lanes) {
        std::vector<Expr> operands = op->args;
        if (op->type.lanes() > lanes)
            for (Expr &operand : operands) operand = Shuffle::make_slice(operand, first, 1, lanes);
        vectors.push_back(instruction(operands));
    }
    return vectors.size() == 1 ? vectors[0] : Shuffle::make_concat(vectors);
}

class WriteInstructions : public IRMutator {
    using IRMutator::visit;

    Expr visit(const Call *op) override {
        require(op->type.is_scalar() ||
                    (!op->is_intrinsic(Call::count_leading_zeros) && !op->is_intrinsic(Call::saturating_sub)),
                "a kernel with powers of two has another use for a stand-in of their instructions");
        const Expr mutated = IRMutator::visit(op);
        const Call *call = mutated.as<Call>();
        if (op->name == to_nearest) {
            let_stand_in("vplzcntd\t", "vrndscaleps\t$8, ");  // 8: ties to even, and no flag for what is lost
            return in_vectors(call, [](const std::vector<Expr> &x) {
                return Reinterpret::make(Float(32, lanes), count_leading_zeros(Reinterpret::make(UInt(32, lanes), x[0])));
            });
        }
        if (op->name == scaled) {
            let_stand_in("vpsubusw\t", "vscalefps\t");
            return in_vectors(call, [](const std::vector<Expr> &x) {
                const Type halves = UInt(16, 2 * lanes);
                return Reinterpret::make(Float(32, lanes), saturating_sub(Reinterpret::make(halves, x[0]),  //
                                                                          Reinterpret::make(halves, x[1])));
            });
        }
        return mutated;
    }
};

}  // namespace

PowerInstructions power_instructions(const Target &target) {
    if (!target.has_feature(Target::AVX512_Zen5) || !leaves_as_assembly()) return {};
    return {[](const Expr &x) { return Call::make(Float(32), to_nearest, {x}, Call::PureExtern); },
            [](const Expr &factor, const Expr &x) {
                return Call::make(Float(32), scaled, {factor, x}, Call::PureExtern);
            }};
}

void write_power_instructions(Pipeline pipeline) { pipeline.add_custom_lowering_pass(new WriteInstructions); }

}  // namespace attune
