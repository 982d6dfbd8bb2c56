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

// Whether a query has the same bits in every tile of queries, beside any others and with any number of keys behind those
// that it sees. The sums of a row are cut at multiples of the schedule's blocks, counted from key 0, and a masked key adds
// nothing to them. For AMX tiles no test shows it.
bool is_invariant(const VariantRecord &v) { return v.schedule_id != Schedule::amx && v.schedule_id != Schedule::other; }

bool takes(const SdpaProblem &p, const Runnable &v) {
    if (p.invariant && !is_invariant(*v.record)) return false;
    return v.record->schedule_id != Schedule::amx || copies_fit(p);
}

Kind kind_for(const SdpaProblem &p) { return p.dropout ? Kind::training : p.scored ? Kind::scored : Kind::plain; }

PredictedVariant quickest(std::span<const Runnable> list, const SdpaProblem &p, PredictedVariant *next = nullptr) {
    return quickest_of(
        list, [&](const Runnable &v) { return takes(p, v); }, [&](const Runnable &v) { return predicted_ns(p, v); }, next);
}

// The queries behind the full tiles of a variant that may be the first of two, 0 if it may not. No AMX kernel is the first:
// both would lay out the keys and values.
std::int64_t rest_of(const SdpaProblem &p, const Runnable &v) {
    const bool tiles = v.record->schedule_id == Schedule::prefill || v.record->schedule_id == Schedule::bf16_dot;
    return tiles && p.queries >= v.tile_rows ? p.queries % v.tile_rows : 0;
}
double first_ns(const SdpaProblem &p, const Runnable &v, std::int64_t rest) {
    SdpaProblem first = p;
    first.queries -= rest;
    if (p.causal) first.keys = std::max(p.keys - rest, std::int64_t(1));
    return predicted_ns(first, v);
}
SdpaProblem with_queries(SdpaProblem p, std::int64_t queries) {
    p.queries = queries;
    return p;
}

SharedCall quickest_of_two(std::span<const Runnable> list, const SdpaProblem &p) {
    return attune::quickest_of_two(
        list, [&](const Runnable &v) { return rest_of(p, v); },
        [&](const Runnable &v, std::int64_t rest) { return first_ns(p, v, rest); },
        [&](std::int64_t rest) { return quickest(list, with_queries(p, rest)); });
}

// The problem for which an invariant call's variant is chosen, whatever its queries, keys and band: chunks of a prompt see
// different numbers of keys.
SdpaProblem middle_problem(SdpaProblem p) {
    p.queries = 64, p.keys = 4096, p.window_keys = 0, p.causal = false;
    return p;
}

struct AttentionProblem : SdpaProblem {
    bool may_share = false;
};
bool same_sizes(const AttentionProblem &a, const AttentionProblem &b) {
    return a.dtype == b.dtype && a.query_heads == b.query_heads && a.key_heads == b.key_heads && a.queries == b.queries &&
           a.keys == b.keys && a.head_dim == b.head_dim && a.value_dim == b.value_dim && a.scored == b.scored &&
           a.dropout == b.dropout && a.window_keys == b.window_keys && a.causal == b.causal && a.may_share == b.may_share &&
           a.invariant == b.invariant;
}
std::size_t mixed_sizes(const AttentionProblem &p) {
    return mixed({p.queries, p.keys, p.query_heads, p.key_heads, p.head_dim, p.value_dim, p.window_keys, p.causal});
}

// The largest workspace of the variants that dispatch chooses for numbers of keys in a range. As predicted times grow with the
// keys, a variant is chosen for none of them if it takes longer for the fewest than another one for the most.
class WorkspaceOfRange {
public:
    WorkspaceOfRange(const Context::State &context, std::span<const Runnable> list, const SdpaProblem &p)
        : context_(context), list_(list), p_(p) {}
    std::size_t bytes(std::int64_t least, std::int64_t most) {
        refine(least, most);
        return bytes_;
    }

private:
    // Halves of a range are looked at apart, the larger one first, while its candidates have more than what is known; but not
    // ranges of a 64th of their keys.
    void refine(std::int64_t least, std::int64_t most) {
        const std::size_t at_most = of_candidates(least, most);
        if (at_most <= bytes_) return;
        if (most - least <= most / 64) {
            bytes_ = at_most;
            return;
        }
        const std::int64_t middle = least + (most - least) / 2;
        refine(middle + 1, most);
        refine(least, middle);
    }
    std::size_t of_candidates(std::int64_t least, std::int64_t most) const {
        const SdpaProblem fewest = with_keys(p_, least), all = with_keys(p_, most);
        const PredictedVariant quickest_of_all = quickest(list_, all);
        const auto may_be_chosen = [&](double ns) { return !quickest_of_all.variant || ns <= quickest_of_all.ns; };
        std::size_t bytes = 0;
        for (const Runnable &v : list_) {
            if (!takes(fewest, v)) continue;
            const auto of_one = [&] { return sdpa_workspace_bytes(context_, *v.record, all); };
            if (may_be_chosen(predicted_ns(fewest, v))) bytes = std::max(bytes, of_one());
            // A pair: the blocks of the first variant are kept while the second one allocates its own.
            const std::int64_t rest = p_.dropout ? 0 : rest_of(p_, v);
            if (rest == 0) continue;
            const SdpaProblem last_of_fewest = with_queries(fewest, rest), last_of_all = with_queries(all, rest);
            const PredictedVariant last_at_most = quickest(list_, last_of_all);
            for (const Runnable &last : list_) {
                const double ns = predicted_ns(last_of_fewest, last);
                if (!takes(last_of_fewest, last) || (last_at_most.variant && ns > last_at_most.ns)) continue;
                if (may_be_chosen(first_ns(fewest, v, rest) + ns))
                    bytes = std::max(bytes, of_one() + sdpa_workspace_bytes(context_, *last.record, last_of_all));
            }
        }
        return bytes;
    }
    static SdpaProblem with_keys(SdpaProblem p, std::int64_t keys) {
        p.keys = keys;
        return p;
    }

