// SPDX-License-Identifier: MIT
#include "attention/gathered_rows.h"
#include "execution/halide_call.h"
#include "execution/scratch.h"
#include <algorithm>
#include <cstring>

namespace attune {
namespace {

constexpr std::int64_t bytes_together = 64 << 20;  // of keys and values

std::int64_t row_bytes(const ConstView &rows) { return rows.extent[3] * size_of(rows.dtype); }
// Bytes of a row of numbers.
std::int64_t key_bytes(const SdpaCall &c) { return c.sizes.head_dim * size_of(c.sizes.dtype); }
std::int64_t value_bytes(const SdpaCall &c) { return c.sizes.value_dim * size_of(c.sizes.dtype); }

// Copies `count` keys of a head, of one run, from their rows on.
void copy_run(const ConstView &rows, std::int64_t head, std::int64_t row, std::int64_t count, char *to) {
    const std::int64_t bytes = row_bytes(rows), stride = rows.stride[2] * size_of(rows.dtype);
    const char *from = static_cast<const char *>(rows.data) + head * rows.stride[1] * size_of(rows.dtype) + row * stride;
    if (stride == bytes) return static_cast<void>(std::memcpy(to, from, static_cast<std::size_t>(count * bytes)));
    for (std::int64_t n = 0; n < count; n++) std::memcpy(to + n * bytes, from + n * stride, static_cast<std::size_t>(bytes));
}

// Copies a head's keys [first, end), `first` at the begin of a run, into an array of all its keys.
void copy_keys(const SdpaCall &c, const ConstView &rows, std::int64_t head, std::int64_t first, std::int64_t end, char *to) {
    if (!c.row_shift.given()) return copy_run(rows, head, first, end - first, to + first * row_bytes(rows));
    const auto *shifts = static_cast<const std::int32_t *>(c.row_shift.data);
    for (std::int64_t j = first; j < end; j += keys_of_run)
        copy_run(rows, head, j + shifts[j / keys_of_run], std::min(keys_of_run, end - j), to + j * row_bytes(rows));
}

// Copies the keys, or the values, of all heads of the call to `to`.
Status copy_rows(Context::State &context, const SdpaCall &c, const ConstView &rows, char *to) {
    constexpr std::int64_t keys_of_task = 256;
    const std::int64_t keys = c.sizes.keys, tasks_of_head = ceil_div(keys, keys_of_task);
    const auto copy = [&](std::int64_t n, int) -> Status {
        const std::int64_t head = n / tasks_of_head, begin = n % tasks_of_head * keys_of_task;
        copy_keys(c, rows, head, begin, std::min(begin + keys_of_task, keys), to + head * keys * row_bytes(rows));
        return {};
    };
    const std::int64_t bytes = c.sizes.key_heads * keys * row_bytes(rows);
    return run_tasks(context, c.sizes.key_heads * tasks_of_head, threads_for_copy(context, bytes), copy);
}

// Copies `rows`, the keys or the values of all heads of `part`, to `memory` as numbers, and points `rows` to the copy.
Status move_rows(Context::State &context, char *memory, const SdpaCall &part, ConstView &rows, RowScales &scales,
                 std::int64_t channels) {
    const SdpaProblem &p = part.sizes;
    const View dense = dense_view(memory, p.dtype, 1, p.key_heads, p.keys, channels);
    const Status s = is_quantised(rows) ? part.dequantise(context, rows, scales, part.row_shift, dense)
                                        : copy_rows(context, part, rows, memory);
    rows = dense, scales = {};
    return s;
}

// Copies the keys and values of all heads of `part` to `memory`, as numbers, and makes it read them there.
Status gather(Context::State &context, char *memory, SdpaCall &part) {
    const SdpaProblem &p = part.sizes;
    if (Status s = move_rows(context, memory, part, part.key, part.key_scales, p.head_dim); !s.ok()) return s;
    memory += p.key_heads * p.keys * key_bytes(part);
    if (Status s = move_rows(context, memory, part, part.value, part.value_scales, p.value_dim); !s.ok()) return s;
    part.row_shift = {};
    return {};
}

}  // namespace

int threads_for_copy(const Context::State &context, std::int64_t bytes) {
    constexpr std::int64_t bytes_per_thread = 1 << 18;  // that a core copies in about the time in which another core wakes
    return static_cast<int>(std::clamp<std::int64_t>(bytes / bytes_per_thread, 1, context.threads));
}

Status run_gathered(Context::State &context, const SdpaCall &c, const std::function<Status(const SdpaCall &part)> &run) {
    const std::int64_t bytes = c.sizes.keys * (key_bytes(c) + value_bytes(c)), all = c.sizes.key_heads;
    const std::int64_t together = std::clamp<std::int64_t>(bytes_together / bytes, 1, all);
    const ScratchBlock block(*context.scratch, static_cast<std::size_t>(together * bytes));
    if (!block.data()) return no_memory();
    for (std::int64_t h = 0; h < all; h += together) {
        const std::int64_t heads = std::min(together, all - h);
        SdpaCall part = slice_key_heads(c, h, h + heads);
        if (Status s = gather(context, static_cast<char *>(block.data()), part); !s.ok()) return s;
        if (Status s = run(part); !s.ok()) return s;
    }
    return {};
}

Status gather_keys(Context::State &context, char *memory, SdpaCall &call) {
    if (Status s = move_rows(context, memory, call, call.key, call.key_scales, call.sizes.head_dim); !s.ok()) return s;
    call.row_shift = {};
    return {};
}

}  // namespace attune
