// SPDX-License-Identifier: MIT
// Decoding over pages whose positions are spread over ranks: as sharded_decode, with pools of each rank's own.
#include "attune/paged.h"
#include "context_parallel/partial_results.h"
#include "dispatch/op_call.h"
#include "tensors/checks.h"
#include "tensors/overlap.h"
#include <algorithm>

namespace attune {
namespace {

struct PagedDecode {
    const ParallelPlan &plan;
    const ConstView query;
    const ConstPages key_pages, value_pages;
    const ConstView block_table, lens;
    const View out;
    const PagedOptions options;
};

Status check_not_taken(const PagedOptions &o) {
    const NamedView views[] = {{"distance_bias", o.distance_bias},
                               {"alibi_slopes", o.alibi_slopes},
                               {"tree_mask", o.tree_mask},
                               {"positions", o.positions},
                               {"weight_sums", o.weight_sums},
                               {"indptr", o.indptr},
                               {"prefix", o.prefix.of}};
    for (const NamedView &v : views)
        if (v.view.given()) return unsupported(v.name, "is not taken by sharded_paged_decode");
    if (o.alibi) return unsupported("alibi", "is not taken by sharded_paged_decode");
    if (o.window.left >= 0 || o.window.right >= 0) return unsupported("window", "is not taken by sharded_paged_decode");
    return {};
}

Status check(const PagedDecode &c, int rank) {
    if (Status s = check_not_taken(c.options); !s.ok()) return s;
    for (const NamedView &v : {NamedView{"query", c.query}, NamedView{"out", c.out}}) {
        if (v.view.rank != 3) return invalid(v.name, "rank must be 3 (B, Hq, D), got " + text(v.view.rank));
        if (Status s = check_memory(v.name, v.view); !s.ok()) return s;
        if (Status s = check_real(v.name, v.view); !s.ok()) return s;
        if (Status s = check_dense(v.name, v.view); !s.ok()) return s;
    }
    const std::int64_t batch = c.query.extent[0];
    if (Status s = check_same_type("out", c.out.dtype, "query", c.query.dtype); !s.ok()) return s;
    for (int n = 0; n < 2; n++)
        if (Status s = check_extent("out", "extent " + text(n), c.out.extent[n], "query", c.query.extent[n]); !s.ok()) return s;
    if (c.lens.rank != 1) return invalid("lens", "rank must be 1, got " + text(c.lens.rank));
    if (Status s = check_ints("lens", c.lens); !s.ok()) return s;
    if (Status s = check_extent("lens", "number of entries", c.lens.extent[0], "query", batch); !s.ok()) return s;
    for (std::int64_t b = 0; b < batch; b++)
        if (int_at(c.lens, b) < 0 || int_at(c.lens, b) > c.plan.positions)
            return invalid("lens", "entry (" + text(b) + ") must be from 0 to " + text(c.plan.positions) + ", got " +
                                       text(int_at(c.lens, b)));
    if (c.key_pages.rows.rank != 4) return invalid("key_pages", "rank must be 4, got " + text(c.key_pages.rows.rank));
    const std::int64_t page = c.key_pages.rows.extent[1];
    if (page < 1 || c.plan.chunk % page != 0)
        return invalid("plan.chunk", text(c.plan.chunk) + " is no multiple of a page, " + text(page) + " rows");
    if (c.block_table.rank != 2) return invalid("block_table", "rank must be 2 (B, N), got " + text(c.block_table.rank));
    if (Status s = check_ints("block_table", c.block_table); !s.ok()) return s;
    if (Status s = check_extent("block_table", "number of rows", c.block_table.extent[0], "query", batch); !s.ok()) return s;
    const std::int64_t pages = ceil_div(c.plan.positions_of(rank), page);
    if (c.block_table.extent[1] < pages)
        return invalid("block_table",
                       "has " + text(c.block_table.extent[1]) + " pages of a sequence, this rank's positions " + text(pages));
    const View &lse = c.options.lse;
    if (lse.given()) {
        if (lse.rank != 2 || lse.extent[0] != c.query.extent[1] || lse.extent[1] != batch)
            return invalid("lse", "must be (Hq, B), got " + shape_of(lse));
        if (Status s = check_same_type("lse", lse.dtype, "sums", sum_type(c.query.dtype)); !s.ok()) return s;
        if (Status s = check_memory("lse", lse); !s.ok()) return s;
    }
    const ConstView &sinks = c.options.sinks;
    if (sinks.given()) {
        if (sinks.rank != 1 || sinks.dtype != DType::f32 || sinks.extent[0] != c.query.extent[1])
            return invalid("sinks", "must be f32 (Hq)");
        if (Status s = check_memory("sinks", sinks); !s.ok()) return s;
    }
    const NamedView inputs[] = {
        {"query", c.query}, {"lens", c.lens}, {"block_table", c.block_table}, {"sinks", c.options.sinks}};
    const NamedView outputs[] = {{"out", c.out}, {"lse", lse}};
    return check_overlaps(inputs, outputs);
}

// Runs of sequences that hold rows of the chunk: a sequence without rows has no call, and its result is that of no keys.
Status attend_chunk(Context &context, const PagedDecode &c, const Geometry &geometry, std::int64_t chunk, const View &out,
                    const View &lse) {
    const std::int64_t batch = c.query.extent[0], first = geometry.begin(chunk), count = geometry.count(chunk),
                       page = c.key_pages.rows.extent[1];
    std::vector<std::int32_t> lens, ends = {0};
    for (std::int64_t b = 0; b < batch; b++) {
        lens.push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(int_at(c.lens, b) - first, 0, count)));
        ends.push_back(static_cast<std::int32_t>(b + 1));
    }
    fill_zeros(out), fill_lse(lse, {});
    // (1, Hq, B, Dv) as (B, Hq, Dv), and (1, Hq, B) as (Hq, B).
    View rows = out;
    const View sums = entry_of(lse, 0);
    rows.rank = 3;
    const int order[] = {2, 1, 3};
    for (int n = 0; n < 3; n++) rows.extent[n] = out.extent[order[n]], rows.stride[n] = out.stride[order[n]];
    const ConstView table = part_of(c.block_table, 1, geometry.row(chunk) / page, ceil_div(count, page));
    for (std::int64_t b = 0; b < batch;) {
        if (lens[static_cast<std::size_t>(b)] == 0) {
            b++;
            continue;
        }
        std::int64_t end = b;
        while (end < batch && lens[static_cast<std::size_t>(end)] > 0) end++;
        PagedOptions o = c.options;
        o.sinks = {}, o.causal = false, o.lse = part_of(sums, 1, b, end - b);
        const ConstView of_run(lens.data() + b, {end - b}), queries(ends.data(), {end - b + 1});
        if (Status s = paged_attention(context, part_of(c.query, 0, b, end - b), c.key_pages, c.value_pages, queries,
                                       part_of(table, 0, b, end - b), of_run, part_of(rows, 0, b, end - b), o);
            !s.ok())
            return s;
        b = end;
    }
    return {};
}

