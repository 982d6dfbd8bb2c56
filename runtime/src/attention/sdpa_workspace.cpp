// SPDX-License-Identifier: MIT
// Upper bounds of the scratch of attention, as plans report it. A test runs every variant under an allocator that refuses more.
#include "attention/folded_groups.h"
#include "attention/sdpa_call.h"
#include "tensors/max_magnitude.h"
#include <algorithm>

namespace attune {
namespace {

// Sizes in elements of the type of sums. The channels of the values include room for a schedule's rounding up.
struct Sizes {
    static constexpr std::size_t lanes = 16;
    std::size_t dk, dv, tile, kv_block, kv_blocks, heads, key_heads, queries, keys;
    bool widens;

    Sizes(const VariantRecord &v, const SdpaProblem &p) {
        const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
        constexpr std::int64_t root_kv_block = 128;  // the generator's default
        const bool root = v.schedule_id == Schedule::root;
        dk = size(p.head_dim), dv = size(p.value_dim) + 2 * lanes;
        tile = size(v.tile_q), kv_block = size(root ? root_kv_block : v.kv_block);
        kv_blocks = size(ceil_div(p.keys, root ? root_kv_block : v.kv_block)) + 1;
        heads = size(p.batch * p.query_heads), key_heads = size(p.batch * p.key_heads);
        queries = size(p.queries), keys = size(p.keys), widens = is_widened(p.dtype);
    }
};

// Elements of the stages that live at the same time: per task, and outside of tasks.
struct Stages {
    std::size_t of_task = 0, of_call = 0;
};

// Elements of the keys and values of a key head packed for AMX tiles: parts of 16 bits each, two per element.
std::size_t copied_elements_of_key_head(const SdpaProblem &p, const Sizes &s) {
    const auto parts = static_cast<std::size_t>(amx_tile_parts_of(p.dtype));
    return s.kv_blocks * s.kv_block * (s.dk + 2 * Sizes::lanes + s.dv) * parts / 2;
}

// The number of key heads whose copies for AMX tiles take 64 MiB.
std::int64_t key_heads_of_copies(const SdpaProblem &p, const Sizes &s) {
    const std::size_t head = copied_elements_of_key_head(p, s) * static_cast<std::size_t>(size_of(sum_type(p.dtype)));
    return static_cast<std::int64_t>((std::size_t(64) << 20) / head);
}

Stages prefill_stages(const VariantRecord &v, const SdpaProblem &p, const Sizes &s, int threads) {
    Stages n;
    n.of_task = s.tile * (s.dk + 2 * s.dv + s.kv_blocks * (s.dv + 3) + 4 * s.kv_block + 16);
    if (s.widens) n.of_task += s.kv_block * (s.dk + s.dv);
    if (v.schedule_id != Schedule::amx) return n;
    // AMX tiles: packed keys and values of some heads, once for all queries; the parts of queries and weights, and of the
    // values of a KV block without Inf and NaN.
    const auto parts = static_cast<std::size_t>(amx_tile_parts_of(p.dtype));
    // Some of the batch entries may run together, whose copies fit where those of all do not.
    const std::int64_t of_some = std::min(p.batch * p.key_heads, key_heads_of_copies(p, s)),
                       heads = std::max(key_heads_together(v, p, threads), of_some);
    n.of_call = static_cast<std::size_t>(heads) * copied_elements_of_key_head(p, s);
    n.of_task += parts * ((s.tile + Sizes::lanes) * (s.dk + 2 * Sizes::lanes + s.kv_block) + s.kv_block * s.dv);
    return n;
}

// Split-KV: rows are the queries of all heads that share a key head.
Stages split_stages(const VariantRecord &v, const Sizes &s) {
    Stages n;
    const std::size_t rows = (s.heads * s.queries / s.key_heads + s.tile) * s.key_heads;
    n.of_call = rows * (s.dk + 2 + s.kv_blocks * s.dv);
    n.of_task = s.tile * (4 * s.kv_block + 2 * s.dv + 8) + 2 * s.dv + 2 * s.kv_blocks;
    // A task of `split` holds its weighted values before they are packed, with room for every KV block.
    if (v.schedule_id == Schedule::split)
        n.of_task += s.tile * (s.kv_blocks * s.dv + s.kv_block * 2) + s.kv_block * (s.dk + s.dv);
    return n;
}

// Schedule root stores every stage whole.
Stages root_stages(const Sizes &s) {
    const std::size_t rows = s.heads * s.queries;
    std::size_t all = rows * (s.dk + 5 * s.kv_blocks * s.kv_block + s.kv_blocks * (2 * s.dv + 8) + 2 * s.dv + 8);
    if (s.widens) all += s.heads * s.kv_blocks * s.kv_block * (s.dk + s.dv);
    return {0, all};
}

}  // namespace

bool may_look_at_values(const VariantRecord &v, const SdpaProblem &p) noexcept {
    constexpr std::int64_t several = 64;
    const std::int64_t queries = folds_groups(p, v) ? rows_of_key_head(p) : p.queries;
    return is_prefill(v) && p.dtype != DType::f64 && (v.schedule_id != Schedule::prefill || queries >= several);
}

std::int64_t key_heads_together(const VariantRecord &v, const SdpaProblem &p, int threads) noexcept {
    const std::int64_t all = p.batch * p.key_heads;
    if (v.schedule_id != Schedule::amx || all == 0) return all;
    const std::int64_t of_copies = key_heads_of_copies(p, Sizes(v, p));
    return all <= of_copies ? all : std::clamp(of_copies, std::min<std::int64_t>(threads, p.key_heads), p.key_heads);
}

static std::size_t workspace_of_kernel(const Context::State &context, const VariantRecord &v, const SdpaProblem &p) {
    constexpr std::size_t padding = 256, blocks = 24;  // bytes per block of scratch; blocks per task
    const Sizes s(v, p);
    // Each parallel loop of a call may wake other threads, and a thread's scratch is kept for it.
    const int workers = worthwhile_threads_at_most(p, context.threads) == 1 ? 1 : context.threads;
    const auto threads = static_cast<std::size_t>(workers);
    const Stages stages = is_prefill(v) ? prefill_stages(v, p, s, context.threads)
                          : v.schedule_id == Schedule::decode || v.schedule_id == Schedule::split ? split_stages(v, s)
                                                                                                  : root_stages(s);
    std::size_t elements = threads * stages.of_task + stages.of_call + s.heads * s.queries;  // lse
    // Terms of a score that depend on the query or key alone; general: the projected keys (whose width stands for that of the
    // keys, too), and the scratch of linear(), which may use more threads.
    if (p.score != Score::dot_product) elements += s.heads * (s.queries + s.keys);
    if (p.score == Score::general)
        elements += s.key_heads * s.keys * s.dk + static_cast<std::size_t>(context.threads + 1) * (s.dk + 512) * (s.dk + 512);
    const std::size_t bounds = 2 * sizeof(std::int32_t) * static_cast<std::size_t>(p.batch) * (s.queries + 1);
    const std::size_t largest =
        may_look_at_values(v, p) ? max_magnitude_bytes(context, p.dtype, p.batch, p.key_heads, p.keys) : 0;
    return elements * static_cast<std::size_t>(size_of(sum_type(p.dtype))) + bounds + largest +
           (threads + 1) * blocks * padding;
}

std::size_t sdpa_workspace_bytes(const Context::State &context, const VariantRecord &v, const SdpaProblem &p) {
    if (p.batch * p.query_heads * p.queries == 0 || p.keys == 0) return 0;
    SdpaProblem without_window = p;  // for which a call may have folded groups
    without_window.window_keys = 0;
    const std::size_t unfolded = workspace_of_kernel(context, v, p);
    if (!folds_groups(without_window, v)) return unfolded;
    return std::max(unfolded, bytes_of_folded_groups(p) + workspace_of_kernel(context, v, with_folded_groups(p)));
}

}  // namespace attune
