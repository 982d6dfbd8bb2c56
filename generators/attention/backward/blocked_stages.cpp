// SPDX-License-Identifier: MIT
#include "generators/attention/backward/builder.h"
#include "generators/attention/equations/scores.h"
#include "generators/math/narrowed.h"

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

namespace {
// A condition that bounds inference cannot read: it would infer bounds of tiles, different ones for each Func of fused loops.
Expr opaque(const Expr &condition, const Expr &keys) { return (select(condition, keys, 0) & keys) > 0; }
}  // namespace

// Query and key of a pair of a tile: promised to exist in a tile that lies within both ends, else clamped to the last ones. A
// broken promise gives more than wrong values: stages are allocated by it, and read beyond their ends.
Expr BackwardBuilder::query_at(Expr q, bool inside) const {
    Expr i = s.u * numerics.tile_q + q;
    return inside && !hints.every_tile_in_full ? unsafe_promise_clamped(i, 0, in.queries - 1) : min(i, in.queries - 1);
}
Expr BackwardBuilder::key_at(Expr r, bool inside) const {
    Expr j = s.t * numerics.kv_block + r;
    return inside && !hints.every_tile_in_full ? unsafe_promise_clamped(j, 0, in.keys - 1) : min(j, in.keys - 1);
}
Expr BackwardBuilder::channel(Expr d, Expr extent) const { return hints.ragged_dims ? min(d, extent - 1) : d; }

Expr BackwardBuilder::seen(Expr u, Expr h, Expr t) const {
    Expr first = u * numerics.tile_q, last = min(first + numerics.tile_q, in.queries) - 1;
    const Span keys = seen_by_some(first, last, in.longest(u), {in.band_begin, in.band_end});
    Expr some = t * numerics.kv_block < keys.end && (t + 1) * numerics.kv_block > keys.begin;
    if (!in.blocks.defined()) return some;
    const BlockSpan span = BlockSpan::unpacked(in.blocks(t, u, h));
    return some && span.begin < span.end;
}
Expr BackwardBuilder::whole(Expr u, Expr h, Expr t) const {
    Expr first = u * numerics.tile_q, last = first + numerics.tile_q - 1;
    const Span keys = seen_by_all(first, last, in.shortest(u), {in.band_begin, in.band_end});
    Expr all = last < in.queries && t * numerics.kv_block >= keys.begin && (t + 1) * numerics.kv_block <= keys.end;
    return score.and_unmasked(all, in.blocks.defined() ? BlockSpan::unpacked(in.blocks(t, u, h)).whole : Expr());
}

void BackwardBuilder::take_tiles(RDom &tiles, const Expr &u, const Expr &h, const Expr &t, bool full,
                                 const Expr &wanted) const {
    tiles.where(opaque(wanted.defined() ? seen(u, h, t) && wanted : seen(u, h, t), in.keys));
    tiles.where(opaque(full ? whole(u, h, t) : !whole(u, h, t), in.keys));
}

