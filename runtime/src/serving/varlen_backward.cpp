// SPDX-License-Identifier: MIT
// Gradients of a packed batch: one call of the gradients for each sequence, on rows of the same arrays.
#include "attune/varlen_backward.h"
#include "device/device_call.h"
#include "dispatch/shape_record.h"
#include "kernel_arguments.h"
#include "serving/varlen_backward_call.h"
#include <algorithm>
#include <cstring>

namespace attune {
namespace {

Status check_ranks(const VarlenBackwardArguments &a) {
    for (const auto &[name, view] : {std::pair("query", a.query), {"key", a.key}, {"value", a.value}})
        if (Status s = check_packed(name, view); !s.ok()) return s;
    for (const auto &[name, view] : {std::pair("forward.out", a.forward.out), {"forward.grad_out", a.forward.grad_out}}) {
        if (!view.given()) return invalid(name, "must be given");
        if (Status s = check_packed(name, view); !s.ok()) return s;
    }
    return {};
}

// Checks gradients of packed arrays as the caller gave them: messages count extents of rank 3.
Status check_gradients(const VarlenBackwardArguments &a) {
    const SdpaGradients &g = a.gradients;
    View unused;
    const View grad_out = writable(a.forward.grad_out);
    if (Status s = check_tensor_gradient("forward.grad_out", grad_out, "forward.out", a.forward.out, unused); !s.ok()) return s;
    if (Status s = check_tensor_gradient("gradients.query", g.query, "query", a.query, unused); !s.ok()) return s;
    if (Status s = check_tensor_gradient("gradients.key", g.key, "key", a.key, unused); !s.ok()) return s;
    if (Status s = check_tensor_gradient("gradients.value", g.value, "value", a.value, unused); !s.ok()) return s;
    return check_tensor_gradient("gradients.score_weight", g.score_weight, "score_weight", a.options.score_weight, unused);
}

template<typename Data> BasicView<Data> as_entry_if_given(const BasicView<Data> &v) { return v.given() ? as_entry(v) : v; }

// The forward pass and the gradients as those of one batch entry.
Status as_entries(const VarlenBackwardArguments &a, const VarlenCall &p, SdpaForward &forward, SdpaGradients &gradients) {
    forward.out = as_entry(a.forward.out), forward.grad_out = as_entry(a.forward.grad_out);
    if (Status s = check_packed_lse("forward.lse", a.forward.lse, forward.lse); !s.ok()) return s;
    if (Status s = check_packed_lse("forward.grad_lse", a.forward.grad_lse, forward.grad_lse); !s.ok()) return s;
    const SdpaGradients &g = a.gradients;
    gradients = g;
    gradients.query = as_entry_if_given(g.query), gradients.key = as_entry_if_given(g.key);
    gradients.value = as_entry_if_given(g.value);
    const ConstView &slopes = a.options.alibi_slopes;
    if (slopes.rank != 2 || !g.alibi_slopes.given()) return {};
    if (Status s = check_gradient("gradients.alibi_slopes", g.alibi_slopes, "alibi_slopes", slopes, DType::f32); !s.ok())
        return s;
    gradients.alibi_slopes = p.batch() > 0 ? row_of(g.alibi_slopes, 0) : View();
    return {};
}

}  // namespace

Status check_varlen_backward(const VarlenBackwardArguments &a, VarlenBackwardCall &p) {
    if (Status s = check_ranks(a); !s.ok()) return s;
    if (Status s = check_sequences(p, a.query, a.key); !s.ok()) return s;
    SdpaOptions of_entry;
    if (Status s = check_sequence_options(a.options, p, of_entry); !s.ok()) return s;
    SdpaForward forward;
    SdpaGradients gradients;
    if (Status s = as_entries(a, p, forward, gradients); !s.ok()) return s;
    SdpaCall inputs_alone;
    if (Status s = check_inputs(as_entry(a.query), as_entry(a.key), as_entry(a.value), {"forward.out", forward.out}, of_entry,
                                inputs_alone);
        !s.ok())
        return s;
    if (Status s = check_gradients(a); !s.ok()) return s;
    if (Status s = check_backward(as_entry(a.query), as_entry(a.key), as_entry(a.value), forward, gradients, of_entry, p.all);
        !s.ok())
        return s;
    const SdpaGradients &g = a.gradients;
    const NamedView outputs[] = {{"gradients.query", g.query},
                                 {"gradients.key", g.key},
                                 {"gradients.value", g.value},
                                 {"gradients.alibi_slopes", g.alibi_slopes},
                                 {"gradients.sinks", g.sinks}};
    std::vector<NamedView> inputs = named_backward_inputs(a.query, a.key, a.value, a.forward, a.options);
    for (const NamedView &list : named_lists(p, a.options)) inputs.push_back(list);
    if (Status s = check_overlaps(inputs, outputs); !s.ok()) return s;

    set_backward_ops(a.options.score, p.all);
    p.all.forward.sizes.score = a.options.score;
    p.all.forward.scale = scale_of(a.options, p.all.forward.sizes.head_dim);
    p.rows = p.all.forward;
    keep_options(a.options, p);
    p.sums_slopes = a.options.alibi_slopes.rank != 2 && g.alibi_slopes.given();
    for (std::int64_t n = 0; n < p.batch(); n++) add_sequence(p, sequence_of(p, n));
    sort_sequences(p);
    return {};
}

BackwardCall call_of_sinks(const VarlenBackwardCall &p) {
    BackwardCall call = p.all;
    const std::int64_t rows = int_at(p.query_ends, p.batch());
    select_rows(p, {0, 0, rows, 0, 0}, call.forward);
    take_rows(call.lse, p.all.lse, 0, rows);
    take_rows(call.grad_lse, p.all.grad_lse, 0, rows);
    take_rows(call.grad_out, p.all.grad_out, 0, rows);
    call.query = call.key = call.value = call.alibi_slopes = {};
    return call;
}

void select_gradients(const VarlenBackwardCall &p, const SdpaOptions &options, const View &slopes, const Sequence &s,
                      BackwardCall &call) {
    select_sequence(p, options, s, call.forward);
    take_rows(call.lse, p.all.lse, s.first_query, s.queries);
    take_rows(call.grad_lse, p.all.grad_lse, s.first_query, s.queries);
    take_rows(call.grad_out, p.all.grad_out, s.first_query, s.queries);
    take_rows(call.query, p.all.query, s.first_query, s.queries);
    take_rows(call.key, p.all.key, s.first_key, s.keys);
    take_rows(call.value, p.all.value, s.first_key, s.keys);
    call.sinks = {};
    if (slopes.given()) {
        call.alibi_slopes.stride[1] = slopes.stride[1];
        move_to(call.alibi_slopes, static_cast<float *>(slopes.data) + s.number * slopes.stride[0]);
    }
}

namespace {

// Chooses the kernels of all sequences, before the first one writes.
Status choose(Context::State &context, const SdpaOptions &options, VarlenBackwardCall &p) {
    BackwardCall sizes = p.all;
    p.choices.resize(static_cast<std::size_t>(p.batch()));
    for (const Sequence &s : p.sequences) {
        sizes.forward.sizes.queries = s.queries, sizes.forward.sizes.keys = s.keys;
        BackwardChoice &choice = p.choices[static_cast<std::size_t>(s.number)];
        if (Status chosen = choose_backward(context, sizes, options.variant, choice); !chosen.ok()) return chosen;
    }
    if (p.all.sinks.given())
        if (Status s = choose_backward(context, call_of_sinks(p), options.variant, p.of_sinks); !s.ok()) return s;
    static constexpr Candidate root[] = {{Schedule::root, "", "nothing else is built"}};
    return choose_variant({ops::capture_sum, DType::f32}, root, {}, p.slope_sum);
}

// out (Hq): the sum of each head's column of `slopes`, (B, Hq), whose columns are dense.
Status sum_slopes(Context::State &context, const VarlenBackwardCall &p, const View &slopes) {
    const std::int64_t heads = slopes.extent[1];
    if (heads == 0) return {};
    View out = p.all.alibi_slopes;
    out.rank = 2;
    out.extent[0] = heads, out.stride[0] = p.all.alibi_slopes.stride[1], out.extent[1] = 1, out.stride[1] = 1;
    HalideBuffer sums(View(static_cast<float *>(slopes.data), {heads, slopes.extent[0]})), to(out);
    const CaptureSumArguments arguments{.sums = sums.get(), .sums_keys = true, .grad_capture = to.get()};
    return call_kernel(context, p.slope_sum.variant->kernel, arguments, 1);
}

// A line for each sequence, as a call of its own, with a share of the time in proportion to its work.
void record_sequences(ShapeRecord &record, const VarlenBackwardCall &p, const SdpaOptions &options, CallStart start) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (p.work == 0 || p.all.forward.op.id != OpId::sdpa_backward) return;  // shape files have no other op
    SdpaCall call = p.rows;
    for (const Sequence &s : p.sequences) {
        if (s.queries == 0) continue;
        select_sequence(p, options, s, call);
        ShapeLine line = shape_line(call.op.name, call);
        line.exact = false;
        record.add(line, seconds * s.work / p.work);
    }
}

Status run(Context &context, const VarlenBackwardArguments &a, VarlenBackwardCall &p, std::string_view why_here = {}) {
    const CallStart start = start_of_call();
    Context::State &state = state_of(context);
    if (Status s = check_varlen_backward(a, p); !s.ok()) return s;
    if (Status s = choose(state, a.options, p); !s.ok()) return s;

    // Gradients of slopes, (B, Hq): in scratch where all sequences share them, a column after another.
    View slopes = a.gradients.alibi_slopes;
    const std::int64_t columns = std::max<std::int64_t>(p.batch(), 1), heads = p.all.forward.sizes.query_heads;
    const auto bytes = static_cast<std::size_t>(p.sums_slopes ? columns * heads : 0) * sizeof(float);
    ScratchBlock block(*state.scratch, bytes);
    if (!block.data()) return no_memory();
    if (p.sums_slopes) {
        std::memset(block.data(), 0, bytes);
        slopes = View(static_cast<float *>(block.data()), {columns, heads}, {1, columns});
    }
    const auto run_one = [&](Sequence &s, BackwardCall &call, int threads) {
        select_gradients(p, a.options, slopes, s, call);
        return run_backward(context, call, p.choices[static_cast<std::size_t>(s.number)], threads);
    };
    if (Status s = run_sequences(state, p, p.all, run_one); !s.ok()) return s;
    if (p.all.sinks.given())
        if (Status s = run_backward(context, call_of_sinks(p), p.of_sinks, state.threads); !s.ok()) return s;
    if (p.sums_slopes)
        if (Status s = sum_slopes(state, p, slopes); !s.ok()) return s;

    Choice of_most_work{nullptr, "no pairs of a query and a key"};
    if (p.work > 0) of_most_work = p.choices[static_cast<std::size_t>(p.sequences[0].number)].tiles;
    if (!why_here.empty()) of_most_work.reason = why_here;
    record_call(state, of_most_work, "variable_length_backward", start,
                [&] { return "sequences " + text(p.batch()) + " " + sizes_text(p.rows.sizes); });
    if (state.shapes) record_sequences(*state.shapes, p, a.options, start);
    return {};
}

Status run_on_device(Context &context, const VarlenBackwardArguments &a, VarlenBackwardCall &p) {
    if (Status s = check_lists_on_host(p, a.options); !s.ok()) return s;
    std::string instead;
    if (Status s = find_device(state_of(context), "query", instead); !s.ok()) return s;
    if (instead.empty()) return varlen_backward_on_device(context, a, p);
    const ConstView query = as_host(a.query), key = as_host(a.key), value = as_host(a.value);
    const SdpaForward forward = as_host(a.forward);
    const SdpaGradients gradients = as_host(a.gradients);
    const SdpaOptions options = as_host(a.options);
    return run(context, {query, key, value, forward, gradients, options}, p, instead);
}

}  // namespace

Status variable_length_attention_backward(Context &context, const ConstView &query, const ConstView &key,
                                          const ConstView &value, const ConstView &cu_seqlens_q, const ConstView &cu_seqlens_k,
                                          const SdpaForward &forward, const SdpaGradients &gradients,
                                          const SdpaOptions &options) noexcept {
    const auto body = [&](Context::State &, const ConstView &q, const ConstView &k, const ConstView &v,
                          const ConstView &query_ends, const ConstView &key_ends, const SdpaForward &f, const SdpaGradients &g,
                          const SdpaOptions &o) {
        VarlenBackwardCall packed;
        packed.query_ends = query_ends, packed.key_ends = key_ends;
        const VarlenBackwardArguments arguments{q, k, v, f, g, o};
        return q.place == Place::device ? run_on_device(context, arguments, packed) : run(context, arguments, packed);
    };
    return answer(context, body, query, key, value, cu_seqlens_q, cu_seqlens_k, forward, gradients, options);
}

}  // namespace attune
