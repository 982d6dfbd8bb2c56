// SPDX-License-Identifier: MIT
#include "attention/gathered_rows.h"
#include "execution/halide_call.h"
#include "execution/scratch.h"
#include <algorithm>
#include <cstring>

namespace attune {
namespace {

constexpr std::int64_t bytes_together = 64 << 20;   // of keys and values
constexpr std::int64_t bytes_per_thread = 1 << 18;  // that a core copies in about the time in which another core wakes

std::int64_t row_bytes(const ConstView &rows) { return rows.extent[3] * size_of(rows.dtype); }

// Copies `count` keys of a head, of one run, from their rows on.
void copy_run(const ConstView &rows, std::int64_t head, std::int64_t row, std::int64_t count, char *to) {
    const std::int64_t bytes = row_bytes(rows), stride = rows.stride[2] * size_of(rows.dtype);
    const char *from = static_cast<const char *>(rows.data) + head * rows.stride[1] * size_of(rows.dtype) + row * stride;
    if (stride == bytes) return static_cast<void>(std::memcpy(to, from, static_cast<std::size_t>(count * bytes)));
    for (std::int64_t n = 0; n < count; n++) std::memcpy(to + n * bytes, from + n * stride, static_cast<std::size_t>(bytes));
}

// Copies a head's keys [first, end), `first` at the begin of a run, into an array of all its keys.
void copy_keys(const SdpaCall &c, const ConstView &rows, std::int64_t head, std::int64_t first, std::int64_t end, char *to) {
    const auto *shifts = static_cast<const std::int32_t *>(c.row_shift.data);
    for (std::int64_t j = first; j < end; j += keys_of_run)
        copy_run(rows, head, j + shifts[j / keys_of_run], std::min(keys_of_run, end - j), to + j * row_bytes(rows));
}

// Copies the keys and values of heads [first, first + heads) to `memory`, and makes `part` read them there.
Status gather(Context::State &context, const SdpaCall &c, std::int64_t first, std::int64_t heads, char *memory,
              SdpaCall &part) {
    constexpr std::int64_t keys_of_task = 256;
    const std::int64_t keys = c.sizes.keys, tasks_of_head = ceil_div(keys, keys_of_task);
    char *values = memory + heads * keys * row_bytes(c.key);
    const auto copy = [&](std::int64_t n, int) -> Status {
        const std::int64_t head = n / tasks_of_head, begin = n % tasks_of_head * keys_of_task;
        const std::int64_t end = std::min(begin + keys_of_task, keys);
        copy_keys(c, c.key, first + head, begin, end, memory + head * keys * row_bytes(c.key));
        copy_keys(c, c.value, first + head, begin, end, values + head * keys * row_bytes(c.value));
        return {};
    };
    const std::int64_t bytes = heads * keys * (row_bytes(c.key) + row_bytes(c.value));
    const int threads = static_cast<int>(std::clamp<std::int64_t>(bytes / bytes_per_thread, 1, context.threads));
    if (Status s = run_tasks(context, heads * tasks_of_head, threads, copy); !s.ok()) return s;
    const auto dense = [&](const char *data, const ConstView &rows) {
        const std::int64_t channels = rows.extent[3];
        return typed_view(data, rows.dtype, {1, heads, keys, channels},
                          {heads * keys * channels, keys * channels, channels, 1});
    };
    part.key = dense(memory, c.key), part.value = dense(values, c.value);
    part.row_shift = {};
    return {};
}

}  // namespace

Status run_gathered(Context::State &context, const SdpaCall &c, const std::function<Status(const SdpaCall &part)> &run) {
    const std::int64_t bytes = c.sizes.keys * (row_bytes(c.key) + row_bytes(c.value)), all = c.sizes.key_heads;
    const std::int64_t together = std::clamp<std::int64_t>(bytes_together / bytes, 1, all);
    const ScratchBlock block(*context.scratch, static_cast<std::size_t>(together * bytes));
    if (!block.data()) return no_memory();
    for (std::int64_t h = 0; h < all; h += together) {
        const std::int64_t heads = std::min(together, all - h);
        SdpaCall part = slice_key_heads(c, h, h + heads);
        if (Status s = gather(context, c, h, heads, static_cast<char *>(block.data()), part); !s.ok()) return s;
        if (Status s = run(part); !s.ok()) return s;
    }
    return {};
}

}  // namespace attune