void BackwardBuilder::rows() {
    Var d = s.d, i = s.i, j = s.j, h = s.h, r = s.r, t = s.t;
    Expr query = min(i, in.queries - 1), key = min(j, in.keys - 1);
    s.query_rows = Func("query_rows"), s.grad_rows = Func("grad_rows"), s.key_rows = Func("key_rows");
    auto of_query = [&](Expr x) { return score.pair.query ? score.pair.query(x) : x; };
    auto of_key = [&](Expr x) { return score.pair.key ? score.pair.key(x) : x; };
    if (score.pair.unit_rows) unit_rows();
    if (!of_capture) magnitudes();
    auto unit_query = [&](Expr x, Expr i) { return s.query_norm.defined() ? x * s.query_norm(i, h) : x; };
    auto unit_key = [&](Expr x, Expr j) { return s.key_norm.defined() ? x * s.key_norm(j) : x; };
    s.query_rows(d, i, h) = unit_query(of_query(cast(type, in.query(channel(d, in.head_dim), query, h))), query);
    s.grad_rows(d, i, h) = cast(type, in.grad_out(channel(d, in.value_dim), query, h));
    s.key_rows(d, j) = unit_key(of_key(cast(type, in.key(channel(d, in.head_dim), key))), key);
    s.key_t = Func("key_t"), s.value_t = Func("value_t");
    if (numerics.amx_tiles) return amx_factors();
    if (in_pairs()) return pair_rows();
    auto in_columns = [&](Func &columns, std::optional<BlockTranspose> &blocks, const Expr &extent, const auto &element) {
        const int side = hints.transposed_block;
        if (side == 0) {
            columns(r, d, t) = element(d, key_at(r, false));
            return;
        }
        blocks.emplace(columns.name() + "_block", side, std::vector<Var>{t},
                       [&](Expr r, Expr d) { return element(min(likely(d), extent - 1), key_at(r, false)); });
        columns(r, d, t) = (*blocks)(r, d, {t});
    };
    in_columns(s.key_t, s.key_blocks, in.head_dim,
               [&](Expr d, Expr j) { return unit_key(of_key(cast(type, in.key(d, j))), j); });
    in_columns(s.value_t, s.value_blocks, in.value_dim, [&](Expr d, Expr j) { return cast(type, in.value(d, j)); });
}

void BackwardBuilder::magnitudes() {
    Var d = s.d;
    s.largest_bits = Func("largest_bits");
    const Type bits = UInt(numerics.type.bits());
    s.largest_bits() = make_const(bits, 0);
    auto look_at = [&](const std::string &name, const Expr &extent, const Expr &x) {
        Func of_channel(name + "_bits");
        of_channel(d) = make_const(bits, 0);
        of_channel(d) = max(of_channel(d), reinterpret(bits, x) & make_const(bits, (uint64_t(1) << (bits.bits() - 1)) - 1));
        RDom channel(0, extent, name + "_bits_channel");
        s.largest_bits() = max(s.largest_bits(), of_channel(channel));
        s.channel_bits.push_back(of_channel);
    };
    // Only the computed tiles: the others are no part of any sum.
    const Expr first_query = in.first_query_tile * numerics.tile_q, first_key = in.first_key_tile * numerics.kv_block;
    const Expr queries = min(in.query_tiles * numerics.tile_q, in.queries - first_query);
    const Expr keys = min(in.key_tiles * numerics.kv_block, in.keys - first_key);
    RDom query(0, queries, 0, in.heads, "query_row"), grad(0, queries, 0, in.heads, "grad_row"), key(0, keys, "key_row");
    look_at("query", in.head_dim, in.query(channel(d, in.head_dim), first_query + query.x, query.y));
    look_at("key", in.head_dim, in.key(channel(d, in.head_dim), first_key + key));
    look_at("grad", in.value_dim, in.grad_out(channel(d, in.value_dim), first_query + grad.x, grad.y));
}

void BackwardBuilder::unit_rows() {
    const Var i = s.i, j = s.j, h = s.h;
    s.query_norm = inverse_norms(
        "query_norm", [&](const Expr &d) -> Expr { return in.query(d, i, h); }, {i, h}, in.head_dim, type);
    s.key_norm = inverse_norms(
        "key_norm", [&](const Expr &d) -> Expr { return in.key(d, j); }, {j}, in.head_dim, type);
}

Expr BackwardBuilder::all_finite() const {
    const int bits = numerics.type.bits(), mantissa = bits == 64 ? 52 : bits == 32 ? 23 : numerics.type.is_bfloat() ? 7 : 10;
    return s.largest_bits() < make_const(UInt(bits), ((uint64_t(1) << (bits - 1 - mantissa)) - 1) << mantissa);
}

// The gradient by a row from the gradient by its unit row: the component along the row has no effect. The gradient of a row
// that nothing sees is 0, whatever the row holds.
Expr BackwardBuilder::projected(const Expr &total, const Expr &row, const Expr &dot, const Expr &size,
                                const Expr &inverse_norm) const {
    // As bits: code generation may multiply the 0 by the norm, which is NaN where the row is.
    return reinterpret(
        type, select(strict_float(size == value_of(0)), bits_of(value_of(0)), bits_of((total - row * dot) * inverse_norm)));
}

