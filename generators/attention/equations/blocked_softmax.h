// SPDX-License-Identifier: MIT
// Attention by KV blocks in the letters of FlashAttention (Dao et al. 2022; 2023): equations of the scores, of the softmax of a
// block, and of the merge of blocks. Forms choose the order of sums, schedules the loops.
//
//   block c:    s_qk = score(q_q, k_k)  m_qc = max_k s_qk  p_qk = e^(s_qk - m_qc)  l_qc = sum_k p_qk  o_qc = sum_k p_qk v_k
//   query q:    M = max_c m_qc  w_c = e^(m_qc - M)  L = sum_c w_c l_qc  O = sum_c w_c o_qc  out = O / L  lse = M + ln L
//
// No exponential overflows, because the maximum is subtracted first; sums relative to different maxima are rescaled to a common
// one in the merge (Milakov and Gimelshein 2018; for attention Rabe and Staats 2021). FlashAttention merges each block into M,
// L and O at once, as the forms for GPUs do (gpu/online_softmax.h). Here the (m, l, o) of all blocks are merged in block order,
// as in Flash-Decoding (Dao et al. 2023): the result has the same bits whichever thread computes a block.
#pragma once
#include "generators/attention/equations/masked.h"
#include "generators/attention/equations/score_units.h"
#include "generators/math/exp2.h"
#include "generators/math/precise.h"

namespace attune {

struct BlockedSoftmax : ScoreUnits {
    PowerInstructions powers;
    // e^x computed as 2^(x log2 e), for x <= 0.
    using Exp2 = Expr (*)(const Expr &x, const Expr &factor, const PowerInstructions &);

    // Scores, S = Q K^T: the term that channel d adds to the product of a query and a key (or to the sum of another pair term);
    // s, the product in units of scores; a step of the score (softcap, bias, ALiBi, a mask); and s of a kept pair, else the
    // score of a masked one.
    Expr qk(const Expr &q, const Expr &k, const Expr &d) const { return weighted_term(score.pair, q, k, d); }
    Expr s(const Expr &qk, const Index &at) const { return scaled(score.pair.finish ? score.pair.finish(qk, at) : qk); }
    Expr s(const ScoreStep &step, const Expr &s, const Index &at) const {
        const Expr x = step.score ? precise(step.score(s, at)) : s;
        return step.mask ? masked(step.mask(at), x) : x;
    }
    Expr masked(const Expr &kept, const Expr &s) const { return select(kept, s, masked_score(type)); }

    // Softmax of a block. Differences are strict: rounded before they are multiplied. A masked weight is a marked 0.
    Expr m(const Expr &m, const Expr &s) const { return max(m, s); }
    Expr p(const Expr &s, const Expr &m, Exp2 exp2 = exp2_nonpositive) const {
        return exp2(strict_float(s - m), per_score(), powers);
    }
    Expr kept_p(const Expr &p, const Expr &s) const { return kept_or_marked(!is_masked(s), p); }
    Expr l(const Expr &l, const Expr &p) const { return l + p; }

    // P V. A masked value may be NaN: it is replaced, not multiplied by 0.
    Expr o(const Expr &o, const Expr &p, const Expr &v) const { return o + p * v; }
    Expr kept_o(const Expr &o, const Expr &p, const Expr &v) const { return o + p * select(counts(p), v, value_of(0)); }

    // Merge of blocks. The sum is strict: otherwise code generation may conclude that L is no NaN and drop the test of
    // is_empty().
    Expr w(const Expr &m, const Expr &M) const { return p(m, M); }
    Expr L(const Expr &L, const Expr &w, const Expr &l) const { return strict_float(L + w * l); }
    Expr O(const Expr &O, const Expr &w, const Expr &o) const { return O + w * o; }
    // By the inverse, one for all channels: a division takes as long as eight products. Strict, or it becomes a division again.
    Expr out(const Expr &O, const Expr &L) const { return O * strict_float(value_of(1) / L); }
    // A row that sees no key has L = 0. Strict, so that a NaN does not pass for 0. log() of a NaN may be a number, so NaN is
    // passed on; the -inf of an empty row is a bit pattern, because arithmetic on -inf would be undefined.
    Expr is_empty(const Expr &L) const { return strict_float(L == value_of(0)); }
    Expr lse(const Expr &M, const Expr &L) const {
        const Halide::Type bits = Halide::UInt(type.bits());
        Expr lse = reinterpret(bits, natural(M) + log(L));
        lse = select(is_nan(L), reinterpret(bits, L), lse);
        return reinterpret(type, select(is_empty(L), minus_infinity_bits(type), lse));
    }

    // A sink is one more score without a value: the initial M and L.
    Expr M_of_sink(const Expr &sink, const Expr &given) const {
        return select(given && !is_masked(sink), sink, lowest_score(type));
    }
    Expr L_of_sink(const Expr &sink, const Expr &M) const {
        return select(strict_float(sink == lowest_score(type)), value_of(0), p(sink, M));
    }
};

}  // namespace attune
