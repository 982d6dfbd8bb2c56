// SPDX-License-Identifier: MIT
#include "attention/sdpa_call.h"
#include "device/device_call.h"
#include "dispatch/shape_record.h"
#include "layers/additive_call.h"
#include "layers/projection.h"
#include "tensors/max_magnitude.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace attune {
namespace {

constexpr const Op &per_pair = ops::additive, &separable = ops::additive_separable;
// Largest |q| and |k| of the separable form: beyond it the product of exponentials of a query and a key leaves the range of a
// float (generators/attention/equations/scores.h).
constexpr float separable_limit = 22;

}  // namespace

Status check_additive_options(const AdditiveOptions &options, DType type) {
    if (options.attention.score != Score::dot_product)
        return invalid("attention.score", "must be left as it is: the score is the additive one");
    if (options.attention.score_weight.given()) return invalid("attention.score_weight", "must not be given");
    return check_number("b_score", options.b_score, type);
}

Status check_w_score(const ConstView &w, const SdpaProblem &p) {
    if (w.rank != 1) return invalid("w_score", "rank must be 1, got " + text(w.rank));
    if (Status s = check_same_type("w_score", w.dtype, "query", p.dtype); !s.ok()) return s;
    if (Status s = check_memory("w_score", w); !s.ok()) return s;
    if (Status s = check_dense("w_score", w); !s.ok()) return s;
    return check_extent("w_score", "extent", w.extent[0], "query after projection", p.head_dim);
}

// Checks that query and key, once projected, have one width.
Status check_additive_widths(const AdditiveOptions &options, const ConstView &query, const ConstView &key) {
    const bool of_query = options.w_query.given(), of_key = options.w_key.given();
    if (!of_query && !of_key) return {};  // as in sdpa.h
    for (const ConstView *v : {&query, &key})
        if (v->rank < 1 || v->rank > max_rank) return {};  // refused with the other shapes
    const std::int64_t q = query.extent[query.rank - 1], k = key.extent[key.rank - 1];
    if (q == k) return {};
    if (of_query && of_key) return invalid("w_key", "number of rows is " + text(k) + ", that of w_query is " + text(q));
    if (of_key) return invalid("query", "width (last extent) is " + text(q) + ", number of rows of w_key is " + text(k));
    return invalid("key", "width (last extent) is " + text(k) + ", number of rows of w_query is " + text(q));
}

AdditiveWeight::AdditiveWeight(const AdditiveOptions &options, SdpaCall &call) {
    const auto channels = static_cast<std::size_t>(call.sizes.head_dim);
    if (options.w_score.given()) {
        call.pair_weight = options.w_score;
    } else if (call.sizes.dtype == DType::f32) {
        ones32_.assign(channels, 1);
        call.pair_weight = ConstView(ones32_.data(), {call.sizes.head_dim});
    } else {
        ones64_.assign(channels, 1);
        call.pair_weight = ConstView(ones64_.data(), {call.sizes.head_dim});
    }
    call.scale = options.attention.scale.value_or(1);
    call.pair_bias = options.b_score;
}

std::vector<NamedView> additive_inputs(const ConstView &query, const ConstView &key, const AdditiveOptions &options) {
    return {{"query", query},
            {"key", key},
            {"w_query", options.w_query},
            {"w_key", options.w_key},
            {"b_query", options.b_query},
            {"b_key", options.b_key},
            {"w_score", options.w_score}};
}

namespace {

// Raw scores are written for all keys, also for keys that no query sees.
bool writes_raw_scores(const SdpaCall &call) { return call.weights.given() && call.weights_mode < WeightsMode::masked; }

// Largest magnitude of the keys that each batch entry holds, or of all keys where the scores of all are an output.
Status magnitude_of_keys(Context::State &context, const SdpaCall &call, float *per_batch) {
    if (!call.lengths.given() || writes_raw_scores(call)) return max_magnitude(context, call.key, per_batch);
    for (std::int64_t b = 0; b < call.sizes.batch; b++) {
        const ConstView keys = part_of(entries(call.key, b, b + 1), 2, 0, keys_held(call, b));
        if (Status s = max_magnitude(context, keys, per_batch + b); !s.ok()) return s;
    }
    return {};
}

// Finds for each batch entry whether it is within separable_limit.
Status find_separable(Context::State &context, const SdpaCall &call, std::vector<bool> &within) {
    const auto batch = static_cast<std::size_t>(call.sizes.batch);
    std::vector<float> query(batch), key(batch);
    if (Status s = max_magnitude(context, call.query, query.data()); !s.ok()) return s;
    if (Status s = magnitude_of_keys(context, call, key.data()); !s.ok()) return s;
    for (std::size_t b = 0; b < batch; b++) within.push_back(query[b] <= separable_limit && key[b] <= separable_limit);
    return {};
}

// Consecutive batch entries of one form of the score.
struct FormPart {
    SdpaCall call;
    AttentionChoice choice;
};

// Chooses the separable form for batch entries `within` the range and the form per pair for others, so that a result never
// depends on other batch entries. All kernels are chosen before any of them runs.
Status choose_by_range(const Context::State &context, const SdpaCall &call, std::string_view variant, bool forced,
                       const std::vector<bool> &within, std::vector<FormPart> &parts) {
    for (std::size_t b = 0; forced && b < within.size(); b++)
        if (!within[b])
            return {StatusCode::unsupported,
                    "variant: " + std::string(variant) + " needs queries and keys (after projection) of at most " +
                        text(separable_limit) + " in magnitude; batch entry " + text(b) + " has larger ones, or NaN"};
    for (std::size_t begin = 0, end; begin < within.size(); begin = end) {
        for (end = begin + 1; end < within.size() && within[end] == within[begin];) end++;
        FormPart &part = parts.emplace_back();
        part.call = slice(call, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end));
        part.call.op = within[begin] ? separable : per_pair;
        if (Status s = choose_attention(context, part.call, variant, part.choice); !s.ok()) return s;
    }
    return {};
}