    const Context::State &context_;
    const std::span<const Runnable> list_;
    const SdpaProblem &p_;
    std::size_t bytes_ = 0;
};

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
    if (!forced.name.empty()) {
        if (Status s = use_forced({op, p.dtype, kind_for(p), p.head_dim, p.value_dim}, forced, choice); !s.ok()) return s;
        if (!p.invariant || is_invariant(*choice.variant)) return {};
        return unsupported(forced.by, std::string(forced.name) + " is of schedule " + std::string(choice.variant->schedule) +
                                          ", which invariant does not take");
    }
    static thread_local Decisions<AttentionProblem, Choice> decisions;
    const bool shares = may_share && !p.dropout && p.queries > 1 && !p.invariant;
    const AttentionProblem problem{p.invariant ? middle_problem(p) : p, shares};
    return decisions.get(
        op, problem, [&](Choice &decided) { return decide(op, problem, decided); }, choice);
}

std::size_t workspace_of_any_keys(const Context::State &context, const Op &op, const SdpaProblem &p) {
    const std::span<const Runnable> list = runnables({op, p.dtype, kind_for(p), p.head_dim, p.value_dim});
    return WorkspaceOfRange(context, list, p).bytes(1, p.keys);
}

SdpaProblem last_queries(const VariantRecord &v, SdpaProblem p) {
    p.queries %= v.tile_q;
    return p;
}

bool has_variant(const Op &op, const SdpaProblem &p) {
    const std::span<const Runnable> list = runnables({op, p.dtype, kind_for(p), p.head_dim, p.value_dim});
    return std::any_of(list.begin(), list.end(), [&](const Runnable &v) { return takes(p, v); });
}

std::vector<PredictedVariant> predictions(const Op &op, const SdpaProblem &p) {
    return sorted_by_time(
        runnables({op, p.dtype, kind_for(p), p.head_dim, p.value_dim}), [&](const Runnable &v) { return takes(p, v); },
        [&](const Runnable &v) { return predicted_ns(p, v); });
}

// Checks of inputs that only the kernels of the choice take: refused here, before any of them runs.
static Status check_parts(const Context::State &context, const SdpaCall &call, const Choice &choice) {
    const SdpaProblem &p = call.sizes;
    if (p.batch == 0 || p.query_heads == 0 || p.queries == 0 || p.keys == 0) return {};
    Choice part;
    for (const VariantRecord *v : {choice.variant, choice.of_last}) {
        if (!v) continue;
        if (v->schedule_id == Schedule::amx && !has_32_bit_places(call)) {
            const SdpaCall head = slice_key_heads(slice(call, 0, 1), 0, 1);  // the least that run_by_key_heads() runs
            if (Status s = check_32_bit_places(places_of(head), kernels_of_amx); !s.ok()) return s;
        }
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
    if (Status s = choose_by_entries(call, forced, choice); !s.ok()) return s;
    if (Status s = check_parts(context, call, choice.values); !s.ok()) return s;
    for (const EntryGroup &group : choice.groups)
        if (Status s = check_parts(context, call, group.values); !s.ok()) return s;
    if (!call.weights.given()) return {};
    if (Status s = choose_weights(context, call.op, p.dtype, p.head_dim, variant, choice.weights); !s.ok()) return s;
    return check_parts(context, call, choice.weights);
}

Status choose_weights(const Context::State &context, const Op &op, DType dtype, std::int64_t head_dim, std::string_view variant,
                      Choice &choice) {
    static constexpr Candidate rows[] = {{Schedule::rows, "", "weights are wanted"},
                                         {Schedule::root, "", "nothing else is built"}};
    return choose_variant({op, dtype, Kind::weights, head_dim, head_dim}, rows, forced_variant(context, variant, op, true),
                          choice);
}

int worthwhile_threads(const SdpaProblem &p, int threads) noexcept { return worthwhile_threads(work_of(p), threads); }
int worthwhile_threads_at_most(const SdpaProblem &p, int threads) noexcept {
    return worthwhile_threads_at_most(work_of(p), threads);
}

}  // namespace attune
