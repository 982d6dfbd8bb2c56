// SPDX-License-Identifier: MIT
#include "generators/linear/pack_stages.h"

namespace attune {
using namespace Halide;

PackStages pack_stages(const Func &weight, const PackedPanels &panels, const Expr &columns, const Expr &depth, int block) {
    PackStages s;
    const Type bits = UInt(panels.type.bits());
    auto element = [&](const Expr &n, const Expr &k) {
        return select(n < columns && k < depth, reinterpret(bits, weight(min(k, depth - 1), min(n, columns - 1))),
                      cast(bits, 0));
    };
    auto word = [&](const Expr &n, const Expr &k) {
        if (panels.pair() == 1) return element(n, k);
        return concat_bits({element(n, k * 2), element(n, k * 2 + 1)});
    };
    if (block) s.transpose.emplace("transpose", block, std::vector<Var>{}, word);
    const Expr n = s.p * PackedPanels::columns + s.n;
    s.packed = Func("packed_stage");
    s.packed(s.n, s.k, s.p) = reinterpret(packed_word(panels), block ? (*s.transpose)(n, s.k, {}) : word(n, s.k));
    return s;
}

}  // namespace attune
