// SPDX-License-Identifier: MIT
#include "context_parallel/geometry.h"
#include "tensors/checks.h"
#include <algorithm>
#include <limits>
#include <string>

namespace attune {

PositionBand position_band(Causal causal, Window window) {
    PositionBand band{window.left, window.right};
    if (causal != Causal::none) band.right = 0;
    return band;
}

namespace {

bool any_pair(const PositionBand &band, const ChunkPair &p) {
    if (p.queries <= 0 || p.keys <= 0) return false;
    if (band.right >= 0 && p.key > p.query + p.queries - 1 + band.right) return false;
    return band.left < 0 || p.key + p.keys - 1 >= p.query - band.left;
}

}  // namespace

Geometry::Geometry(const ParallelPlan &plan) : plan_(plan), band_(position_band(plan.band.causal, plan.band.window)) {
    const auto chunks = static_cast<std::size_t>(ceil_div(plan.positions, plan.chunk));
    owner_.resize(chunks), row_.resize(chunks), chunks_of_.resize(plan.of_rank.size());
    for (std::size_t rank = 0; rank < plan.of_rank.size(); rank++) {
        std::int64_t row = 0;
        for (const PositionRange &r : plan.of_rank[rank]) {
            for (std::int64_t c = r.begin / plan.chunk; c < ceil_div(r.end, plan.chunk); c++) {
                owner_[static_cast<std::size_t>(c)] = static_cast<int>(rank);
                row_[static_cast<std::size_t>(c)] = row + c * plan.chunk - r.begin;
                chunks_of_[rank].push_back(c);
            }
            row += r.end - r.begin;
        }
    }
}

// f(pair) for each document that has queries and keys in these chunks, or for all positions as one; until f returns false.
template<typename F> void Geometry::each_document(std::int64_t of_queries, std::int64_t of_keys, const F &f) const {
    const ChunkPair all{begin(of_queries), count(of_queries), begin(of_keys), count(of_keys)};
    const std::vector<std::int32_t> &ends = plan_.documents;
    if (ends.empty()) {
        if (any_pair(band_, all)) f(all);
        return;
    }
    // The first document that ends behind both chunks' first positions.
    const std::int64_t first = std::max(all.query, all.key);
    auto end = std::upper_bound(ends.begin() + 1, ends.end(), first);
    for (; end != ends.end() && *(end - 1) < std::min(all.query + all.queries, all.key + all.keys); ++end) {
        const std::int64_t from = *(end - 1), to = *end;
        ChunkPair p{std::max(from, all.query), 0, std::max(from, all.key), 0};
        p.queries = std::min(to, all.query + all.queries) - p.query;
        p.keys = std::min(to, all.key + all.keys) - p.key;
        if (any_pair(band_, p) && !f(p)) return;
    }
}

std::vector<ChunkPair> Geometry::pairs(std::int64_t of_queries, std::int64_t of_keys) const {
    std::vector<ChunkPair> all;
    each_document(of_queries, of_keys, [&](const ChunkPair &p) {
        all.push_back(p);
        return true;
    });
    return all;
}

bool Geometry::sees(std::int64_t of_queries, std::int64_t of_keys) const {
    bool found = false;
    each_document(of_queries, of_keys, [&](const ChunkPair &) {
        found = true;
        return false;
    });
    return found;
}

bool Geometry::needs(int rank, std::int64_t chunk, bool of_keys) const {
    const std::vector<std::int64_t> &own = chunks_of(rank);
    return std::any_of(own.begin(), own.end(), [&](std::int64_t c) { return of_keys ? sees(c, chunk) : sees(chunk, c); });
}

std::vector<int> Geometry::needed_by(std::int64_t chunk, bool of_keys) const {
    std::vector<int> needed;
    const int ranks = static_cast<int>(chunks_of_.size());
    for (int hop = 1; hop < ranks; hop++) {
        const int rank = (owner(chunk) + hop) % ranks;
        if (needs(rank, chunk, of_keys)) needed.push_back(rank);
    }
    return needed;
}

Status check_plan(const ParallelPlan &plan) {
    if (plan.positions < 0) return invalid("plan.positions", "must not be negative, got " + text(plan.positions));
    if (plan.positions > most_extent) return unsupported("plan.positions", text(plan.positions) + " are more than 2^31 - 1");
    if (plan.chunk < 1) return invalid("plan.chunk", "must be at least 1, got " + text(plan.chunk));
    if (plan.of_rank.empty()) return invalid("plan.of_rank", "has no ranks");
    const Causal causal = plan.band.causal;
    if (causal != Causal::none && causal != Causal::top_left && causal != Causal::bottom_right)
        return invalid("plan.band.causal", "must be none, top_left or bottom_right");
    if (plan.band.window.left < -1 || plan.band.window.right < -1)
        return invalid("plan.band.window",
                       "must be from -1, got " + text(plan.band.window.left) + " and " + text(plan.band.window.right));
    std::vector<char> held(static_cast<std::size_t>(ceil_div(plan.positions, plan.chunk)));
    for (std::size_t rank = 0; rank < plan.of_rank.size(); rank++) {
        const std::string name = "plan.of_rank[" + std::to_string(rank) + "]";
        std::int64_t before = 0;
        for (const PositionRange &r : plan.of_rank[rank]) {
            const std::string range = "range [" + text(r.begin) + ", " + text(r.end) + ")";
            if (r.begin < before || r.end <= r.begin || r.end > plan.positions)
                return invalid(name, range + " is empty, or not behind the range before, or beyond " + text(plan.positions));
            if (r.begin % plan.chunk != 0 || (r.end % plan.chunk != 0 && r.end != plan.positions))
                return invalid(name, range + " does not begin and end at multiples of the chunk, " + text(plan.chunk));
            for (std::int64_t c = r.begin / plan.chunk; c < ceil_div(r.end, plan.chunk); c++)
                if (held[static_cast<std::size_t>(c)]++)
                    return invalid(name, "position " + text(c * plan.chunk) + " is that of another rank, too");
            before = r.end;
        }
    }
    const auto nobody = std::find(held.begin(), held.end(), 0);
    if (nobody != held.end())
        return invalid("plan.of_rank", "position " + text((nobody - held.begin()) * plan.chunk) + " is held by no rank");
    if (plan.documents.empty()) return {};
    if (plan.documents.front() != 0) return invalid("plan.documents", "must begin with 0");
    for (std::size_t n = 1; n < plan.documents.size(); n++)
        if (plan.documents[n] < plan.documents[n - 1]) return invalid("plan.documents", "must not fall");
    if (plan.documents.back() > plan.positions)
        return invalid("plan.documents", "ends at " + text(plan.documents.back()) + ", beyond " + text(plan.positions));
    return {};
}

}  // namespace attune
