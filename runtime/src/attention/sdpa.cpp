// SPDX-License-Identifier: MIT
#include "attune/sdpa.h"
#include "attention/prepared_sdpa.h"
#include "attention/sdpa_device_call.h"
#include "dispatch/shape_record.h"
#include <algorithm>
#include <cmath>

namespace attune {

const Op &op_of(Score score) {
    if (score == Score::cosine) return ops::cosine;
    return score == Score::gaussian ? ops::gaussian : ops::sdpa;
}

Status check_score(const SdpaOptions &options) {
    if (static_cast<unsigned>(options.score) > static_cast<unsigned>(Score::gaussian))
        return invalid("score", "must be from 0 to 3, got " + text(static_cast<int>(options.score)));
    const bool general = options.score == Score::general;
    if (general && !options.score_weight.given()) return invalid("score_weight", "must be given with Score::general");
    if (!general && options.score_weight.given()) return invalid("score_weight", "given without Score::general");
    return {};
}

double scale_of(const SdpaOptions &options, std::int64_t head_dim) {
    if (options.scale) return *options.scale;
    return options.score == Score::dot_product ? 1 / std::sqrt(static_cast<double>(head_dim)) : 1;
}

namespace {

Status run(Context &context, const ConstView &query, const ConstView &key, const ConstView &value, const View &out,
           const SdpaOptions &options, std::string_view why_here = {}) {
    if (query.place == Place::device) {
        std::string instead;
        if (Status s = find_device(state_of(context), "query", instead); !s.ok()) return s;
        if (instead.empty())
            return attention_on_device(context, query, key, value, out, options, {}, [&](SdpaCall &call) {
                call.op = op_of(options.score), call.scale = scale_of(options, call.sizes.head_dim);
                return Status();
            });
        return run(context, as_host(query), as_host(key), as_host(value), as_host(out), as_host(options), instead);
    }
    const CallStart start = start_of_call();
    PreparedSdpa prepared;
    if (Status s = prepared.prepare(state_of(context), query, key, value, out, options); !s.ok()) return s;
    return prepared.run(context, start, why_here);
}

}  // namespace

Status PreparedSdpa::prepare(Context::State &context, const ConstView &query, const ConstView &key, const ConstView &value,
                             const View &out, const SdpaOptions &options) {
    if (Status s = check_score(options); !s.ok()) return s;
    // q . (W k): a dot product with projected keys.
    if (options.score == Score::general) {
        projected_.emplace(NamedView{"key", key}, NamedView{"score_weight", options.score_weight}, NamedView{});
        if (Status s = projected_->prepare(context); !s.ok()) return s;
        if (query.rank >= 1 && query.rank <= max_rank)
            if (Status s = check_extent("score_weight", "number of rows (first extent)", options.score_weight.extent[0],
                                        "query", query.extent[query.rank - 1]);
                !s.ok())
                return s;
    }
    const ConstView &attended = projected_ ? projected_->result() : key;
    const NamedView more_inputs[] = {{"key", key}, {"score_weight", options.score_weight}};
    if (Status s = check_attention(query, attended, value, out, options, more_inputs, call_); !s.ok()) return s;
    call_.op = op_of(options.score);
    call_.sizes.score = options.score;
    call_.scale = scale_of(options, call_.sizes.head_dim);
    if (Status s = choose_attention(context, call_, options.variant, choice_); !s.ok()) return s;
    const bool scores_of_all = options.weights.given() && options.weights_mode < WeightsMode::masked;
    if (!projected_ || scores_of_all || choice_.groups.empty()) return {};
    std::int64_t longest = 0;
    for (const EntryGroup &group : choice_.groups) longest = std::max(longest, group.keys);
    return projected_->keep_rows(context, longest);
}

Status PreparedSdpa::run(Context &context, CallStart start, std::string_view why_here) {
    if (projected_)
        if (Status s = projected_->run(state_of(context)); !s.ok()) return s;
    if (Status s = run_attention(context, call_, choice_); !s.ok()) return s;
    if (!why_here.empty()) choice_.values.reason = why_here;
    record_call(state_of(context), choice_.values, call_.op.name, start, [&] { return sizes_text(call_.sizes); });
    const std::string_view op = call_.sizes.score == Score::general ? "general" : call_.op.name;
    record_shape(state_of(context), start, [&] { return shape_line(op, call_); });
    return {};
}

Status scaled_dot_product_attention(Context &context, const ConstView &query, const ConstView &key, const ConstView &value,
                                    const View &out, const SdpaOptions &options) noexcept {
    const auto body = [&](Context::State &, const ConstView &q, const ConstView &k, const ConstView &v, const View &o,
                          const SdpaOptions &given) { return run(context, q, k, v, o, given); };
    return answer(context, body, query, key, value, out, options);
}

Status plan_sdpa(const Context &context, const SdpaProblem &problem, Plan &plan) noexcept {
    return answer(context, [&](Context::State &state) -> Status {
        if (Status sizes = check_problem(problem); !sizes.ok()) return sizes;
        if (problem.place == Place::device) {
            std::string instead;
            if (Status s = find_device(state, "problem.place", instead); !s.ok()) return s;
            if (instead.empty()) return plan_on_device(state, problem, plan);
        }
        const Op &op = op_of(problem.score);
        Choice choice;
        if (Status s = choose_values(op, problem, forced_variant(state, {}, op), true, choice); !s.ok()) return s;
        if (problem.batch == 0 || problem.query_heads == 0 || problem.queries == 0 || problem.keys == 0) {
            plan = {.variant = {}, .reason = problem.keys == 0 ? "no keys" : "no queries"};
            return {};
        }
        plan = {std::string(choice.variant->name), std::string(choice.reason),
                sdpa_workspace_bytes(state, *choice.variant, problem)};
        if (choice.of_last) {
            plan.variant_of_last_queries = choice.of_last->name;
            // The first variant's blocks are kept in the Context's scratch while the second one allocates its own.
            plan.workspace_bytes += sdpa_workspace_bytes(state, *choice.of_last, last_queries(*choice.variant, problem));
        }
        plan.workspace_bytes_of_any_lengths = plan.workspace_bytes;
        if (choice.forced) return {};
        plan.candidates = plan_candidates(predictions(op, problem));
        if (!problem.invariant)
            plan.workspace_bytes_of_any_lengths = std::max(plan.workspace_bytes, workspace_of_any_keys(state, op, problem));
        return {};
    });
}

}  // namespace attune
