// SPDX-License-Identifier: MIT
#include "generators/attention/equations/dropout.h"
#include "generators/math/philox.h"

namespace attune {
using namespace Halide;

std::function<Expr(const Index &)> kept_share(const Dropout &of) {
    return [of](const Index &at) {
        const auto word_of = [](const Expr &e) { return cast(UInt(32), e); };
        // The number of four keys may have a carry that first_key + j has not.
        const Expr behind = (of.first_key & 3) + word_of(at.j), four = (of.first_key >> 2) + (behind >> 2);
        const Expr head = of.first_head + word_of(at.b) * of.heads + word_of(at.h);
        const auto words = dropout_words(four, of.first_query + word_of(at.i), head, of.offset, {of.seed_low, of.seed_high});
        const Expr word = mux(cast<int32_t>(behind & 3), {words[0], words[1], words[2], words[3]});
        return select(word >= of.threshold, cast<float>(of.keep_scale), 0.0f);
    };
}

}  // namespace attune
