// SPDX-License-Identifier: MIT
#include "generators/dropout_mask/dropout_mask_stages.h"
#include "generators/math/philox.h"

namespace attune {
using namespace Halide;

DropoutMaskStages dropout_mask_stages(const DropoutMaskInputs &in) {
    DropoutMaskStages s;
    const Var word = s.word, f = s.f, j = s.j, i = s.i, h = s.h, b = s.b;
    const auto words = dropout_words(f, i, b * in.heads + h, in.offset, {in.seed_low, in.seed_high});
    s.kept = Func("kept");
    s.kept(word, f, i, h, b) = cast(UInt(8), mux(word, {words[0], words[1], words[2], words[3]}) >= in.threshold);
    s.out = Func("out_stage");
    s.out(j, i, h, b) = s.kept(j % 4, j / 4, i, h, b);
    return s;
}

}  // namespace attune
