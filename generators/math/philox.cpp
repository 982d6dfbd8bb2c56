// SPDX-License-Identifier: MIT
#include "generators/math/philox.h"

namespace attune {
using namespace Halide;

std::array<Expr, 4> philox4x32_10(const std::array<Expr, 4> &counter, const std::array<Expr, 2> &key) {
    // Words are the low halves of 64-bit lanes whose high halves are arbitrary: a 32 x 32 -> 64 bit multiplication reads low
    // halves only, so a round is four multiplications, two shifts and four xors, without any narrowing.
    const Type wide = UInt(64);
    auto word = [&](const Expr &x) { return cast(wide, cast(UInt(32), x)); };
    std::array<Expr, 4> c;
    for (int n = 0; n < 4; n++) c[n] = word(counter[n]);
    Expr k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        const Expr product0 = word(c[0]) * Internal::make_const(wide, 0xD2511F53u);
        const Expr product1 = word(c[2]) * Internal::make_const(wide, 0xCD9E8D57u);
        c = {(product1 >> 32) ^ (c[1] ^ word(k0)), product1, (product0 >> 32) ^ (c[3] ^ word(k1)), product0};
        k0 = k0 + Internal::make_const(UInt(32), 0x9E3779B9u);
        k1 = k1 + Internal::make_const(UInt(32), 0xBB67AE85u);
    }
    return {cast(UInt(32), c[0]), cast(UInt(32), c[1]), cast(UInt(32), c[2]), cast(UInt(32), c[3])};
}

std::array<Expr, 4> dropout_words(const Expr &four, const Expr &query, const Expr &head, const Expr &offset,
                                  const std::array<Expr, 2> &seed) {
    const Type word = UInt(32);
    return philox4x32_10({cast(word, four), cast(word, query), cast(word, head), offset}, seed);
}

std::array<Expr, 4> dropout_words_from(const Expr &first_key, const Expr &four, const Expr &query, const Expr &head,
                                       const Expr &offset, const std::array<Expr, 2> &seed) {
    const Expr first_four = cast(UInt(32), four) + (first_key >> 2), shift = first_key & 3;
    const std::array<Expr, 4> words = dropout_words(first_four, query, head, offset, seed),
                              next = dropout_words(first_four + 1, query, head, offset, seed);
    const auto word = [&](int n) { return n < 4 ? words[n] : next[n - 4]; };
    std::array<Expr, 4> shifted;
    for (int n = 0; n < 4; n++) {
        const Expr of_two = select(shift == 1, word(n + 1), shift == 2, word(n + 2), word(n + 3));
        shifted[n] = Internal::Call::make(UInt(32), Internal::Call::if_then_else, {shift == 0, words[n], of_two},
                                          Internal::Call::PureIntrinsic);
    }
    return shifted;
}

}  // namespace attune
