// SPDX-License-Identifier: MIT
#include "generators/mask_blocks/mask_blocks_stages.h"
#include "generators/attention/equations/user_attention.h"
#include "generators/attention/forward/block_mask.h"
#include <map>

namespace attune {
using namespace Halide;
using Halide::Internal::Interval;
using Halide::Internal::Scope;
using Halide::Internal::Variable;

namespace {

// Bounds of the mask over all pairs of a block: nowhere true unless `possible`, everywhere true if `certain`.
struct Bounds {
    Expr possible, certain;
};
Bounds bounds_of(const MaskBlocksInputs &in, Expr c, Expr t, Expr h, Expr b) {
    const Expr first_query = t * in.block_queries, first_key = c * in.block_keys, first_head = h * in.block_heads;
    const Expr group = in.query_heads / in.key_heads, last_head = first_head + in.block_heads - 1;
    struct Range {
        const char *name;
        Expr min, max;
    };
    const std::vector<Range> ranges = {{"pair_i", first_query, min(first_query + in.block_queries, in.queries) - 1},
                                       {"pair_j", first_key, min(first_key + in.block_keys, in.keys) - 1},
                                       {"pair_h", first_head, last_head},
                                       {"pair_key_head", first_head / group, last_head / group}};
    // The ends are symbols too, so that no simplification of the interval looks into them.
    Scope<Interval> scope;
    std::map<std::string, Expr> meaning = {{"pair_b", b},
                                           {"pair_offset", in.offset(b)},
                                           {"pair_heads", in.query_heads},
                                           {"pair_queries", in.queries},
                                           {"pair_keys", in.keys}};
    for (const Range &r : ranges) {
        const std::string low = std::string(r.name) + "_min", high = std::string(r.name) + "_max";
        scope.push(r.name, Interval(Variable::make(Int(32), low), Variable::make(Int(32), high)));
        meaning[low] = r.min, meaning[high] = r.max;
    }
    const Interval interval = Internal::bounds_of_expr_in_scope(Internal::simplify(in.mask(symbolic_index())), scope);
    auto end_of = [&](bool known, const Expr &end, bool otherwise) {
        return known ? Internal::substitute(meaning, end) : otherwise ? Internal::const_true() : Internal::const_false();
    };
    return {end_of(interval.has_upper_bound(), interval.max, true), end_of(interval.has_lower_bound(), interval.min, false)};
}

}  // namespace

MaskDependence dependence_of(const MaskFunction &mask) {
    const Expr e = mask(symbolic_index());
    auto reads = [&](const char *name) { return Internal::expr_uses_var(e, name); };
    return {reads("pair_h") || reads("pair_key_head"), reads("pair_b")};
}

MaskBlocksStages mask_blocks_stages(const MaskBlocksInputs &in, int group) {
    MaskBlocksStages s;
    Var k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
    RDom rows(0, in.block_heads, 0, in.block_queries, "row");
    s.head = rows.x, s.query = rows.y;
    const Expr inside = t * in.block_queries + rows.y < in.queries;  // not a where(): a mask need not read the query
    const Expr i = min(t * in.block_queries + rows.y, in.queries - 1), j = min(c * in.block_keys + k, in.keys - 1);
    const Expr head = h * in.block_heads + rows.x;
    const Expr sees = cast<uint8_t>(in.mask(
        {b, head, i, j, i + in.offset(b), head / (in.query_heads / in.key_heads), in.query_heads, in.queries, in.keys, {}}));
    s.column = Func("column");
    s.column(k, c, t, h, b) = Tuple(cast<uint8_t>(0), cast<uint8_t>(1));
    const FuncRef column = s.column(k, c, t, h, b);
    s.column(k, c, t, h, b) =
        Tuple(max(column[0], select(inside, sees, cast<uint8_t>(0))), min(column[1], select(inside, sees, cast<uint8_t>(1))));

    const Bounds bounds = bounds_of(in, c, t, h, b);
    s.span = Func("span");
    s.span(c, t, h, b) = Tuple(select(bounds.certain, 0, in.block_keys), select(bounds.certain, in.block_keys, 0),
                               select(bounds.possible, 1, 0));
    RDom keys(0, group, 0, (in.block_keys + group - 1) / group, "key");
    s.key = keys.x, s.key_group = keys.y;
    keys.where(bounds.possible && !bounds.certain);
    const Expr key = keys.y * group + keys.x;
    keys.where(key < in.block_keys && c * in.block_keys + key < in.keys);
    const Expr some = s.column(key, c, t, h, b)[0] != 0, every = s.column(key, c, t, h, b)[1] != 0;
    FuncRef span = s.span(c, t, h, b);
    s.span(c, t, h, b) = Tuple(min(span[0], select(some, key, in.block_keys)), max(span[1], select(some, key + 1, 0)),
                               min(span[2], select(every, 1, 0)));
    s.out = Func("out_stage");
    s.out(c, t, h, b) = BlockSpan{s.span(c, t, h, b)[0], s.span(c, t, h, b)[1], s.span(c, t, h, b)[2] != 0}.packed();
    return s;
}

}  // namespace attune
