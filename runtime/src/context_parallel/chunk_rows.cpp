// SPDX-License-Identifier: MIT
#include "context_parallel/chunk_rows.h"
#include "execution/halide_call.h"
#include "kernel_arguments.h"
#include "serving/choose_rows.h"
#include "tensors/checks.h"
#include <cstring>

namespace attune {
namespace {

std::size_t bytes_of(const ConstView &v, std::int64_t rows) {
    return message_bytes(v.extent[0], v.extent[1], rows, v.extent[3], v.dtype);
}

// Elements that a core converts in about the time in which another core wakes.
constexpr std::int64_t converted_per_thread = 1 << 15;

Status choose_sum(Context::State &, DType type, Choice &choice) {
    static constexpr Candidate root[] = {{Schedule::root, "", "always"}};
    return choose_variant({.op = ops::capture_sum, .dtype = type}, root, {}, choice);
}

}  // namespace

std::size_t ChunkMessage::bytes(std::int64_t chunk) const {
    std::size_t all = 0;
    for (const ConstView &v : tensors_) all += bytes_of(v, geometry_.count(chunk));
    return all;
}

std::vector<View> ChunkMessage::views(std::int64_t chunk, char *memory) const {
    std::vector<View> all;
    const std::int64_t rows = geometry_.count(chunk);
    for (const ConstView &v : tensors_) {
        all.push_back(dense_view(memory, v.dtype, v.extent[0], v.extent[1], rows, v.extent[3]));
        memory += bytes_of(v, rows);
    }
    return all;
}

void ChunkMessage::pack(std::int64_t chunk, char *memory) const {
    const std::vector<ConstView> own = local(chunk);
    const std::vector<View> to = views(chunk, memory);
    for (std::size_t n = 0; n < own.size(); n++) copy_rows(own[n], to[n]);
}

std::vector<ConstView> ChunkMessage::unpack(std::int64_t chunk, const char *memory) const {
    const std::vector<View> all = views(chunk, const_cast<char *>(memory));
    return {all.begin(), all.end()};
}

std::vector<ConstView> ChunkMessage::local(std::int64_t chunk) const {
    std::vector<ConstView> all;
    for (const ConstView &v : tensors_) all.push_back(rows_of(v, geometry_.row(chunk), geometry_.count(chunk)));
    return all;
}

void copy_rows(const ConstView &from, const View &to) {
    const std::int64_t size = size_of(from.dtype), *n = from.extent;
    const bool rows = (n[3] == 1 || (from.stride[3] == 1 && to.stride[3] == 1));
    for (std::int64_t b = 0; b < n[0]; b++)
        for (std::int64_t h = 0; h < n[1]; h++)
            for (std::int64_t i = 0; i < n[2]; i++) {
                const char *f = static_cast<const char *>(from.data) +
                                (b * from.stride[0] + h * from.stride[1] + i * from.stride[2]) * size;
                char *t = static_cast<char *>(to.data) + (b * to.stride[0] + h * to.stride[1] + i * to.stride[2]) * size;
                if (rows) {
                    std::memcpy(t, f, static_cast<std::size_t>(n[3] * size));
                    continue;
                }
                for (std::int64_t d = 0; d < n[3]; d++)
                    std::memcpy(t + d * to.stride[3] * size, f + d * from.stride[3] * size, static_cast<std::size_t>(size));
            }
}

void fill_lse(const View &lse, const ConstView &sinks) {
    const std::int64_t size = size_of(lse.dtype), *n = lse.extent;
    for (std::int64_t h = 0; h < n[1]; h++) {
        float number = -std::numeric_limits<float>::infinity();
        if (sinks.given()) number = static_cast<const float *>(sinks.data)[h * sinks.stride[0]];
        const double wide = number;
        const void *from = lse.dtype == DType::f64 ? static_cast<const void *>(&wide) : &number;
        for (std::int64_t b = 0; b < n[0]; b++)
            for (std::int64_t i = 0; i < n[2]; i++)
                std::memcpy(static_cast<char *>(lse.data) + (b * lse.stride[0] + h * lse.stride[1] + i * lse.stride[2]) * size,
                            from, static_cast<std::size_t>(size));
    }
}

Status convert(Context::State &context, const ConstView &from, const View &to) {
    static constexpr float no_factor = 1;
    const bool widens = is_widened(from.dtype);
    Choice choice;
    if (Status s =
            choose_rows(context, widens ? ops::queries_to_kernel : ops::out_of_kernel, widens ? from.dtype : to.dtype, choice);
        !s.ok())
        return s;
    HalideBuffer x(from), out(to), factor(ConstView(&no_factor, {from.extent[0], from.extent[3]}, {0, 0}));
    const ConvertRowsArguments arguments{.x = x.get(), .factor = factor.get(), .by_nibbles = false, .out = out.get()};
    const std::int64_t worth = elements_of(from) / converted_per_thread;
    return call_kernel(context, choice.variant->kernel, arguments,
                       static_cast<int>(std::clamp<std::int64_t>(worth, 1, context.threads)));
}

Status sum_parts(Context::State &context, const void *parts, DType type, std::int64_t count, std::int64_t distance,
                 std::int64_t elements, void *to) {
    Choice choice;
    if (Status s = choose_sum(context, type, choice); !s.ok()) return s;
    if (distance * (count - 1) + elements > most_extent)
        return unsupported("gradients", "sums of more than 2^31 - 1 elements: use more ranks");
    ConstView from(static_cast<const float *>(parts), {elements, count}, {1, distance});
    View sum(static_cast<float *>(to), {elements, 1}, {1, 1});
    from.dtype = sum.dtype = type;
    HalideBuffer sums(from), out(sum);
    const CaptureSumArguments arguments{.sums = sums.get(), .sums_keys = true, .grad_capture = out.get()};
    return call_kernel(context, choice.variant->kernel, arguments, 1);
}

Status check_chunk_kernels(Context::State &context, DType type, bool sums) {
    Choice choice;
    if (is_widened(type))
        for (const Op *op : {&ops::queries_to_kernel, &ops::out_of_kernel})
            if (Status s = choose_rows(context, *op, type, choice); !s.ok()) return s;
    return sums ? choose_sum(context, sum_type(type), choice) : Status();
}

}  // namespace attune
