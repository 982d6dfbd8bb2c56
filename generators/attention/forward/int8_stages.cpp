// SPDX-License-Identifier: MIT
#include "generators/attention/forward/int8_stages.h"
#include "generators/math/bits.h"
#include "generators/math/nearest.h"

namespace attune {
using namespace Halide;

namespace {

// 127 + 256 * 127: the largest integer of two digits.
constexpr float largest_integer = 32639;

// The integer nearest to an f32 within int16, ties to even: the lower bits of the sum that nearest() makes. A NaN or an Inf
// gives some integer, where a conversion would be undefined.
Expr nearest_int16(const Expr &x) {
    return cast<int16_t>(reinterpret<int32_t>(strict_float(x + float(rounding_unit(Float(32))))));
}

// x as an integer of 16 bits, in units of a magnitude / largest_integer. A small magnitude is scaled first: otherwise its
// inverse would be Inf.
Expr in_units(const Expr &x, const Expr &bits) {
    const Expr magnitude = reinterpret<float>(bits);
    const Expr up = select(magnitude < 0x1p-60f, 0x1p64f, 1.0f);
    const Expr factor = select(magnitude > 0.0f, strict_float(largest_integer / (magnitude * up)), 0.0f);
    return nearest_int16(strict_float(x * up) * factor);
}

// A sum of integers in such units, as a number. In this order neither product leaves the range of float before the result does.
Expr number_of(const Expr &sum, const Expr &bits) {
    return strict_float(reinterpret<float>(bits) * strict_float(cast<float>(sum) * (1 / largest_integer)));
}

Expr integer_product(const Expr &x, const Expr &y) { return cast<int32_t>(x) * cast<int32_t>(y); }

// Digit g of an integer: the lowest is its lower byte, read as a signed number.
Expr digit_of(const IntegerDigits &digits, const Expr &x, const Expr &g) {
    if (digits.digits == 1) return x;
    const Expr lowest = cast<int8_t>(x);
    return select(g == 0, lowest, cast<int8_t>((x - cast<int16_t>(lowest)) >> 8));
}
// The integer that the digits of row r make of a sum.
Expr joined_digits(const IntegerDigits &digits, const Expr &r, const std::function<Expr(const Expr &n)> &sum) {
    if (digits.digits == 1) return sum(r);
    return sum(r * 2) + sum(r * 2 + 1) * 256;
}

// The sum of row n and of a column, from the tiles of sums.
Expr of_tiles(const IntegerDigits &digits, const Func &tiles, const Expr &n, const Expr &column,
              const std::vector<Expr> &rest) {
    std::vector<Expr> at{column % digits.columns, n % digits.digits, n / digits.digits, column / digits.columns};
    at.insert(at.end(), rest.begin(), rest.end());
    return tiles(at);
}

// Queries in units of their own.
void round_queries(SdpaInt8Stages &stages, Builder &build) {
    SdpaStages &s = build.s;
    const Var r = s.r, d = s.d, t = s.t, h = s.h, b = s.b;
    const IntegerDigits &digits = stages.digits;
    const auto channel = [&](const Expr &r, const Expr &d) {
        const Rows row = build.rows(r, t, h);
        return cast<float>(build.softmax.signed_query(build.in.query(d, row.query, row.query_head, b)));
    };
    RDom channels(0, build.in.head_dim, "query_channel");
    stages.query_channel = channels.x;
    stages.query_magnitude = Func("query_magnitude");
    stages.query_magnitude(r, t, h, b) = int32_t(0);
    stages.query_magnitude(r, t, h, b) = max(stages.query_magnitude(r, t, h, b), magnitude_bits(channel(r, channels.x)));
    s.query_t = Func("query_t");
    const Expr row = r / digits.digits, x = channel(row, d * digits.terms + stages.e);
    s.query_t(stages.e, r, d, t, h, b) = digit_of(digits, in_units(x, stages.query_magnitude(row, t, h, b)), r % digits.digits);
}

// Scores of the keys of a KV block, from products of integers.
KvBlockStages int8_scores(const SdpaInt8Stages &stages, SdpaInt8Stages::Integers &n, const Builder &build,
                          const std::string &suffix, bool masked) {
    const SdpaInputs &in = build.in;
    const SdpaStages &s = build.s;
    const Var r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
    const IntegerDigits &digits = stages.digits;
    const Expr key_head = build.rows(r, t, h).key_head, j = build.key_at(k, !masked);
    n.key_scale = Func("key_scale" + suffix), n.value_scale = Func("value_scale" + suffix);
    n.key_scale(k, c, t, h, b) = in.key_scale(j, key_head, b);
    n.value_scale(k, c, t, h, b) = in.value_scale(j, key_head, b);

    KvBlockStages p;
    RDom channel(0, digits.terms, 0, in.head_dim / digits.terms, "channel" + suffix);
    p.channel = channel.y, n.channel = channel.x;
    const auto query = [&](const Expr &row) { return s.query_t(channel.x, row, channel.y, t, h, b); };
    const Expr d = channel.y * digits.terms + channel.x;
    n.qk = Func("integer_qk" + suffix);
    if (digits.by_tiles()) {
        const Var u = stages.u, g = stages.g;
        n.packed_key = Func("packed_key" + suffix);
        n.packed_key(s.d, k, c, h, b) = in.key(s.d, j, h, b);
        n.qk_tiles = Func("integer_qk_tiles" + suffix);
        n.qk_tiles(u, g, r, k, c, t, h, b) = int32_t(0);
        n.qk_tiles(u, g, r, k, c, t, h, b) +=
            integer_product(query(r * digits.digits + g), n.packed_key(d, k * digits.columns + u, c, key_head, b));
        n.qk(r, k, c, t, h, b) = of_tiles(digits, n.qk_tiles, r, k, {c, t, h, b});
    } else {
        n.qk(r, k, c, t, h, b) = int32_t(0);
        n.qk(r, k, c, t, h, b) += integer_product(query(r), in.key(d, j, key_head, b));
    }
    p.qk = Func("qk" + suffix);
    p.qk(r, k, c, t, h, b) = number_of(joined_digits(digits, r, [&](const Expr &row) { return n.qk(row, k, c, t, h, b); }),
                                       stages.query_magnitude(r, t, h, b)) *
                             n.key_scale(k, c, t, h, b);
    p.score = Func("score" + suffix);
    build.finish_scores(p, suffix, masked);
    return p;
}

// Weights times scales of values, in units of their subblock. The scale of a masked key may be NaN: it is replaced.
void round_weights(const SdpaInt8Stages &stages, SdpaInt8Stages::Integers &n, const KvBlockStages &p, const Builder &build,
                   const std::string &suffix) {
    const SdpaStages &s = build.s;
    const Var r = s.r, k = s.k, z = stages.z, c = s.c, t = s.t, h = s.h, b = s.b;
    const int width = build.numerics.kv_subblock;
    const auto scaled = [&](const Expr &r, const Expr &k) {
        const Expr weight = p.weight(r, k, c, t, h, b);
        return select(counts(weight), weight * n.value_scale(k, c, t, h, b), 0.0f);
    };
    RDom key(0, width, "magnitude_key" + suffix);
    n.key_of_magnitude = key.x;
    n.weight_magnitude = Func("weight_magnitude" + suffix);
    n.weight_magnitude(r, z, c, t, h, b) = int32_t(0);
    n.weight_magnitude(r, z, c, t, h, b) =
        max(n.weight_magnitude(r, z, c, t, h, b), magnitude_bits(scaled(r, z * width + key)));
    n.weight = Func("integer_weight" + suffix);
    const IntegerDigits &digits = stages.digits;
    const Expr row = r / digits.digits;
    n.weight(k, r, z, c, t, h, b) =
        digit_of(digits, in_units(scaled(row, z * width + k), n.weight_magnitude(row, z, c, t, h, b)), r % digits.digits);
}

KvBlockStages int8_block_stages(const SdpaInt8Stages &stages, SdpaInt8Stages::Integers &n, const Builder &build,
                                const std::string &suffix, bool masked) {
    const SdpaStages &s = build.s;
    const Var r = s.r, d = s.d, z = stages.z, c = s.c, t = s.t, h = s.h, b = s.b;
    const Expr key_head = build.rows(r, t, h).key_head;
    const IntegerDigits &digits = stages.digits;
    const int width = build.numerics.kv_subblock, groups = width / digits.terms;
    KvBlockStages p = int8_scores(stages, n, build, suffix, masked);
    build.row_max(p, suffix, masked);
    build.weigh(p, suffix, masked);
    round_weights(stages, n, p, build, suffix);

    RDom key(0, digits.terms, 0, groups, "pv_key" + suffix);
    n.term = key.x, n.terms = key.y;
    n.packed_value = Func("packed_value" + suffix);
    n.value_rows = Func("value_rows" + suffix);
    const Var j = stages.j;
    const Expr last = build.in.keys - 1;
    n.value_rows(d, j, h, b) =
        cast(digits.type(), build.in.value(d, masked ? min(j, last) : unsafe_promise_clamped(j, 0, last), h, b));
    n.packed_value(stages.e, d, s.k, h, b) = n.value_rows(d, s.k * digits.terms + stages.e, h, b);
    n.pv = Func("integer_pv" + suffix);
    const Expr group = c * (build.numerics.kv_block / digits.terms) + z * groups + key.y;
    const auto term = [&](const Expr &row, const Expr &channel) {
        return integer_product(n.weight(key.y * digits.terms + key.x, row, z, c, t, h, b),
                               n.packed_value(key.x, channel, group, key_head, b));
    };
    if (digits.by_tiles()) {
        const Var u = stages.u, g = stages.g;
        n.pv_tiles = Func("integer_pv_tiles" + suffix);
        n.pv_tiles(u, g, r, d, z, c, t, h, b) = int32_t(0);
        n.pv_tiles(u, g, r, d, z, c, t, h, b) += term(r * digits.digits + g, d * digits.columns + u);
        n.pv(r, d, z, c, t, h, b) = of_tiles(digits, n.pv_tiles, r, d, {z, c, t, h, b});
    } else {
        n.pv(r, d, z, c, t, h, b) = int32_t(0);
        n.pv(r, d, z, c, t, h, b) += term(r, d);
    }
    RDom subblock(0, build.numerics.kv_block / width, "pv_subblock" + suffix);
    if (masked) subblock.where(build.seen_keys(c, subblock * width, width));
    n.subblock = subblock.x;
    p.pv = Func("pv" + suffix);
    p.pv(r, d, c, t, h, b) = 0.0f;
    p.pv(r, d, c, t, h, b) +=
        number_of(joined_digits(digits, r, [&](const Expr &row) { return n.pv(row, d, subblock, c, t, h, b); }),
                  n.weight_magnitude(r, subblock, c, t, h, b));
    return p;
}

}  // namespace

SdpaInt8Stages sdpa_int8_split_stages(const SdpaInputs &in, const SdpaNumerics &numerics, const ScheduleHints &hints,
                                      const Score &score, const IntegerDigits &digits) {
    SdpaInt8Stages stages;
    stages.digits = digits;
    Builder build = group_rows(in, numerics, hints, score);
    build.prepare();
    build.intervals();
    SdpaStages &s = build.s;
    round_queries(stages, build);
    s.partial = int8_block_stages(stages, stages.partial, build, "_partial", true);
    s.full = int8_block_stages(stages, stages.full, build, "", false);
    split_merge(build);
    stages.s = build.s;
    return stages;
}

}  // namespace attune