Agreement agreement_of(const PagedDecode &c) {
    Agreement a(ParallelCall::paged_decode);
    a.add("type", static_cast<std::int64_t>(c.query.dtype));
    a.add("batch", c.query.extent[0]), a.add("query heads", c.query.extent[1]);
    a.add("key heads", c.key_pages.rows.extent[2]);
    a.add("head size", c.query.extent[2]), a.add("value size", c.out.extent[2]);
    a.add(c.plan);
    a.add("lens", c.lens);
    a.add("type of key_pages", static_cast<std::int64_t>(c.key_pages.rows.dtype));
    a.add("type of value_pages", static_cast<std::int64_t>(c.value_pages.rows.dtype));
    a.add("scale", c.options.scale.value_or(-1.0)), a.add("softcap", c.options.softcap);
    a.add("sinks", std::int64_t{c.options.sinks.given()}), a.add("invariant", std::int64_t{c.options.invariant});
    a.add("variant", c.options.variant);
    return a;
}

Status decode(Context &context, const Communicator &communicator, const PagedDecode &c, ParallelReport *report) {
    Channel channel(communicator);
    Reporting reporting(report, channel);
    const Geometry geometry(c.plan);
    const int rank = communicator.rank;
    // (B, Hq, Dv) as (1, Hq, B, Dv), and lse (Hq, B) as (1, Hq, B).
    View out = c.out, lse = c.options.lse;
    if (c.out.rank == 3) {
        const int order[] = {1, 0, 2};
        out.rank = 4, out.extent[0] = 1, out.stride[0] = 0;
        for (int n = 0; n < 3; n++) out.extent[n + 1] = c.out.extent[order[n]], out.stride[n + 1] = c.out.stride[order[n]];
    }
    PartialResults parts(channel, geometry, out);
    const auto compute = [&]() -> Status {
        if (Status s = check(c, rank); !s.ok()) return s;
        if (Status s = parts.begin(); !s.ok()) return s;
        const std::vector<std::int64_t> &own = geometry.chunks_of(rank);
        for (std::size_t n = 0; n < own.size(); n++)
            if (Status s = attend_chunk(context, c, geometry, own[n], parts.own_out(n), parts.own_lse(n)); !s.ok()) return s;
        return {};
    };
    if (Status s = agreement_of(c).compare(channel, compute()); !s.ok()) return s;
    if (Status s = reporting.wait_for([&] { return parts.gather(); }); !s.ok()) return s;
    if (lse.given()) {
        lse.rank = 3, lse.extent[0] = 1, lse.stride[0] = 0;
        for (int n = 0; n < 2; n++) lse.extent[n + 1] = c.options.lse.extent[n], lse.stride[n + 1] = c.options.lse.stride[n];
    }
    return parts.merge(context, c.options.sinks, lse);
}

}  // namespace

Status sharded_paged_decode(Context &context, const Communicator &communicator, const ParallelPlan &plan,
                            const ConstView &query, const ConstPages &key_pages, const ConstPages &value_pages,
                            const ConstView &block_table, const ConstView &lens, const View &out, const PagedOptions &options,
                            ParallelReport *report) noexcept {
    const auto body = [&](Context::State &, const ConstView &q, const ConstPages &k, const ConstPages &v,
                          const ConstView &table, const ConstView &l, const View &o, const PagedOptions &given) {
        if (Status s = check_group(communicator, plan); !s.ok()) return s;
        return decode(context, communicator, {plan, q, k, v, table, l, o, given}, report);
    };
    return answer(context, body, query, key_pages, value_pages, block_table, lens, out, options);
}

}  // namespace attune