// part(d, row) += weight(along) * row(d, along). Where pairs may be masked, masked rows are left out: they may hold NaN. With
// pairs, `along` counts pairs, and weight and row take the element too. In a masked tile only the seen blocks are summed.
TileSum BackwardBuilder::sum(const std::string &name, bool of_queries, bool masked, const Expr &wanted, const Weight &weight,
                             const Row &row) const {
    Var x = of_queries ? s.q : s.r, block("block");
    const int extent = of_queries ? numerics.kv_block : numerics.tile_q;
    const int along_block = !masked ? extent : of_queries ? hints.block_keys : hints.block_queries;
    TileSum sum{Func(name), {}, {}, {}};
    const std::vector<Var> args = {s.d, x, block, s.u, s.h, s.t};
    sum.part(args) = value_of(0);
    const Expr finite = all_finite();
    auto add = [&](bool leave_out, Expr when) {
        const int size = in_pairs() ? 2 : 1;
        RDom along(0, size, 0, along_block / size, 0, extent / along_block, name + "_along" + std::to_string(sum.along.size()));
        along.where(wanted);
        if (when.defined()) along.where(when);
        if (masked) along.where(of_queries ? seen_block(along.z, block) : seen_block(block, along.z));
        const Expr at = along.z * (along_block / size) + along.y;
        Expr w = weight(along.x, at, x), y = row(along.x, at);
        sum.part(args) += product(w, leave_out ? select(counts(w), y, make_const(y.type(), 0)) : y);
        sum.block.push_back(along.z), sum.along.push_back(along.y), sum.element.push_back(along.x);
    };
    if (masked) {
        add(false, finite);
        add(true, !finite);
    } else {
        add(false, Expr());
    }
    return sum;
}

void BackwardBuilder::sums(BackwardTile &p, const std::string &suffix, bool masked) const {
    Var u = s.u, h = s.h, t = s.t, d = s.d;
    const bool pairs = in_pairs();
    if (pairs) round_tile(p, suffix);
    if (numerics.amx_tiles) return amx_sums(p, suffix, masked);
    const Func weight = p.dropped.defined() ? p.dropped : p.weight;
    const int half_tile = numerics.tile_q / 2, half_block = numerics.kv_block / 2;
    p.value_sum = sum(
        "value_part" + suffix, false, masked, in.wants_key,
        [&](Expr e, Expr along, Expr r) -> Expr {
            return pairs ? p.weight_pairs[0](e, r, along, u, h, t) : weight(r, along, u, h, t);
        },
        [&](Expr e, Expr along) -> Expr {
            return pairs ? s.grad_pairs(e, d, u * half_tile + along, h) : s.grad_rows(d, u * numerics.tile_q + along, h);
        });
    if (score.pair.term) return terms(p, suffix, masked);
    p.query_sum = sum(
        "query_part" + suffix, true, masked, in.wants_query,
        [&](Expr e, Expr along, Expr q) -> Expr {
            return pairs ? p.gradient_rows(along * 2 + e, q, u, h, t) : p.score_gradient(along, q, u, h, t);
        },
        [&](Expr e, Expr along) -> Expr {
            return pairs ? s.key_pairs(e, d, t * half_block + along) : s.key_rows(d, t * numerics.kv_block + along);
        });
    p.key_sum = sum(
        "key_part" + suffix, false, masked, in.wants_key,
        [&](Expr e, Expr along, Expr r) -> Expr {
            return pairs ? p.gradient_pairs[0](e, r, along, u, h, t) : p.score_gradient(r, along, u, h, t);
        },
        [&](Expr e, Expr along) -> Expr {
            return pairs ? s.query_pairs(e, d, u * half_tile + along, h) : s.query_rows(d, u * numerics.tile_q + along, h);
        });
}

