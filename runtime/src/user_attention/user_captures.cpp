// SPDX-License-Identifier: MIT
// Gradients of the captures of a user's attention. A kernel visits the pairs of one batch entry and query head one after the
// other, and adds to the elements that they read. Units (entry, head) that may read the same element run in order, or into
// copies that are summed in order; the number of copies depends on sizes alone, so bits do not depend on threads.
#include "attention_backward/sdpa_backward_call.h"
#include "execution/halide_call.h"
#include "kernel_arguments.h"
#include "user_attention/user_call.h"
#include <algorithm>
#include <cstring>

namespace attune {
namespace {

constexpr std::int64_t most_tasks = 8, most_copied_bytes = std::int64_t{64} << 20;

// Division of units into tasks: `groups` read no element in common; `lanes` tasks, with a copy each, share a group's `units`.
struct Division {
    std::int64_t groups = 1, units = 1, lanes = 1;
};
Division divide(const CaptureRecord &record, const SdpaProblem &p, std::int64_t bytes) {
    Division d;
    (record.by_batch ? d.groups : d.units) *= p.batch;
    (record.by_head ? d.groups : d.units) *= p.query_heads;
    d.lanes = std::min(d.units, std::max<std::int64_t>(1, most_tasks / d.groups));
    d.lanes = std::clamp<std::int64_t>(most_copied_bytes / std::max<std::int64_t>(1, bytes), 1, d.lanes);
    return d;
}

// The batch entry and query head of unit `u` of group `g`.
std::pair<std::int64_t, std::int64_t> unit_of(const CaptureRecord &record, const SdpaProblem &p, std::int64_t g,
                                              std::int64_t u) {
    if (record.by_batch) return record.by_head ? std::pair(g / p.query_heads, g % p.query_heads) : std::pair(g, u);
    return record.by_head ? std::pair(u, g) : std::pair(u / p.query_heads, u % p.query_heads);
}

// gradient = the sum of the copies, of `size` elements each, a dense run at a time.
Status sum_copies(Context::State &context, const VariantRecord &sum, const double *copies, std::int64_t size,
                  std::int64_t lanes, const View &gradient) {
    const View g = as_rank4(gradient, false);
    const std::int64_t run = g.extent[3];
    for (std::int64_t at = 0; at < elements_of(gradient); at += run) {
        const std::int64_t row = at / run, z = row % g.extent[2], y = row / g.extent[2] % g.extent[1],
                           x = row / g.extent[2] / g.extent[1];
        View part = part_of(part_of(part_of(g, 0, x, 1), 1, y, 1), 2, z, 1);
        part.rank = 2;
        part.extent[0] = run, part.stride[0] = g.stride[3], part.extent[1] = 1, part.stride[1] = 1;
        HalideBuffer from(ConstView(copies + at, {run, lanes}, {1, size})), to(part);
        const CaptureSumArguments arguments{.sums = from.get(), .sums_keys = true, .grad_capture = to.get()};
        if (Status s = call_kernel(context, sum.kernel, arguments, 1); !s.ok()) return s;
    }
    return {};
}

Status run_capture(Context::State &context, const BackwardShared &all, const BackwardChoice &choice, std::size_t n,
                   int threads) {
    const SdpaCall &c = all.call.forward;
    const SdpaProblem &p = c.sizes;
    const CaptureRecord &record = c.user->attention->captures[n];
    const View &gradient = all.call.user_captures[n];
    const VariantRecord &kernel = *choice.user_captures.variant;

    // One kernel serves all captures, and asks for memory for the largest one.
    std::int64_t count = 1;
    for (std::size_t other = 0; other < c.user->captures.size(); other++)
        if (c.user->attention->captures[other].has_gradient)
            count = std::max(count, elements_of(c.user->captures[other].buffer));
    const auto bytes = static_cast<std::int64_t>(sizeof(double)) * count;
    const Division division = divide(record, p, bytes);
    // Bounds of the lengths and blocks of the mask for the tiles of this kernel, and the copies.
    BackwardShared shared = all;
    ScratchBlock bounds(*context.scratch, static_cast<std::size_t>(bytes_of_bounds(p)));
    ScratchBlock copies(*context.scratch, static_cast<std::size_t>(division.lanes * bytes));
    if (!bounds.data() || !copies.data()) return no_memory();
    shared.bounds = bound_lengths(all.lengths, p, kernel.tile_q, static_cast<std::int32_t *>(bounds.data()));
    BlockTable blocks;
    if (c.user->attention->has_mask) {
        if (Status s = blocks.make(context, c, {1, kernel.tile_q, kernel.kv_block}); !s.ok()) return s;
        shared.blocks = blocks.view();
    }
    std::memset(copies.data(), 0, static_cast<std::size_t>(division.lanes * bytes));

    const std::int64_t group = p.query_heads / p.key_heads;
    const Status ran = run_tasks(context, division.groups * division.lanes, threads, [&](std::int64_t task, int) -> Status {
        const std::int64_t g = task / division.lanes, lane = task % division.lanes;
        HalideBuffer sums(ConstView(static_cast<const double *>(copies.data()) + lane * count, {count}));
        const CaptureGradientArguments own{.which = static_cast<std::int32_t>(n), .captured = sums.get()};
        for (std::int64_t u = lane; u < division.units; u += division.lanes) {
            const auto [entry, head] = unit_of(record, p, g, u);
            TileTask tiles{};
            tiles.entry = entry, tiles.key_head = head / group, tiles.first_head = head % group, tiles.heads = 1;
            tiles.query_tiles = (p.queries + kernel.tile_q - 1) / kernel.tile_q;
            tiles.key_tiles = (p.keys + kernel.kv_block - 1) / kernel.kv_block;
            if (Status s = run_tiles(context, shared, kernel, tiles, own); !s.ok()) return s;
        }
        return {};
    });
    if (!ran.ok()) return ran;
    const Choice &sum = gradient.dtype == DType::f64 ? choice.user_sum_of_f64 : choice.user_sum;
    return sum_copies(context, *sum.variant, static_cast<const double *>(copies.data()), count, division.lanes, gradient);
}

}  // namespace

Status choose_user_captures(const BackwardCall &call, BackwardChoice &choice) {
    const SdpaCall &c = call.forward;
    const SdpaProblem &p = c.sizes;
    const Kind kind = p.dropout ? Kind::training : p.scored ? Kind::scored : Kind::plain;
    static constexpr Candidate tiles[] = {{Schedule::blocked, "", ""}, {Schedule::root, "", ""}},
                               root[] = {{Schedule::root, "", ""}};
    for (const View &gradient : call.user_captures) {
        if (!gradient.given()) continue;
        if (!choice.user_captures.variant) {
            const std::string op = std::string(c.user->attention->op) + "_captures";
            const VariantNeeds needs{op_of_user(op), p.dtype, kind, p.head_dim, p.value_dim};
            if (Status s = choose_variant(needs, tiles, {}, choice.user_captures); !s.ok()) return s;
        }
        const bool wide = gradient.dtype == DType::f64;
        const VariantNeeds sum =
            wide ? VariantNeeds{ops::capture_sum, DType::f64} : VariantNeeds{ops::capture_sum_of_f64, DType::f32};
        if (Status s = choose_variant(sum, root, {}, wide ? choice.user_sum_of_f64 : choice.user_sum); !s.ok()) return s;
    }
    return {};
}

Status run_user_captures(Context::State &context, const BackwardShared &shared, const BackwardChoice &choice, int threads) {
    const std::span<const View> gradients = shared.call.user_captures;
    for (std::size_t n = 0; n < gradients.size(); n++)
        if (gradients[n].given())
            if (Status s = run_capture(context, shared, choice, n, threads); !s.ok()) return s;
    return {};
}

}  // namespace attune
