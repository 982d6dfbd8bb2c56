// SPDX-License-Identifier: MIT
// Gradients of bias and slopes, the buffers that the score reads: each element is a sum over all pairs that read it, in a fixed
// order.
#include "attention_backward/sdpa_backward_call.h"
#include "execution/halide_call.h"
#include "kernel_arguments.h"
#include <algorithm>
#include <cstring>

namespace attune {
namespace {

// A gradient (Eb, Eh, Ei, Ej), extents of 1 or full, and the step of the score that reads its buffer.
struct Capture {
    View gradient;
    std::int32_t step;
    const VariantRecord *sum;
};

// A part of one (entry, head) of a gradient: tiles of queries where the gradient has an element per query, else of keys.
struct CaptureTask {
    std::int64_t entry, head;  // of the gradient
    std::int64_t first_tile, tiles;
};

struct Captures {
    const BackwardShared &shared;
    const VariantRecord &kernel, &sum;
    Capture capture;
    bool keeps_queries, sums_keys;
    // Whether the kernel adds to the gradient itself, which then has an element for each sum, in the type of sums.
    bool in_place;

    Captures(const BackwardShared &s, const BackwardChoice &choice, const Capture &c)
        : shared(s), kernel(*choice.captures.variant), sum(*c.sum), capture(c) {
        const SdpaProblem &p = s.call.forward.sizes;
        keeps_queries = c.gradient.extent[2] == p.queries;
        sums_keys = c.gradient.extent[3] != p.keys;
        in_place = !sums_keys && c.gradient.dtype == sum_type(p.dtype);
    }