BackwardTile BackwardBuilder::tile_of(const std::string &suffix, bool masked) const {
    BackwardTile p;
    scores(p, suffix, masked);
    weights(p, suffix, masked);
    if (!of_capture) sums(p, suffix, masked);
    return p;
}

FuncRef BackwardBuilder::of_key(Func &total, const Expr &row, const Expr &tile) const {
    return numerics.amx_tiles ? total(row, s.d, tile) : total(s.d, row, tile);
}

// Loops are fused by their names alone, so all domains have the same dimensions.
BackwardBuilder::TileDomain BackwardBuilder::tile_domain(int keys, int queries, const std::string &name) const {
    RDom all({{0, keys}, {0, queries}, {0, in.query_tiles}, {0, in.heads}, {0, in.key_tiles}}, name);
    return {all, in.first_query_tile + all[2], in.first_key_tile + all[4]};
}

BackwardBuilder::TileDomain BackwardBuilder::seen_tiles(int keys, int queries, bool full, const Expr &wanted) const {
    TileDomain x = tile_domain(keys, queries, full ? "full" : "partial");
    take_tiles(x.loops, x.u, x.loops[3], x.t, full, wanted);
    return x;
}

void BackwardBuilder::add_tile_sums(bool full) {
    Var r = s.r, q = s.q, d = s.d;
    const BackwardTile &p = full ? s.full : s.partial;
    // AMX tiles, whose sums stand under no condition of their own.
    const bool tiles = numerics.amx_tiles;
    const TileDomain x = seen_tiles(1, 1, full, tiles ? in.wants_query : Expr()),
                     y = seen_tiles(1, 1, full, tiles ? in.wants_key : Expr());
    const RVar query_tile = x.loops[2], head = x.loops[3], key_tile = x.loops[4];
    (full ? s.full_tiles : s.partial_tiles) = {query_tile, head, key_tile, x.loops[0], x.loops[1], {}, {}};
    s.query_total(d, q, reduced(query_tile, key_tile, in.key_tiles), reduced(head, key_tile, in.key_tiles)) +=
        tiles ? p.query_sum.part(d, q, x.u, head, x.t) : p.query_sum.part(d, q, q / hints.block_queries, x.u, head, x.t);
    const Expr tile = reduced(y.loops[4], y.loops[2], in.query_tiles);
    for (const auto &[total, sum] : {std::pair(s.key_total, p.key_sum), std::pair(s.value_total, p.value_sum)}) {
        Func f = total;
        of_key(f, r, tile) +=
            tiles ? sum.part(r, d, y.u, y.loops[3], y.t) : sum.part(d, r, r / hints.block_keys, y.u, y.loops[3], y.t);
    }
}

void BackwardBuilder::set_bias(TileDomain x, const BiasExtents &extents, bool inside, const Expr &value) {
    x.loops.where(in.wants_bias);
    if (!inside) x.loops.where(x.u * numerics.tile_q + x.loops[1] < in.queries);
    const Expr j = x.loops[4] * numerics.kv_block + x.loops[0], i = x.loops[2] * numerics.tile_q + x.loops[1];
    s.bias_out(unsafe_promise_clamped(j, 0, extents.keys - 1), unsafe_promise_clamped(i, 0, extents.queries - 1),
               reduced(x.loops[3], x.loops[4], in.key_tiles)) = narrowed(numerics.type, value);
    s.bias_loops.push_back({x.loops[0], x.loops[1], x.loops[2], x.loops[3], x.loops[4]});
}

