// SPDX-License-Identifier: MIT
// Plans of context parallelism.
#include "context_parallel/geometry.h"
#include "tensors/checks.h"
#include <algorithm>
#include <new>

namespace attune {
namespace {

constexpr std::int64_t default_chunk = 2048;

void add_chunks(std::vector<PositionRange> &ranges, std::int64_t first, std::int64_t last, const ParallelPlan &plan) {
    const PositionRange r{first * plan.chunk, std::min(last * plan.chunk, plan.positions)};
    if (r.end <= r.begin) return;
    if (!ranges.empty() && ranges.back().end == r.begin)
        ranges.back().end = r.end;
    else
        ranges.push_back(r);
}

// Pairs of a query of each chunk and a key that it may see, as counted by pairs of chunks.
std::vector<double> work_of_chunks(const ParallelPlan &plan) {
    const Geometry one_rank(plan);
    std::vector<double> work;
    for (std::int64_t a = 0; a < one_rank.chunks(); a++) {
        double all = 0;
        for (std::int64_t c = 0; c < one_rank.chunks(); c++)
            for (const ChunkPair &p : one_rank.pairs(a, c)) all += static_cast<double>(p.queries) * static_cast<double>(p.keys);
        work.push_back(all);
    }
    return work;
}

// Consecutive chunks for each rank, so that sums of work end as near as possible to equal shares.
void balance(ParallelPlan &plan, int ranks) {
    plan.of_rank = {{}};
    if (plan.positions > 0) plan.of_rank[0] = {{0, plan.positions}};
    const std::vector<double> work = work_of_chunks(plan);
    double all = 0, before = 0;
    for (const double w : work) all += w;
    plan.of_rank.assign(static_cast<std::size_t>(ranks), {});
    std::int64_t chunk = 0;
    const auto chunks = static_cast<std::int64_t>(work.size());
    for (int rank = 0; rank < ranks; rank++) {
        const std::int64_t first = chunk;
        const double share = all * (rank + 1) / ranks;
        while (chunk < chunks && (rank == ranks - 1 || before + work[static_cast<std::size_t>(chunk)] / 2 <= share))
            before += work[static_cast<std::size_t>(chunk++)];
        add_chunks(plan.of_rank[static_cast<std::size_t>(rank)], first, chunk, plan);
    }
}

void spread(ParallelPlan &plan, int ranks, ParallelLayout layout) {
    const std::int64_t chunks = ceil_div(plan.positions, plan.chunk);
    plan.of_rank.assign(static_cast<std::size_t>(ranks), {});
    const auto ranges = [&](std::int64_t n, std::int64_t of) {  // chunks of range n of `of` ranges
        return PositionRange{chunks * n / of, chunks * (n + 1) / of};
    };
    for (int rank = 0; rank < ranks; rank++) {
        std::vector<PositionRange> &own = plan.of_rank[static_cast<std::size_t>(rank)];
        if (layout == ParallelLayout::striped) {
            for (std::int64_t c = rank; c < chunks; c += ranks) add_chunks(own, c, c + 1, plan);
        } else if (layout == ParallelLayout::head_tail) {
            for (const std::int64_t n : {std::int64_t{rank}, std::int64_t{2} * ranks - 1 - rank}) {
                const PositionRange r = ranges(n, std::int64_t{2} * ranks);
                add_chunks(own, r.begin, r.end, plan);
            }
        } else {
            const PositionRange r = ranges(rank, ranks);
            add_chunks(own, r.begin, r.end, plan);
        }
    }
}

Status make(std::int64_t positions, int ranks, ParallelLayout layout, std::int64_t chunk, const ParallelBand &band,
            ParallelPlan &result) {
    if (positions < 0) return invalid("positions", "must not be negative, got " + text(positions));
    if (ranks < 1) return invalid("ranks", "must be at least 1, got " + text(ranks));
    if (chunk < 0) return invalid("chunk", "must be at least 1, or 0 for " + text(default_chunk) + ", got " + text(chunk));
    if (static_cast<unsigned>(layout) > static_cast<unsigned>(ParallelLayout::balanced))
        return invalid("layout", "must be from 0 to 3, got " + text(static_cast<int>(layout)));
    ParallelPlan plan;
    plan.positions = positions, plan.chunk = chunk ? chunk : default_chunk;
    plan.band = {band.causal, band.window, {}};
    if (band.cu_seqlens.given()) {
        if (band.cu_seqlens.rank != 1) return invalid("band.cu_seqlens", "rank must be 1, got " + text(band.cu_seqlens.rank));
        if (Status s = check_ints("band.cu_seqlens", band.cu_seqlens); !s.ok()) return s;
        if (band.cu_seqlens.extent[0] < 1) return invalid("band.cu_seqlens", "must hold at least one number");
        for (std::int64_t n = 0; n < band.cu_seqlens.extent[0]; n++) plan.documents.push_back(int_at(band.cu_seqlens, n));
        // Positions behind the last document see nothing: a document of one number would have no pair.
        if (plan.documents.size() == 1) plan.documents.push_back(plan.documents[0]);
    }
    // Checks all but the positions of ranks, which follow.
    plan.of_rank = {{}};
    if (positions > 0) plan.of_rank[0] = {{0, positions}};
    if (Status s = check_plan(plan); !s.ok()) return s;
    if (layout == ParallelLayout::balanced)
        balance(plan, ranks);
    else
        spread(plan, ranks, layout);
    result = std::move(plan);
    return {};
}

}  // namespace

Status plan_positions(std::int64_t positions, int ranks, ParallelLayout layout, std::int64_t chunk, const ParallelBand &band,
                      ParallelPlan &result) noexcept {
    try {
        return make(positions, ranks, layout, chunk, band, result);
    } catch (const std::bad_alloc &) {
        return {StatusCode::out_of_memory, "out of memory"};
    }
}

}  // namespace attune
