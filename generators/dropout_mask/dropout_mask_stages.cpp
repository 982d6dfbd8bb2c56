// SPDX-License-Identifier: MIT
#include "generators/dropout_mask/dropout_mask_stages.h"
#include "generators/math/philox.h"

namespace attune {
using namespace Halide;

DropoutMaskStages dropout_mask_stages(const DropoutMaskInputs &in) {
    DropoutMaskStages s;
    const Var word = s.word, f = s.f, j = s.j, i = s.i, h = s.h, b = s.b;
    const Type word32 = UInt(32);
    const auto words = dropout_words_from(in.first_key, f, cast(word32, i) + in.first_query,
                                          cast(word32, b) * in.heads + cast(word32, h) + in.first_head, in.offset,
                                          {in.seed_low, in.seed_high});
    s.kept = Func("kept");
    s.kept(word, f, i, h, b) = cast(UInt(8), mux(word, {words[0], words[1], words[2], words[3]}) >= in.threshold);
    s.out = Func("out_stage");
    s.out(j, i, h, b) = s.kept(j % 4, j / 4, i, h, b);
    return s;
}

}  // namespace attune
