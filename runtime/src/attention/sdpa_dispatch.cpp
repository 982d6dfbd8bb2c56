// SPDX-License-Identifier: MIT
#include "attention/sdpa_call.h"
#include "dispatch/decisions.h"
#include "tensors/max_magnitude.h"
#include "user_attention/user_call.h"
#include <algorithm>

namespace attune {
namespace {

// How many bf16 stand for a number in AMX tiles, 0 if none do.
std::int64_t amx_tile_parts(DType dtype) {
    switch (dtype) {
    case DType::bf16: return 1;
    case DType::f16: return 2;
    case DType::f32: return 3;
    default: return 0;
    }
}

// Whether the copies of keys and values that AMX kernels lay out take little enough memory: those of a key head where numbers
// are taken apart, those of all key heads where few rows share them.
bool copies_fit(const SdpaProblem &p) {
    constexpr std::int64_t bytes_of_a_part = 2, bytes_at_most = 64 << 20, many_rows = 64;
    const std::int64_t parts = amx_tile_parts(p.dtype), bytes = p.keys * (p.head_dim + p.value_dim) * parts * bytes_of_a_part;
    if (parts == 1) return rows_of_key_head(p) >= many_rows || bytes * p.key_heads <= bytes_at_most;
    return parts > 1 && bytes <= bytes_at_most;
}

bool takes(const SdpaProblem &p, const Runnable &v) { return v.record->schedule_id != Schedule::amx || copies_fit(p); }

Kind kind_for(const SdpaProblem &p) { return p.dropout ? Kind::training : p.scored ? Kind::scored : Kind::plain; }

PredictedVariant quickest(std::span<const Runnable> list, const SdpaProblem &p, PredictedVariant *next = nullptr) {
    return quickest_of(
        list, [&](const Runnable &v) { return takes(p, v); }, [&](const Runnable &v) { return predicted_ns(p, v); }, next);
}

// No AMX kernel is the first of two: both would lay out the keys and values.
SharedCall quickest_of_two(std::span<const Runnable> list, const SdpaProblem &p) {
    const auto rest_of = [&](const Runnable &v) {
        const bool tiles = v.record->schedule_id == Schedule::prefill || v.record->schedule_id == Schedule::bf16_dot;
        return tiles && p.queries >= v.tile_rows ? p.queries % v.tile_rows : 0;
    };
    const auto first_ns = [&](const Runnable &v, std::int64_t rest) {
        SdpaProblem first = p;
        first.queries -= rest;
        if (p.causal) first.keys = std::max(p.keys - rest, std::int64_t(1));
        return predicted_ns(first, v);
    };
    return attune::quickest_of_two(list, rest_of, first_ns, [&](std::int64_t rest) {
        SdpaProblem last = p;
        last.queries = rest;
        return quickest(list, last);
    });
}

struct AttentionProblem : SdpaProblem {
    bool may_share = false;
};
bool same_sizes(const AttentionProblem &a, const AttentionProblem &b) {
    return a.dtype == b.dtype && a.query_heads == b.query_heads && a.key_heads == b.key_heads && a.queries == b.queries &&
           a.keys == b.keys && a.head_dim == b.head_dim && a.value_dim == b.value_dim && a.scored == b.scored &&
           a.dropout == b.dropout && a.window_keys == b.window_keys && a.causal == b.causal && a.may_share == b.may_share;
}
std::size_t mixed_sizes(const AttentionProblem &p) {
    return mixed({p.queries, p.keys, p.query_heads, p.key_heads, p.head_dim, p.value_dim, p.window_keys, p.causal});
}

Status decide(const Op &op, const AttentionProblem &p, Choice &choice) {
    const VariantNeeds needs{op, p.dtype, kind_for(p), p.head_dim, p.value_dim};
    const std::span<const Runnable> list = runnables(needs);
    PredictedVariant next;
    const PredictedVariant one = quickest(list, p, &next);
    if (!one.variant) return no_variant(needs);
    choice = Choice::of(one, next);
    if (p.may_share) choice.share(quickest_of_two(list, p), "queries");
    return {};
}

}  // namespace

int amx_tile_parts_of(DType dtype) noexcept { return static_cast<int>(amx_tile_parts(dtype)); }

Status choose_values(const Op &op, const SdpaProblem &p, const Forced &forced, bool may_share, Choice &choice) {
    if (!forced.name.empty()) return use_forced({op, p.dtype, kind_for(p), p.head_dim, p.value_dim}, forced, choice);
    static thread_local Decisions<AttentionProblem, Choice> decisions;
    const AttentionProblem problem{p, may_share && !p.dropout && p.queries > 1};
    return decisions.get(
        op, problem, [&](Choice &decided) { return decide(op, problem, decided); }, choice);
}

SdpaProblem last_queries(const VariantRecord &v, SdpaProblem p) {
    p.queries %= v.tile_q;
    return p;
}

std::vector<PredictedVariant> predictions(const Op &op, const SdpaProblem &p) {
    return sorted_by_time(
        runnables({op, p.dtype, kind_for(p), p.head_dim, p.value_dim}), [&](const Runnable &v) { return takes(p, v); },
        [&](const Runnable &v) { return predicted_ns(p, v); });
}

// What else the kernels of a choice take: refused here, before any of them runs.
static Status check_parts(const Context::State &context, const SdpaCall &call, const Choice &choice) {
    const SdpaProblem &p = call.sizes;
    if (p.batch == 0 || p.query_heads == 0 || p.queries == 0 || p.keys == 0) return {};
    Choice part;
    for (const VariantRecord *v : {choice.variant, choice.of_last}) {
        if (!v) continue;
        if (v->kind_id != Kind::plain && v->kind_id != Kind::weights)
            if (Status s = check_pairs("query", {p.batch, p.query_heads, p.queries, p.keys}, v->kind); !s.ok()) return s;
        if (v->kind_id != Kind::weights && looks_at_values(call, *v))
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
    if (Status s = choose_values(call.op, p, forced, !call.user, choice.values); !s.ok()) return s;
    if (Status s = check_parts(context, call, choice.values); !s.ok()) return s;
    if (!call.weights.given()) return {};
    static constexpr Candidate rows[] = {{Schedule::rows, "", "weights are wanted"},
                                         {Schedule::root, "", "nothing else is built"}};
    if (Status s = choose_variant({call.op, p.dtype, Kind::weights, p.head_dim, p.head_dim}, rows,
                                  forced_variant(context, variant, call.op, true), choice.weights);
        !s.ok())
        return s;
    return check_parts(context, call, choice.weights);
}

int worthwhile_threads(const SdpaProblem &p, int threads) noexcept { return worthwhile_threads(work_of(p), threads); }
int worthwhile_threads_at_most(const SdpaProblem &p, int threads) noexcept {
    return worthwhile_threads_at_most(work_of(p), threads);
}

}  // namespace attune
