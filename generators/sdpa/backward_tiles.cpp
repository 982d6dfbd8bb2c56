// Gradients by products of whole matrix tiles of bf16. The left factor of a product lies in rows along its reduction, the right
// one in pairs along it. Keys are the lanes of scores, as in all forms: so weights and their gradients become pairs of queries, or
// rows of keys, as they are rounded, and nothing of a tile is transposed. The gradients of key and value have keys as lanes
// therefore.
#include "generators/sdpa/backward_builder.h"

namespace attune {
using namespace Halide;

void BackwardBuilder::columns() {
    Var d = s.d, q = s.q, u = s.u, h = s.h, r = s.r, e = s.e;
    s.in_matrix_tiles = true;
    auto in_tiles = [&](const Func &rows, const Expr &extent) {
        const Expr pairs = extent / 2;
        return rows(d % pairs * 2 + e, min(d / pairs * shape.chunk + r, in.keys - 1));
    };
    s.key_t(e, r, d) = in_tiles(in.key, in.head_dim);
    s.value_t(e, r, d) = in_tiles(in.value, in.value_dim);
    s.query_columns = Func("query_columns"), s.grad_columns = Func("grad_columns");
    s.query_columns(q, d, u, h) = in.query(d, query_at(q, false), h);
    s.grad_columns(q, d, u, h) = in.grad_out(d, query_at(q, false), h);
    for (const Func &rows : {s.key_pairs, s.query_columns, s.grad_columns}) {
        Func finite(rows.name() + "_finite");
        const std::vector<Var> args = rows.args();
        const std::vector<Expr> at(args.begin(), args.end());
        finite(args) = select(is_finite_bf16(rows(at)), rows(at), bfloat16_t(0.0f));
        s.finite_rows.push_back(finite);
    }
}

Func BackwardBuilder::matrix_channel_product(const std::string &name, const Func &keys, const Func &queries, const Expr &extent,
                                             RVar &along) const {
    Var r = s.r, q = s.q, u = s.u, h = s.h, t = s.t;
    RDom channel(0, extent, name + "_channel");
    along = channel.x;
    Func f(name);
    f(r, q, u, h, t) = 0.0f;
    f(r, q, u, h, t) +=
        product(queries(channel, u * shape.tile_q + q, h), keys(channel % 2, r, t * (extent / 2) + channel / 2));
    return f;
}

// What is masked is multiplied, too, but by zero instead of NaN and Inf; of those what is not masked is added then. So a sum has
// the same bits whatever is in rows that have no part in it.
TileSum BackwardBuilder::matrix_sum(const std::string &name, bool of_queries, bool masked, const Term &weight,
                                    const Factor &rows, const TermOf &row) const {
    const int extent = of_queries ? shape.chunk : shape.tile_q;
    TileSum sum;
    std::vector<Var> args = {s.d, s.q, s.u, s.h, s.t};
    if (!of_queries) args = {s.r, s.d, s.u, s.h, s.t};
    const std::vector<Expr> at(args.begin(), args.end());
    sum.product = Func(name + "_product"), sum.part = Func(name);
    RDom along(0, extent, name + "_along");
    const Expr w = weight(along), y = row(masked ? rows.finite : rows.all, along);
    sum.product(args) = 0.0f;
    sum.product(args) += of_queries ? product(w, y) : product(y, w);
    sum.part(args) = sum.product(at);
    sum.along.push_back(along.x);
    if (masked) {
        RDom kept(0, extent, name + "_kept");
        kept.where(!all_finite());
        const Expr w = weight(kept), y = row(rows.all, kept);
        sum.part(args) += select(counts(w) && !is_finite_bf16(y), product(w, y), 0.0f);
        sum.along.push_back(kept.x);
    }
    return sum;
}

void BackwardBuilder::matrix_sums(BackwardTile &p, const std::string &suffix, bool masked) const {
    Var q = s.q, r = s.r, u = s.u, h = s.h, t = s.t, d = s.d;
    const TermOf of_query = [&](const Func &columns, const Expr &i) -> Expr { return columns(i, d, u, h); };
    p.query_sum = matrix_sum(
        "query_part" + suffix, true, masked, [&](const Expr &key) -> Expr { return p.gradient_rows(key, q, u, h, t); },
        {s.key_pairs, s.finite_rows[0]},
        [&](const Func &pairs, const Expr &key) -> Expr { return pairs(key % 2, d, t * (shape.chunk / 2) + key / 2); });
    p.key_sum = matrix_sum(
        "key_part" + suffix, false, masked, [&](const Expr &i) -> Expr { return p.gradient_pairs(i % 2, r, i / 2, u, h, t); },
        {s.query_columns, s.finite_rows[1]}, of_query);
    p.value_sum = matrix_sum(
        "value_part" + suffix, false, masked, [&](const Expr &i) -> Expr { return p.weight_pairs(i % 2, r, i / 2, u, h, t); },
        {s.grad_columns, s.finite_rows[2]}, of_query);
}

}  // namespace attune
