// SPDX-License-Identifier: MIT
// Gradients by AMX tiles of bf16. The left factor of a product lies in rows along its reduction, the right factor in pairs
// along it. Keys are the lanes of scores, as in all forms: so weights and their gradients become pairs of queries, or rows of
// keys, as they are rounded or split into parts, and nothing of a tile is transposed. Therefore the gradients of key and value
// have keys as lanes.
#include "generators/attention/backward/builder.h"
#include "generators/math/bf16_bits.h"

namespace attune {
using namespace Halide;

// Pairs of neighbours x(0) and x(1), one Func per part.
std::vector<Func> BackwardBuilder::pairs(const std::string &name, const std::vector<Var> &args,
                                         const std::function<Expr(Expr element)> &x) const {
    std::vector<Func> all;
    for (int n = 0; n < parts(); n++) {
        Func part(parts() > 1 ? name + std::to_string(n) : name);
        part(args) =
            parts() > 1 ? element_of_pair(pair_of_parts(cast<float>(x(0)), cast<float>(x(1)), n, numerics.type), s.e) : x(s.e);
        all.push_back(part);
    }
    return all;
}

void BackwardBuilder::amx_factors() {
    Var d = s.d, i = s.i, j = s.j, q = s.q, u = s.u, h = s.h, r = s.r, e = s.e;
    s.in_amx_tiles = true;
    BackwardStages::AmxFactors &f = s.factors;
    auto of_row = [&](const Expr &x) { return Tuple(bf16_parts(x, numerics.round_pairs)); };
    s.query_rows = Func("query_rows"), s.grad_rows = Func("grad_rows");
    f.query_columns = Func("query_columns"), f.grad_columns = Func("grad_columns");
    const Expr query = min(i, in.queries - 1);
    s.query_rows(d, i, h) = of_row(in.query(d, query, h));
    s.grad_rows(d, i, h) = of_row(in.grad_out(d, query, h));
    auto blocks = [&](const std::string &name, const std::vector<Var> &outer, const auto &element) {
        return BlockTranspose(name, block_side(numerics.type), outer, element);
    };
    f.query_blocks = blocks("query_block", {u, h}, [&](Expr q, Expr d) { return in.query(d, query_at(q, false), h); });
    f.grad_blocks = blocks("grad_block", {u, h}, [&](Expr q, Expr d) { return in.grad_out(d, query_at(q, false), h); });
    f.query_columns(q, d, u, h) = of_row((*f.query_blocks)(q, d, {u, h}));
    f.grad_columns(q, d, u, h) = of_row((*f.grad_blocks)(q, d, {u, h}));
    auto key_at = [&](const Func &rows, const Expr &r, const Expr &d, const Expr &t) {
        return rows(d, min(t * numerics.kv_block + r, in.keys - 1));
    };
    auto in_tiles = [&](const std::string &name, const Func &rows, const Expr &extent, std::optional<BlockTranspose> &table,
                        Func &columns) {
        const Expr pairs_of_channels = extent / 2, tile = d / pairs_of_channels, pair = d % pairs_of_channels;
        if (parts() == 1)
            return pairs(name + "_t", {e, r, d}, [&](const Expr &e) { return key_at(rows, r, pair * 2 + e, tile); });
        Var t = s.t;
        table = blocks(name + "_block", {t}, [&](Expr r, Expr d) { return key_at(rows, r, d, t); });
        columns = Func(name + "_columns");
        columns(r, d, t) = (*table)(r, d, {t});
        return pairs(name + "_t", {e, r, d}, [&](const Expr &e) -> Expr { return columns(r, pair * 2 + e, tile); });
    };
    f.key_t = in_tiles("key", in.key, in.head_dim, f.key_blocks, f.key_columns);
    f.value_t = in_tiles("value", in.value, in.value_dim, f.value_blocks, f.value_columns);
    f.key_pairs = pairs("key_pairs", {e, d, j}, [&](const Expr &e) -> Expr { return in.key(d, min(j * 2 + e, in.keys - 1)); });

    // Decided by the last part: the other parts are always finite.
    auto finite_of = [](std::vector<Expr> of) {
        const Expr finite = is_finite_bf16(of.back());
        for (Expr &part : of) part = select(finite, part, bfloat16_t(0.0f));
        return of;
    };
    const std::vector<Expr> of_pairs = finite_of(parts_at(f.key_pairs, {e, d, j}));
    for (int n = 0; n < parts(); n++) {
        Func part(f.key_pairs[n].name() + "_finite");
        part(e, d, j) = of_pairs[n];
        f.finite_key_pairs.push_back(part);
    }
    f.finite_query_columns = Func("query_columns_finite"), f.finite_grad_columns = Func("grad_columns_finite");
    f.finite_query_columns(q, d, u, h) = Tuple(finite_of(parts_at(f.query_columns(q, d, u, h))));
    f.finite_grad_columns(q, d, u, h) = Tuple(finite_of(parts_at(f.grad_columns(q, d, u, h))));
}

Func BackwardBuilder::amx_channel_product(const std::string &name, const std::vector<Func> &keys, const Func &queries,
                                          const Expr &extent, RVar &along) const {
    Var r = s.r, q = s.q, u = s.u, h = s.h, t = s.t;
    RDom channel(0, extent, name + "_channel");
    along = channel.x;
    Func f(name);
    f(r, q, u, h, t) = 0.0f;
    add_product(f(r, q, u, h, t), products_of_parts(parts()), parts_at(queries(channel, u * numerics.tile_q + q, h)),
                parts_at(keys, {channel % 2, r, t * (extent / 2) + channel / 2}));
    return f;
}

// Sum of a tile. Masked pairs are multiplied too, with 0 instead of NaN and Inf; the products of the NaN and Inf of unmasked
// pairs are added afterwards. So a sum has the same bits whatever the rows that have no part in it hold.
TileSum BackwardBuilder::amx_sum(const std::string &name, bool of_queries, bool masked, const Term &weight,
                                 const TermOf &row) const {
    const int extent = of_queries ? numerics.kv_block : numerics.tile_q;
    TileSum sum;
    std::vector<Var> args = {s.d, s.q, s.u, s.h, s.t};
    if (!of_queries) args = {s.r, s.d, s.u, s.h, s.t};
    const std::vector<Expr> at(args.begin(), args.end());
    sum.product = Func(name + "_product"), sum.part = Func(name);
    RDom along(0, extent, name + "_along");
    const Parts w = weight(along), y = row(along, masked);
    sum.product(args) = 0.0f;
    add_product(sum.product(args), products_with_parts_of_weights(parts()), of_queries ? w : y, of_queries ? y : w);
    sum.part(args) = sum.product(at);
    sum.along.push_back(along.x);
    if (masked) {
        RDom kept(0, extent, name + "_kept");
        kept.where(!all_finite());
        const Expr w = weight(kept)[0], y = row(kept, false).back();
        sum.part(args) += select(counts(w) && !is_finite_bf16(y), product(w, y), 0.0f);
        sum.along.push_back(kept.x);
    }
    return sum;
}

void BackwardBuilder::amx_sums(BackwardTile &p, const std::string &suffix, bool masked) const {
    Var q = s.q, r = s.r, u = s.u, h = s.h, t = s.t, d = s.d;
    const BackwardStages::AmxFactors &f = s.factors;
    auto of_queries = [&](const Func &all, const Func &finite_columns) -> TermOf {
        return [=](const Expr &i, bool finite) { return parts_at((finite ? finite_columns : all)(i, d, u, h)); };
    };
    p.query_sum = amx_sum(
        "query_part" + suffix, true, masked, [&](const Expr &key) { return parts_at(p.gradient_rows(key, q, u, h, t)); },
        [&](const Expr &key, bool finite) {
            return parts_at(finite ? f.finite_key_pairs : f.key_pairs, {key % 2, d, t * (numerics.kv_block / 2) + key / 2});
        });
    p.key_sum = amx_sum(
        "key_part" + suffix, false, masked,
        [&](const Expr &i) {
            return parts_at(p.gradient_pairs, {i % 2, r, i / 2, u, h, t});
        },
        of_queries(f.query_columns, f.finite_query_columns));
    p.value_sum = amx_sum(
        "value_part" + suffix, false, masked,
        [&](const Expr &i) {
            return parts_at(p.weight_pairs, {i % 2, r, i / 2, u, h, t});
        },
        of_queries(f.grad_columns, f.finite_grad_columns));
}

}  // namespace attune
