// SPDX-License-Identifier: MIT
#include "generators/attention/forward/builder.h"

namespace attune {
using namespace Halide;

SdpaStages sdpa_stages(const SdpaInputs &in, const SdpaNumerics &numerics, const ScheduleHints &hints, const Score &score) {
    Builder build = query_rows(in, numerics, hints, score);
    SdpaStages &s = build.s;
    Var r = s.r, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
    build.prepare();
    build.intervals();
    build.queries();
    build.all_block_stages();

    if (hints.rows_per_tile) {
        build.collect_kv_blocks();
    } else {
        s.block_max = Func("block_max");
        s.block_sum = Func("block_sum");
        s.block_pv = Func("block_pv");
        s.block_max(r, c, t, h, b) = s.partial.row_max(r, c, t, h, b);
        s.block_sum(r, c, t, h, b) = s.partial.row_sum(r, c, t, h, b);
        s.block_pv(r, d, c, t, h, b) = s.partial.pv(r, d, c, t, h, b);
    }
    build.merge_tiles();
    return s;
}

void split_merge(Builder &build) {
    const SdpaInputs &in = build.in;
    const int tile = build.hints.rows_per_tile;
    Expr group = in.query_heads / in.key_heads;
    SdpaStages &s = build.s;
    Var r = s.r, c = s.c, d = s.d, i = s.i, t = s.t, h = s.h, b = s.b;
    auto [full, partial] = build.kv_block_domains();
    s.block_packed = Func("block_packed");
    s.block_packed(d, r, c, t, h, b) = undef(build.numerics.accumulator);
    for (const auto &[dom, p] : {std::pair(full, s.full), std::pair(partial, s.partial)}) {
        s.block_packed(d, r, dom, t, h, b) = select(d < in.value_dim, p.pv(r, min(d, in.value_dim - 1), dom, t, h, b),
                                                    d == in.value_dim, p.row_sum(r, dom, t, h, b), p.row_max(r, dom, t, h, b));
    }
    // Merged as tiles of one query of one query head: each row is merged on its own.
    const Expr n = (h % group) * in.queries + t;
    auto packed = [&](const Expr &d, const Expr &at) { return s.block_packed(d, n % tile, at, n / tile, h / group, b); };
    SdpaInputs of_queries = in;
    of_queries.shortest = of_queries.longest = in.lengths;
    if (in.blocks.defined()) {
        of_queries.blocks = Func("blocks_of_query");
        of_queries.blocks(c, t, h, b) = in.blocks(c, n / tile, h / group, b);
    }
    ScheduleHints one_query = build.hints;
    one_query.rows_per_tile = 1;
    Builder merge = query_rows(of_queries, build.numerics, one_query, build.score);
    merge.s = s;
    // Lanes that hold parts of a maximum begin with -inf, which stays where a KV block has no key: times a scale of 0, NaN.
    const auto max_of = [&](const Expr &at) {
        const Expr m = packed(in.value_dim + 1, at);
        return select(is_masked(m), lowest_score(m.type()), m);
    };
    merge.merge(
        max_of, [&](Expr at) { return packed(in.value_dim, at); }, [&](Expr at) { return packed(d, at); });
    s = merge.s;
    s.out = Func("out_stage");
    s.out(d, i, h, b) = Tuple(build.narrowed(s.normalised(0, d, i, h, b)), s.lse(0, i, h, b));
}

SdpaStages sdpa_split_stages(const SdpaInputs &in, const SdpaNumerics &numerics, const ScheduleHints &hints,
                             const Score &score) {
    Builder build = group_rows(in, numerics, hints, score);
    build.prepare();
    build.intervals();
    build.queries();
    build.all_block_stages();
    split_merge(build);
    return build.s;
}

}  // namespace attune
