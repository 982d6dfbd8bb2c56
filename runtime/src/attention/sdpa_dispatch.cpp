// SPDX-License-Identifier: MIT
#include "attention/sdpa_call.h"
#include "tensors/max_magnitude.h"
#include "user_attention/user_call.h"
#include <algorithm>
#include <limits>

namespace attune {
namespace {

// How many bf16 stand for a number in AMX tiles, 0 if none do. Parts are laid once for a key head, which is worth it from so
// many of its queries (rows) and keys on.
struct AmxTileParts {
    std::int64_t count, rows_at_least, keys_at_least;
};
AmxTileParts amx_tile_parts(DType dtype) {
    switch (dtype) {
    case DType::bf16: return {1, 0, 0};
    case DType::f16: return {2, 48, 65};
    case DType::f32: return {3, 256, 256};
    default: return {};
    }
}

// How many keys a window leaves to a query.
std::int64_t keys_of_query(const SdpaProblem &p) { return p.window_keys > 0 ? std::min(p.keys, p.window_keys) : p.keys; }

// The same on average where there is a window or a causal mask; without, any number.
std::int64_t band_keys(const SdpaProblem &p) {
    if (p.window_keys > 0) return keys_of_query(p);
    return p.causal ? std::max(p.keys - p.queries / 2, p.keys / 2) : std::numeric_limits<std::int64_t>::max();
}

// Classes to look for, the best first. The last one always exists.
std::vector<Candidate> candidates(OpId op, const SdpaProblem &p) {
    const SdpaShapeClasses &c = sdpa_shape_classes();
    const std::int64_t rows = rows_of_key_head(p);
    std::vector<Candidate> list;
    list.reserve(most_candidates);
    // A tile of prefill computes its whole width of rows, which is dear where each score costs a tanh for every channel; else
    // it is no dearer than a second tile of decode where there are few keys.
    const bool dear = op == OpId::additive;
    // Of 16 bits keys and values are widened for each tile, however few queries it has.
    const bool widened = is_widened(p.dtype);
    const bool of_one_head = !dear && rows == p.queries, two_tiles = rows > c.decode_rows_of_few_keys_at_most;
    if (rows == 1 && (dear || p.keys >= (widened ? c.decode_keys_of_one_row_at_least / 2 : c.decode_keys_of_one_row_at_least)))
        list.push_back({"decode", "rows1", "one query row for each key head"});
    if (rows <= c.decode_rows_at_most && p.keys >= c.decode_keys_at_least) {
        const bool few_keys = of_one_head && p.keys <= c.decode_few_keys_at_most;
        Candidate few_rows{"decode", "rows4", "few query rows for each key head"};
        few_rows.own_size = few_keys || (of_one_head && two_tiles && p.keys <= c.decode_few_keys_of_any_size_at_most);
        if (!(few_keys && two_tiles)) list.push_back(few_rows);
    }
    // A tile of prefill holds queries of one head; here the tiles are filled by all heads that share a key head.
    if (p.queries <= c.split_queries_at_most && rows > p.queries && p.keys >= c.decode_keys_at_least) {
        list.push_back(
            {"split", "tile64", "few queries of each head, rows that fill the tallest tiles for each key head", rows});
        // A tall tile takes less time than two of the others.
        list.push_back({"split", "tile32", "few queries of each head, rows that fill tall tiles for each key head", rows,
                        Candidate::Fill::over_half});
        list.push_back({"split", "", "few queries of each head, some rows for each key head"});
    }
    // Of very many keys parts would take too much memory. bf16 are laid out as they are, in as much memory as they have: few
    // rows are not worth that where it is much.
    constexpr std::int64_t bytes_of_a_part = 2, bytes_at_most = 64 << 20, many_rows = 64;
    const auto [parts, rows_at_least, keys_at_least] = amx_tile_parts(p.dtype);
    const std::int64_t bytes = p.keys * (p.head_dim + p.value_dim) * parts * bytes_of_a_part;
    const bool as_they_are = parts == 1 && (rows >= many_rows || bytes * p.key_heads <= bytes_at_most);
    const bool in_tiles =
        as_they_are || (parts > 1 && rows >= rows_at_least && p.keys >= keys_at_least && bytes <= bytes_at_most);
    const auto add_tiles = [&](std::string_view shape_class, std::string_view reason, std::int64_t fill_tiles_with = 0) {
        if (in_tiles) list.push_back({"amx", shape_class, reason, fill_tiles_with});
    };
    const auto add_others = [&](std::string_view shape_class, std::string_view reason, std::int64_t fill_tiles_with = 0,
                                Candidate::Fill fill = Candidate::Fill::nearly) {
        if (p.dtype == DType::bf16) list.push_back({"bf16_dot", shape_class, reason, fill_tiles_with, fill});
        list.push_back({"prefill", shape_class, reason, fill_tiles_with, fill});
    };
    // Products of AMX tiles and of pairs first, on CPUs that have such instructions.
    const auto add = [&](std::string_view shape_class, std::string_view reason) {
        add_tiles(shape_class, reason);
        add_others(shape_class, reason);
    };
    const bool less_than_a_kv_block = p.keys <= c.short_keys_at_most && p.queries < c.medium_queries_of_few_keys_at_least;
    const auto add_small = [&](std::string_view reason) {
        // KV blocks of pairs of class medium are long.
        if (p.dtype == DType::bf16 && p.keys <= c.short_keys_at_most) list.push_back({"bf16_dot", "short", reason});
        if (p.queries >= c.medium_queries_at_least) {
            add_tiles("medium", reason);
            if (widened || !less_than_a_kv_block)
                add_others("medium", reason, widened ? 0 : p.queries, Candidate::Fill::most_of_two);
        }
        add("short", reason);
    };
    // No masks of theirs leave out what a wider tile would compute of few keys, so its width is all that matters.
    if (p.keys <= c.short_keys_at_most && !dear && band_keys(p) == std::numeric_limits<std::int64_t>::max())
        list.push_back(
            {"prefill", "short_tile32", "few keys, and tiles that fit the queries", p.queries, Candidate::Fill::least_time});
    if (p.queries <= c.short_queries_at_most) add_small("few queries");
    if (p.keys <= c.short_keys_at_most) add_small("few keys");
    const auto many_queries = [&](const auto &add_class) {
        if (p.tables) add_class("tables", "many queries and a table over pairs", p.queries);
        if (keys_of_query(p) >= c.deep_keys_at_least) add_class("keys2048", "many queries and very many keys", p.queries);
        add_class("long", "many queries", p.queries);
    };
    // AMX tiles of any class beat other products of the best one.
    many_queries(add_tiles);
    if (p.queries >= c.medium_queries_at_least) add_tiles("medium", "its tiles fit the queries better");
    // The queries of a tile see other keys each, so a tile computes scores that nobody sees: the fewer, the smaller it is.
    if (band_keys(p) <= (p.dtype == DType::f16 ? c.short_band_keys_of_f16_at_most : c.short_band_keys_at_most))
        for (const std::string_view shape_class : {"medium", "short"})
            list.push_back({p.dtype == DType::bf16 ? "bf16_dot" : "prefill", shape_class, "a band of few keys for each query"});
    many_queries(add_others);
    add_small("its tiles fit the queries better");
    add("long", "no smaller class is built");
    list.push_back({"root", "", "nothing else is built"});
    return list;
}

std::string_view kind_for(const SdpaProblem &p) { return p.dropout ? "training" : p.scored ? "scored" : "plain"; }

}  // namespace

int amx_tile_parts_of(DType dtype) noexcept { return static_cast<int>(amx_tile_parts(dtype).count); }

Status choose_values(const Op &op, const SdpaProblem &p, const Forced &forced, Choice &choice) {
    return choose_variant({op, p.dtype, kind_for(p), p.head_dim, p.value_dim}, candidates(op.id, p), forced, choice);
}

SdpaProblem last_queries(const VariantRecord &v, SdpaProblem p) {
    p.queries %= v.tile_q;
    return p;
}

Status share_queries(const Op &op, const SdpaProblem &p, Choice &choice) {
    // AMX tiles lay keys and values for all queries first, which two variants would do twice.
    const VariantRecord *better = choice.not_filled;
    if (!better || p.dropout || better->schedule == "amx" || !is_prefill(*better) || p.queries < better->tile_q) return {};
    const SdpaProblem last = last_queries(*better, p);
    // Tiles of a quarter of its queries are nearly as good, and threads that share them finish at nearly the same time.
    const bool much_smaller = choice.variant->schedule == better->schedule && choice.variant->tile_q * 4 <= better->tile_q;
    if (much_smaller && last.queries > 1) return {};
    Choice of_last;
    if (Status s = choose_values(op, last, {}, of_last); !s.ok()) return s;
    choice.variant = better, choice.reason = choice.why_better, choice.of_last = of_last.variant, choice.last = "queries";
    return {};
}

// What else the kernels of a choice take: refused here, before any of them runs.
static Status check_parts(const Context::State &context, const SdpaCall &call, const Choice &choice) {
    const SdpaProblem &p = call.sizes;
    if (p.batch == 0 || p.query_heads == 0 || p.queries == 0 || p.keys == 0) return {};
    Choice part;
    for (const VariantRecord *v : {choice.variant, choice.of_last}) {
        if (!v) continue;
        if (v->kind != "plain" && v->kind != "weights")
            if (Status s = check_pairs("query", {p.batch, p.query_heads, p.queries, p.keys}, v->kind); !s.ok()) return s;
        if (v->kind != "weights" && looks_at_values(call, *v))
            if (Status s = choose_max_magnitude(context, p.dtype, part); !s.ok()) return s;
        if (call.user && call.user->attention->has_mask)
            if (Status s = choose_blocks(call, block_sides(call, *v), part); !s.ok()) return s;
    }
    return {};
}

Status choose_attention(const Context::State &context, const SdpaCall &call, std::string_view variant,
                        AttentionChoice &choice) {
    const SdpaProblem &p = call.sizes;
    // A variant that writes weights leaves the values to dispatch, but where no weights are wanted it is the wrong one.
    const bool lone = !variant.empty() && !call.weights.given();
    const Forced forced = lone ? Forced{variant, "variant"} : forced_variant(context, variant, call.op);
    if (Status s = choose_values(call.op, p, forced, choice.values); !s.ok()) return s;
    if (!call.user)
        if (Status s = share_queries(call.op, p, choice.values); !s.ok()) return s;
    if (Status s = check_parts(context, call, choice.values); !s.ok()) return s;
    if (!call.weights.given()) return {};
    static constexpr Candidate rows[] = {{"rows", "", "weights are wanted"}, {"root", "", "nothing else is built"}};
    if (Status s = choose_variant({call.op, p.dtype, "weights", p.head_dim, p.head_dim}, rows,
                                  forced_variant(context, variant, call.op, true), choice.weights);
        !s.ok())
        return s;
    return check_parts(context, call, choice.weights);
}

static double work_of(const SdpaProblem &p) {
    const double reads = static_cast<double>(p.batch) * static_cast<double>(p.key_heads) * static_cast<double>(p.keys) *
                         static_cast<double>(p.head_dim + p.value_dim);
    const std::int64_t group = p.query_heads / std::max(p.key_heads, std::int64_t(1));
    return reads * std::max(static_cast<double>(group * p.queries), multiply_adds_of_a_read);
}
int worthwhile_threads(const SdpaProblem &p, int threads) noexcept { return worthwhile_threads(work_of(p), threads); }
int worthwhile_threads_at_most(const SdpaProblem &p, int threads) noexcept {
    return worthwhile_threads_at_most(work_of(p), threads);
}

}  // namespace attune