Status run_by_range(Context &context, std::vector<FormPart> &parts, AttentionChoice &choice) {
    for (FormPart &part : parts) {
        if (Status s = run_attention(context, part.call, part.choice); !s.ok()) return s;
        choice = part.choice;
    }
    return {};
}

Status run_on_device(Context &context, const ConstView &query, const ConstView &key, const ConstView &value, const View &out,
                     const AdditiveOptions &options) {
    if (Status s = check_additive_options(options, query.dtype); !s.ok()) return s;
    if (Status s = check_wide_for("additive attention", "query", query.dtype); !s.ok()) return s;
    const NamedView projections[] = {
        {"w_query", options.w_query}, {"w_key", options.w_key}, {"b_query", options.b_query}, {"b_key", options.b_key}};
    for (const NamedView &v : projections)
        if (v.view.given()) return unsupported(v.name, "on a device query and key are given projected, as by linear()");
    const NamedView w_score[] = {{"w_score", options.w_score}};
    return attention_on_device(context, query, key, value, out, options.attention, w_score, [&](SdpaCall &call) {
        call.op = per_pair;
        call.scale = options.attention.scale.value_or(1);
        call.pair_weight = as_host(options.w_score), call.pair_bias = options.b_score;
        return options.w_score.given() ? check_w_score(call.pair_weight, call.sizes) : Status();
    });
}

Status run(Context &context, const ConstView &query, const ConstView &key, const ConstView &value, const View &out,
           const AdditiveOptions &options, std::string_view why_here = {}) {
    Context::State &state = state_of(context);
    if (query.place == Place::device) {
        std::string instead;
        if (Status s = find_device(state, "query", instead); !s.ok()) return s;
        if (instead.empty()) return run_on_device(context, query, key, value, out, options);
        return run(context, as_host(query), as_host(key), as_host(value), as_host(out), as_host(options), instead);
    }
    const CallStart start = start_of_call();
    if (Status s = check_additive_options(options, query.dtype); !s.ok()) return s;
    if (Status s = check_wide_for("additive attention", "query", query.dtype); !s.ok()) return s;
    Projection q({"query", query}, {"w_query", options.w_query}, {"b_query", options.b_query});
    Projection k({"key", key}, {"w_key", options.w_key}, {"b_key", options.b_key});
    if (Status s = q.prepare(state); !s.ok()) return s;
    if (Status s = k.prepare(state); !s.ok()) return s;
    const std::vector<NamedView> more_inputs = additive_inputs(query, key, options);
    if (Status s = check_additive_widths(options, q.result(), k.result()); !s.ok()) return s;
    SdpaCall call;
    if (Status s = check_attention(q.result(), k.result(), value, out, options.attention, more_inputs, call); !s.ok()) return s;
    if (options.w_score.given())
        if (Status s = check_w_score(options.w_score, call.sizes); !s.ok()) return s;
    const AdditiveWeight weight(options, call);

    // The form of the score: that of the forced variant, else the separable one where several queries share the exponentials of
    // a key.
    std::string_view variant = options.attention.variant;
    if (variant.empty() && state.forced_variant) variant = state.forced_variant->name;
    const VariantRecord *named = find_variant(variant);
    const bool forced = named && named->op == separable.name;
    const bool shared = call.sizes.dtype == DType::f32 && call.sizes.queries >= 4 && !call.sizes.invariant &&
                        !(named && named->op == per_pair.name);
    const bool nothing =
        call.sizes.batch == 0 || call.sizes.query_heads == 0 || call.sizes.queries == 0 || call.sizes.keys == 0;
    AttentionChoice choice;
    call.op = per_pair;
    const bool by_range = (forced || shared) && !nothing;
    if (!by_range)
        if (Status s = choose_attention(state, call, options.attention.variant, choice); !s.ok()) return s;
    if (Status s = q.run(state); !s.ok()) return s;
    if (Status s = k.run(state); !s.ok()) return s;
    if (by_range) {
        std::vector<bool> within;
        std::vector<FormPart> parts;
        if (Status s = find_separable(state, call, within); !s.ok()) return s;
        if (Status s = choose_by_range(state, call, options.attention.variant, forced, within, parts); !s.ok()) return s;
        if (Status s = run_by_range(context, parts, choice); !s.ok()) return s;
    } else if (Status s = run_attention(context, call, choice); !s.ok()) {
        return s;
    }
    if (!why_here.empty()) choice.values.reason = why_here;
    record_call(state, choice.values, "additive", start, [&] { return sizes_text(call.sizes); });
    record_shape(state, start, [&] { return shape_line("additive", call); });
    return {};
}

}  // namespace

Status additive_attention(Context &context, const ConstView &query, const ConstView &key, const ConstView &value,
                          const View &out, const AdditiveOptions &options) noexcept {
    const auto body = [&](Context::State &, const ConstView &q, const ConstView &k, const ConstView &v, const View &o,
                          const AdditiveOptions &given) { return run(context, q, k, v, o, given); };
    return answer(context, body, query, key, value, out, options);
}

}  // namespace attune