    std::vector<CaptureTask> tasks(int threads) const;
    Status run(Context::State &, const CaptureTask &) const;

private:
    View part_for(const CaptureTask &) const;
    Status add_pairs(Context::State &, const CaptureTask &, const View &sums) const;
    Status add_tiles(Context::State &, const CaptureTask &, TileTask of_head, const TileRange &own, const View &sums) const;
};

std::vector<CaptureTask> Captures::tasks(int threads) const {
    const SdpaProblem &p = shared.call.forward.sizes;
    const std::int64_t query_tiles = ceil_div(p.queries, kernel.tile_q);
    const std::int64_t key_tiles = ceil_div(p.keys, kernel.kv_block);
    const std::int64_t tiles = keeps_queries ? query_tiles : key_tiles;
    // Sums that do not fit the gradient are held for one tile of queries at a time.
    std::int64_t size = in_place ? std::max<std::int64_t>(1, tiles / (4 * threads)) : 1;
    if (!keeps_queries && sums_keys) size = tiles;
    std::vector<CaptureTask> list;
    for (std::int64_t b = 0; b < capture.gradient.extent[0]; b++)
        for (std::int64_t h = 0; h < capture.gradient.extent[1]; h++)
            for (std::int64_t first = 0; first < tiles; first += size)
                list.push_back({b, h, first, std::min(size, tiles - first)});
    return list;
}

// A task's part of the gradient, of rank 4: (1, 1, Ei, Ej).
View Captures::part_for(const CaptureTask &t) const {
    const SdpaProblem &p = shared.call.forward.sizes;
    const View part = part_of(part_of(capture.gradient, 0, t.entry, 1), 1, t.head, 1);
    const std::int64_t side = keeps_queries ? kernel.tile_q : kernel.kv_block, first = t.first_tile * side;
    if (keeps_queries) return part_of(part, 2, first, std::min(t.tiles * side, p.queries - first));
    return sums_keys ? part : part_of(part, 3, first, std::min(t.tiles * side, p.keys - first));
}

Status Captures::run(Context::State &context, const CaptureTask &t) const {
    const SdpaProblem &p = shared.call.forward.sizes;
    const std::int64_t first_key = keeps_queries ? 0 : t.first_tile * kernel.kv_block;
    View part = part_for(t);
    const std::int64_t rows = keeps_queries ? part.extent[2] : 1,
                       columns = keeps_queries ? p.keys : std::min(t.tiles * kernel.kv_block, p.keys - first_key);
    const std::int64_t bytes = rows * columns * size_of(sum_type(p.dtype));
    ScratchBlock block(*context.scratch, static_cast<std::size_t>(in_place ? 0 : bytes));
    if (!in_place && !block.data()) return no_memory();
    if (in_place) fill_zeros(part);
    for (int n = 0; n < 2; n++) part.extent[n] = part.extent[n + 2], part.stride[n] = part.stride[n + 2];
    part.rank = 2;
    if (in_place) return add_pairs(context, t, part);
    View sums(static_cast<float *>(block.data()), {rows, columns});
    sums.dtype = sum_type(p.dtype);
    std::memset(block.data(), 0, static_cast<std::size_t>(bytes));
    if (Status s = add_pairs(context, t, sums); !s.ok()) return s;
    HalideBuffer from(sums), to(part);
    const CaptureSumArguments arguments{.sums = from.get(), .sums_keys = sums_keys, .grad_capture = to.get()};
    return call_kernel(context, sum.kernel, arguments, 1);
}

// Adds to the sums of a task, (queries or 1, keys), the terms of all pairs that read an element of its part.
Status Captures::add_pairs(Context::State &context, const CaptureTask &t, const View &sums) const {
    const SdpaProblem &p = shared.call.forward.sizes;
    const std::int64_t group = p.query_heads / p.key_heads;
    // For some keys at a time, the kernel visits only the queries that may see them.
    const std::int64_t at_a_time = keeps_queries ? t.tiles : std::min(t.tiles, tiles_of_a_part(shared.call.forward, kernel));
    const std::int64_t entries = capture.gradient.extent[0] == 1 ? p.batch : 1;
    const std::int64_t heads = capture.gradient.extent[1] == 1 ? p.query_heads : 1;
    for (std::int64_t b = 0; b < entries; b++)
        for (std::int64_t h = 0; h < heads; h++) {
            const std::int64_t head = t.head + h;
            TileTask of_head{};
            of_head.entry = t.entry + b, of_head.key_head = head / group, of_head.first_head = head % group, of_head.heads = 1;
            for (std::int64_t n = 0; n < t.tiles; n += at_a_time)
                if (Status s = add_tiles(context, t, of_head, {t.first_tile + n, std::min(at_a_time, t.tiles - n)}, sums);
                    !s.ok())
                    return s;
        }
    return {};
}

// Adds the terms of one head in `own` tiles: of queries where the gradient has an element per query, else of keys.
Status Captures::add_tiles(Context::State &context, const CaptureTask &t, TileTask of_head, const TileRange &own,
                           const View &sums) const {
    const SdpaCall &c = shared.call.forward;
    const TileRange queries = keeps_queries ? own : queries_that_see(c, kernel, of_head.entry, own);
    const TileRange keys = keeps_queries ? TileRange{0, ceil_div(c.sizes.keys, kernel.kv_block)} : own;
    of_head.first_query_tile = queries.first, of_head.query_tiles = queries.count;
    of_head.first_key_tile = keys.first, of_head.key_tiles = keys.count;
    View some = sums;
    if (!keeps_queries) {
        const std::int64_t column = (own.first - t.first_tile) * kernel.kv_block;
        some = part_of(sums, 1, column, std::min(own.count * kernel.kv_block, sums.extent[1] - column));
    }
    HalideBuffer before(some), after(some);
    const TableGradientArguments own_arguments{.before = before.get(),
                                               .step = capture.step,
                                               .keeps_queries = std::int32_t{keeps_queries},
                                               .grad_capture = after.get()};
    return run_tiles(context, shared, kernel, of_head, own_arguments);
}

}  // namespace

Status run_captures(Context::State &context, const BackwardShared &shared, const BackwardChoice &choice, int threads) {
    // Numbers of steps, in the order of generators/programs/sdpa_backward_generator.cpp.
    for (const Capture &capture : {Capture{shared.call.bias, 1, choice.bias_sum.variant},
                                   Capture{shared.call.alibi_slopes, 2, choice.slope_sum.variant}}) {
        if (!capture.gradient.given() || (capture.step == 1 && choice.bias_with_tiles)) continue;
        const Captures captures(shared, choice, capture);
        const std::vector<CaptureTask> tasks = captures.tasks(threads);
        Status s = run_tasks(context, static_cast<std::int64_t>(tasks.size()), threads,
                             [&](std::int64_t n, int) { return captures.run(context, tasks[static_cast<std::size_t>(n)]); });
        if (!s.ok()) return s;
    }
    return {};
}

}  // namespace attune
