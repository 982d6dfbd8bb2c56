// SPDX-License-Identifier: MIT
#include "attention/sdpa_device_call.h"
#include "kernel_arguments.h"
#include "serving/varlen_backward_call.h"
#include <algorithm>

namespace attune {
namespace {

// The rows of one sequence, by the names of the arguments that hold them.
std::vector<NamedView> named_rows(const BackwardCall &c) {
    return {{"query", c.forward.query},       {"key", c.forward.key},       {"value", c.forward.value},
            {"forward.out", c.forward.out},   {"forward.lse", c.lse},       {"forward.grad_out", c.grad_out},
            {"forward.grad_lse", c.grad_lse}, {"gradients.query", c.query}, {"gradients.key", c.key},
            {"gradients.value", c.value}};
}

// Turns `call` into that of a sequence on a device. One without queries and keys, whose slopes have a gradient of 0, borrows a
// row of the batch for it: a kernel writes nothing without one.
void select_there(const VarlenBackwardCall &p, const SdpaOptions &options, const View &slopes, Sequence s, BackwardCall &call) {
    const SdpaProblem &all = p.rows.sizes;
    const bool borrows = slopes.given() && s.queries == 0 && s.keys == 0 && (all.queries > 0 || all.keys > 0);
    if (borrows) s.first_query = s.first_key = 0, (all.queries > 0 ? s.queries : s.keys) = 1;
    select_gradients(p, options, slopes, s, call);
    if (borrows) call.query = call.key = call.value = {};
}

Status check_there(const VarlenBackwardArguments &a) {
    SdpaOptions read_there = a.options;
    read_there.offsets = {};
    const SdpaGradients &g = a.gradients;
    std::vector<NamedView> all = named_backward_inputs(a.query, a.key, a.value, a.forward, read_there);
    all.insert(all.end(), {{"gradients.query", g.query},
                           {"gradients.key", g.key},
                           {"gradients.value", g.value},
                           {"gradients.alibi_slopes", g.alibi_slopes},
                           {"gradients.sinks", g.sinks}});
    if (Status s = check_places(all, "query"); !s.ok()) return s;
    if (Status s = check_device_gradients(g); !s.ok()) return s;
    return check_device_options(a.options, a.query.dtype);
}

// The kernels of a batch.
struct Chosen {
    struct OfSequence {
        DeviceBackwardChoice choice;
        DeviceBands bands;
    };
    std::vector<OfSequence> sequences;  // as p.sequences
    Choice sinks, slope_sum;
};

Status choose_there(const Context::State &state, const VarlenBackwardCall &p, const SdpaOptions &options, const View &slopes,
                    const BackwardCall &of_sinks, Chosen &chosen) {
    if (Status s = choose_sinks_on_device(state, of_sinks, chosen.sinks); !s.ok()) return s;
    chosen.sequences.resize(p.sequences.size());
    BackwardCall call = p.all;
    for (std::size_t n = 0; n < p.sequences.size(); n++) {
        auto &[choice, bands] = chosen.sequences[n];
        select_there(p, options, slopes, p.sequences[n], call);
        const SdpaCall &c = call.forward;
        if (Status s = check_32_bit_places(named_rows(call), kernels_for_a_device); !s.ok()) return s;
        const Band band{c.band_begin[0], c.band_end[0], c.offset[0]};
        if (Status s = find_device_bands(band, c.sizes, bands); !s.ok()) return s;
        if (Status s = choose_backward_on_device(state, call, options.variant, choice); !s.ok()) return s;
    }
    if (!p.sums_slopes || p.all.forward.sizes.query_heads == 0) return {};
    const DeviceNeeds of_sum{ops::capture_sum, DType::f32, [&] { return text(p.batch()) + " sequences"; }};
    return choose_on_device(state, of_sum, {}, chosen.slope_sum);
}

Status run_sequences(Context::State &state, const VarlenBackwardCall &p, const SdpaOptions &options, const View &slopes,
                     const Chosen &chosen, const DeviceRowTotals &totals, void *totals_of_a_row) {
    BackwardCall call = p.all;
    for (std::size_t n = 0; n < p.sequences.size(); n++) {
        const Sequence &s = p.sequences[n];
        select_there(p, options, slopes, s, call);
        const DeviceRowTotals of_sequence =
            s.queries > 0 ? totals.rows(s.first_query, s.queries) : DeviceRowTotals(call, totals_of_a_row);
        const auto &[choice, bands] = chosen.sequences[n];
        if (Status done = run_backward_on_device(state, call, choice, bands, of_sequence); !done.ok()) return done;
    }
    return {};
}

// out, (Hq): the sum of each head's column of `terms`, (B, Hq).
Status sum_slopes(Context::State &state, const Choice &choice, const View &terms, const View &out) {
    if (!choice.variant) return {};
    const View columns(static_cast<float *>(terms.data), {terms.extent[1], terms.extent[0]},
                       {terms.stride[1], terms.stride[0]});
    View sums = out;
    sums.rank = 2, sums.extent[1] = 1, sums.stride[1] = 1;
    DeviceCall call(*choice.variant);
    const DeviceCaptureSumArguments arguments{
        .sums = call.buffer(columns), .sums_keys = true, .grad_capture = call.buffer(sums)};
    arguments.append_to(call.args);
    return queue(state, call);
}

}  // namespace

Status varlen_backward_on_device(Context &context, const VarlenBackwardArguments &a, VarlenBackwardCall &p) {
    const CallStart start = start_of_call();
    Context::State &state = state_of(context);
    if (Status s = check_there(a); !s.ok()) return s;
    const ConstView query = as_host(a.query), key = as_host(a.key), value = as_host(a.value);
    const SdpaForward forward = as_host(a.forward);
    const SdpaGradients gradients = as_host(a.gradients);
    const SdpaOptions options = as_host(a.options);
    if (Status s = check_varlen_backward({query, key, value, forward, gradients, options}, p); !s.ok()) return s;

    // Gradients of slopes, (B, Hq): where sequences share them, terms of a sum in scratch, at least one. A rehearsal has no
    // scratch and queues no kernel, so that any address serves.
    const View &shared = gradients.alibi_slopes;
    if (p.sums_slopes && p.sequences.empty()) {
        add_sequence(p, {});
        p.offsets = {};  // has no element for it
    }
    const std::int64_t terms = p.sums_slopes ? static_cast<std::int64_t>(p.sequences.size()) : 0;
    const std::int64_t heads = p.rows.sizes.query_heads;
    const DeviceMemory of_slopes(state, static_cast<std::size_t>(terms * heads) * sizeof(float));
    View slopes = shared;
    if (p.sums_slopes) slopes = View(static_cast<float *>(of_slopes.data() ? of_slopes.data() : shared.data), {terms, heads});
    const BackwardCall of_sinks = call_of_sinks(p);
    Chosen chosen;
    if (Status s = choose_there(state, p, options, slopes, of_sinks, chosen); !s.ok()) return s;
    // Totals of all rows, which the sinks of all sequences are summed from; and a row's, for sequences without queries.
    BackwardCall one_row = of_sinks;
    one_row.forward.sizes.queries = 1;
    const DeviceMemory memory(state, DeviceRowTotals::bytes_of(of_sinks)), of_a_row(state, DeviceRowTotals::bytes_of(one_row));
    for (const DeviceMemory *m : {&of_slopes, &memory, &of_a_row})
        if (!m->status().ok()) return m->status();
    const DeviceRowTotals totals(of_sinks, memory.data());
    if (Status s = run_sequences(state, p, options, slopes, chosen, totals, of_a_row.data()); !s.ok()) return s;
    if (Status s = run_sinks_on_device(state, of_sinks, chosen.sinks, totals); !s.ok()) return s;
    if (Status s = sum_slopes(state, chosen.slope_sum, slopes, shared); !s.ok()) return s;
    const Choice of_most_work = chosen.sequences.empty() ? Choice{nullptr, "no rows"} : chosen.sequences[0].choice.tensors;
    record_call(state, of_most_work, "variable_length_backward", start,
                [&] { return "sequences " + text(p.batch()) + " " + sizes_text(p.rows.sizes); });
    return {};
}

}  // namespace attune
