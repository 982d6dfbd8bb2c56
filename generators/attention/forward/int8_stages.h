// SPDX-License-Identifier: MIT
// Attention over keys and values of int8 by products of integers.
//
// A query is rounded to an integer of 16 bits in units of its largest magnitude u, weights times the scales of values in units
// of the largest of a subblock of keys, w. With K and V the int8, a and b their scales, N = 32639:
//
//     q k_j = u a_j / N sum_d X_d K_jd     X_d = nearest(N q_d / u)
//     o = w / N sum_j W_j V_j              W_j = nearest(N p_j b_j / w)
//
// Sums of such products are exact in 32 bits over 512 terms. Rounding is by 2^-16 of the largest magnitude, where bf16 rounds
// each by 2^-9: the form is for queries of bf16. Scores, masks and merge are those of blocked_stages.h.
//
// The instructions of a target choose how X and W are written (IntegerDigits), which changes no bit: as int16, for sums over
// two terms (pmaddwd, vpdpwssd); or as two digits X = X_0 + 256 X_1 of int8, for sums over four terms (sdot) or over eight, of
// both digits and two columns at once (smmla). Digits are rows: row r * digits + g of a product is digit g of row r. Columns
// are the keys of QK^T, and the channels of PV.
#pragma once
#include "generators/attention/forward/builder.h"

namespace attune {

struct IntegerDigits {
    int digits, terms, columns;
    Halide::Type type() const { return Halide::Int(16 / digits); }
    // Sums of all digits by several columns are one vector, and a stage of their own.
    bool by_tiles() const { return columns > 1; }
};
constexpr IntegerDigits pairs_of_int16{1, 2, 1}, fours_of_int8{2, 4, 1}, eights_of_int8{2, 8, 2};

// Stages of the form. e is the term of a sum, of channels or of keys; n a row of digits; z the subblock of a KV block.
struct SdpaInt8Stages {
    SdpaStages s;                  // query_t is X (e, n, d, t, h, b), where d counts groups of terms
    Halide::Func query_magnitude;  // (r, t, h, b): bits of u
    Halide::RVar query_channel;
    // Stages of full and of partial KV blocks. Loops are those of the sums: the term, and the group of terms.
    struct Integers {
        Halide::Func qk;                      // (n, k, c, t, h, b): sum_d X_d K_d
        Halide::Func qk_tiles, pv_tiles;      // by_tiles() only, qk and pv as (u, g, r, column / columns, ...)
        Halide::Func packed_key;              // by_tiles() only (d, k, c, h, b): K
        Halide::Func key_scale, value_scale;  // (k, c, t, h, b): a and b
        Halide::Func weight_magnitude;        // (r, z, c, t, h, b): bits of w
        Halide::Func weight;                  // (k, n, z, c, t, h, b): W, k in the subblock
        Halide::Func value_rows;              // (d, j, h, b): V
        Halide::Func packed_value;            // (e, d, k, h, b): V, where k counts groups of terms
        Halide::Func pv;                      // (n, d, z, c, t, h, b): sum_j W_j V_j
        Halide::RVar channel, key_of_magnitude, term, terms, subblock;
    } full, partial;
    IntegerDigits digits;

    Halide::Var e{"e"}, z{"z"}, j{"j"}, u{"u"}, g{"g"};  // j: key; u: column of a tile of sums; g: digit
};

// Rows are those of sdpa_split_stages(). Keys and values are int8 with scales, query is bf16; head sizes are multiples of the
// terms.
SdpaInt8Stages sdpa_int8_split_stages(const SdpaInputs &, const SdpaNumerics &, const ScheduleHints &, const Score &,
                                      const IntegerDigits &);

}  // namespace attune
