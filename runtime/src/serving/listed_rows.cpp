// SPDX-License-Identifier: MIT
#include "serving/listed_rows.h"
#include "attention/gathered_rows.h"
#include "execution/halide_call.h"
#include <algorithm>
#include <cstring>

namespace attune {
namespace {

constexpr std::int64_t rows_of_task = 64;

// (1, H, rows, W) of a pool, and the same of the call, whose memory begins `first` bytes into the scratch.
struct Rows {
    const ConstView &pool;
    ConstView &listed;
    std::int64_t first = 0, bytes_of_row = 0;
};

// Copies all heads of listed rows [first, end).
void copy_rows(const Rows &r, const ConstView &list, std::int64_t first, std::int64_t end, char *to) {
    const ConstView &rows = r.pool;
    const std::int64_t size = size_of(rows.dtype), heads = rows.extent[1], keys = list.extent[0];
    for (std::int64_t j = first; j < end; j++) {
        const char *from = static_cast<const char *>(rows.data) + int_at(list, j) * rows.stride[2] * size;
        for (std::int64_t h = 0; h < heads; h++)
            std::memcpy(to + (h * keys + j) * r.bytes_of_row, from + h * rows.stride[1] * size,
                        static_cast<std::size_t>(r.bytes_of_row));
    }
}

}  // namespace

Status take_listed_rows(Context::State &context, const SdpaCall &pool, const ConstView &list, SdpaCall &call,
                        std::optional<ScratchBlock> &memory) {
    const std::int64_t keys = list.extent[0], heads = call.sizes.key_heads;
    std::array<Rows, 6> all{{{pool.key, call.key},
                             {pool.value, call.value},
                             {pool.key_scales.scale, call.key_scales.scale},
                             {pool.value_scales.scale, call.value_scales.scale},
                             {pool.key_scales.minimum, call.key_scales.minimum},
                             {pool.value_scales.minimum, call.value_scales.minimum}}};
    std::int64_t bytes = 0;
    for (Rows &r : all) {
        if (!r.pool.given()) continue;
        r.first = bytes, r.bytes_of_row = r.pool.extent[3] * size_of(r.pool.dtype);
        bytes += ceil_div(heads * keys * r.bytes_of_row, 64) * 64;
    }
    memory.emplace(*context.scratch, static_cast<std::size_t>(bytes));
    if (!memory->data()) return no_memory();
    auto *to = static_cast<char *>(memory->data());
    const auto copy = [&](std::int64_t n, int) -> Status {
        for (const Rows &r : all)
            if (r.pool.given()) copy_rows(r, list, n * rows_of_task, std::min((n + 1) * rows_of_task, keys), to + r.first);
        return {};
    };
    if (Status s = run_tasks(context, ceil_div(keys, rows_of_task), threads_for_copy(context, bytes), copy); !s.ok()) return s;
    for (const Rows &r : all)
        if (r.pool.given()) r.listed = dense_view(to + r.first, r.pool.dtype, 1, heads, keys, r.pool.extent[3]);
    if (!is_quantised(call)) call.row_shift = {};
    return {};
}

}  // namespace attune