void BackwardBuilder::totals() {
    s.query_total = Func("query_total"), s.key_total = Func("key_total"), s.value_total = Func("value_total");
    s.query_total(s.d, s.q, s.u, s.h) = value_of(0);
    of_key(s.key_total, s.r, s.t) = value_of(0);
    of_key(s.value_total, s.r, s.t) = value_of(0);
    const bool bias = in.wants_bias.defined();
    BiasExtents extents;
    if (bias) {
        s.bias_out = Func("bias_out");
        s.bias_out(s.j, s.i, s.h) = undef(numerics.type);
        const Expr queries = min(in.query_tiles * numerics.tile_q, in.queries - in.first_query_tile * numerics.tile_q);
        extents = {select(in.wants_bias, in.key_tiles * numerics.kv_block, 0), select(in.wants_bias, queries, 0)};
    }
    for (const bool full : {true, false}) {
        add_tile_sums(full);
        if (!bias) continue;
        const TileDomain z = seen_tiles(numerics.kv_block, numerics.tile_q, full, Expr());
        const Expr by_score = (full ? s.full : s.partial).score_gradient(z.loops[0], z.loops[1], z.u, z.loops[3], z.t);
        set_bias(z, extents, full, full ? by_score : select(counts(by_score), by_score, value_of(0)));
    }
    if (!bias) return;
    TileDomain none = tile_domain(numerics.kv_block, numerics.tile_q, "none");
    none.loops.where(opaque(!seen(none.u, none.loops[3], none.t), in.keys));
    set_bias(none, extents, false, value_of(0));
}

void BackwardBuilder::outputs() {
    Var d = s.d, i = s.i, j = s.j, h = s.h;
    Expr scale = cast(type, in.scale) * by_sum(), tile = j / numerics.kv_block, key = j % numerics.kv_block;
    if (score.pair.weight) scale *= score.pair.weight(d);
    s.query_out = Func("query_out"), s.key_out = Func("key_out"), s.value_out = Func("value_out");
    auto query_total = [&](Expr d) { return s.query_total(d, i % numerics.tile_q, i / numerics.tile_q, h); };
    auto key_total = [&](Expr d) { return Expr(s.in_amx_tiles ? s.key_total(key, d, tile) : s.key_total(d, key, tile)); };
    Expr by_query = query_total(d), by_key = key_total(d);
    if (score.pair.unit_rows) {
        Expr query = min(in.first_query_tile * numerics.tile_q + i, in.queries - 1);
        Expr key = min(in.first_key_tile * numerics.kv_block + j, in.keys - 1);
        RDom channel(0, in.head_dim, "unit_channel");
        s.query_dot = Func("query_dot"), s.query_size = Func("query_size");
        s.key_dot = Func("key_dot"), s.key_size = Func("key_size");
        s.query_dot(i, h) += query_total(channel) * s.query_rows(channel, query, h);
        s.query_size(i, h) += abs(query_total(channel));
        s.key_dot(j) += key_total(channel) * s.key_rows(channel, key);
        s.key_size(j) += abs(key_total(channel));
        by_query =
            projected(by_query, s.query_rows(d, query, h), s.query_dot(i, h), s.query_size(i, h), s.query_norm(query, h));
        by_key = projected(by_key, s.key_rows(d, key), s.key_dot(j), s.key_size(j), s.key_norm(key));
    }
    s.query_out(d, i, h) = narrowed(numerics.type, by_query * scale);
    s.key_out(d, j) = narrowed(numerics.type, by_key * scale);
    Expr value = of_key(s.value_total, key, tile);
    if (in.dropout.keep_scale.defined()) value *= cast(type, in.dropout.keep_scale);
    s.value_out(d, j) = narrowed(numerics.type, value);
}

BackwardStages backward_stages(const BackwardInputs &in, const BackwardNumerics &numerics, const BackwardHints &hints,
                               const Score &score) {
    if (numerics.amx_tiles && numerics.type.bits() > 32)
        throw CompileError("attune: gradients by AMX tiles take bf16, f16 and f32\n");
    if (numerics.amx_tiles && (score.probability || score.pair.term || score.pair.unit_rows))
        throw CompileError("attune: gradients by AMX tiles are of dot products, without a factor of the weights\n");
    BackwardBuilder b{in, numerics, hints, score};
    b.rows();
    b.s.full = b.tile_of("", false);
    b.s.partial = b.tile_of("_partial", true);
    if (score.pair.term)
        b.term_totals();
    else
        b.totals();
    b.outputs();
    return std::move(b.s);
}

}  // namespace attune
