// SPDX-License-Identifier: MIT
#include "attention/folded_groups.h"
#include "attention/gathered_rows.h"
#include "execution/halide_call.h"
#include "execution/scratch.h"
#include <algorithm>
#include <cstring>

namespace attune {
namespace {

constexpr std::int64_t folded_bytes = 1 << 20;  // of queries and results

std::int64_t group_of(const SdpaProblem &p) { return p.query_heads / p.key_heads; }
std::int64_t rounded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Scratch of some batch entries: folded queries, results, lse and lengths.
struct Bytes {
    std::int64_t query, out, lse, lengths;

    explicit Bytes(const SdpaProblem &p)
        : query(rounded(rows(p) * p.head_dim * size_of(p.dtype))), out(rounded(rows(p) * p.value_dim * size_of(p.dtype))),
          lse(rounded(rows(p) * size_of(sum_type(p.dtype)))),
          lengths(rounded(p.batch * p.queries * group_of(p) * static_cast<std::int64_t>(sizeof(std::int32_t)))) {}
    std::int64_t all() const { return query + out + lse + lengths; }
    static std::int64_t rows(const SdpaProblem &p) { return p.batch * p.query_heads * p.queries; }
};

std::int64_t entries_together(SdpaProblem p) {
    const std::int64_t batch = p.batch;
    p.batch = 1;
    return std::clamp<std::int64_t>(folded_bytes / Bytes(p).all(), 1, batch);
}

char *row_of(const ConstView &v, std::int64_t b, std::int64_t h, std::int64_t i) {
    return static_cast<char *>(const_cast<void *>(v.data)) +
           (b * v.stride[0] + h * v.stride[1] + i * v.stride[2]) * size_of(v.dtype);
}

enum class Direction { fold, unfold };
// Copies rows between a tensor (B, H, Sq, ...) and the same with folded groups.
Status move_rows(Context::State &context, const ConstView &heads, const ConstView &folded, Direction direction) {
    const std::int64_t key_heads = folded.extent[1], group = heads.extent[1] / key_heads,
                       bytes = (heads.rank == 4 ? heads.extent[3] : 1) * size_of(heads.dtype);
    const auto copy = [&](std::int64_t n, int) -> Status {
        const std::int64_t b = n / key_heads, h = n % key_heads;
        for (std::int64_t i = 0; i < heads.extent[2]; i++)
            for (std::int64_t g = 0; g < group; g++) {
                char *one = row_of(heads, b, h * group + g, i), *other = row_of(folded, b, h, i * group + g);
                if (direction == Direction::fold) std::swap(one, other);
                std::memcpy(one, other, static_cast<std::size_t>(bytes));
            }
        return {};
    };
    const std::int64_t all = heads.extent[0] * heads.extent[1] * heads.extent[2] * bytes;
    return run_tasks(context, heads.extent[0] * key_heads, threads_for_copy(context, all), copy);
}

// The lengths of folded rows, with what the band leaves them; they may lie in `memory`.
ConstView folded_lengths(const SdpaCall &c, std::int32_t *memory) {
    const std::int64_t batch = c.sizes.batch, queries = c.sizes.queries, group = group_of(c.sizes), rows = queries * group,
                       keys = c.sizes.keys;
    const ConstView &given = c.lengths;
    if (band_is_open(c) && !given.given()) return {};
    if (band_is_open(c) && given.stride[1] == 0) return typed_view(given.data, DType::i32, {batch, rows}, {given.stride[0], 0});
    const auto *data = static_cast<const std::int32_t *>(given.data);
    for (std::int64_t b = 0; b < batch; b++)
        for (std::int64_t i = 0; i < queries; i++) {
            std::int64_t length = given.given() ? data[b * given.stride[0] + i * given.stride[1]] : keys;
            length = std::clamp<std::int64_t>(i + of_entry(c.band_end, b), 0, length);
            std::fill_n(memory + b * rows + i * group, group, static_cast<std::int32_t>(length));
        }
    return ConstView(memory, {batch, rows});
}

// The call with folded groups, whose queries, results, lse and lengths lie in `memory`.
SdpaCall folded_call(const SdpaCall &c, char *memory) {
    const Bytes bytes(c.sizes);
    SdpaCall f = c;
    f.sizes = with_folded_groups(c.sizes);
    const SdpaProblem &p = f.sizes;
    f.query = dense_view(memory, p.dtype, p.batch, p.key_heads, p.queries, p.head_dim);
    f.out = dense_view(memory += bytes.query, p.dtype, p.batch, p.key_heads, p.queries, p.value_dim);
    memory += bytes.out;
    if (c.lse.given()) {
        f.lse = View(reinterpret_cast<float *>(memory), {p.batch, p.key_heads, p.queries});
        f.lse.dtype = c.lse.dtype;
    }
    f.lengths = folded_lengths(c, reinterpret_cast<std::int32_t *>(memory + bytes.lse));
    f.band_begin = {-static_cast<std::int32_t>(p.queries)}, f.band_end = {static_cast<std::int32_t>(p.keys)}, f.offset = {0};
    return f;
}

}  // namespace

bool runs_folded(const SdpaCall &c, const VariantRecord &v) {
    return folds_groups(c.sizes, v) && *std::max_element(c.band_begin.begin(), c.band_begin.end()) <= 1 - c.sizes.queries;
}

Status run_folded(Context::State &context, const SdpaCall &call, const std::function<Status(const SdpaCall &folded)> &run) {
    const std::int64_t batch = call.sizes.batch, together = entries_together(call.sizes);
    const ScratchBlock block(*context.scratch, bytes_of_folded_groups(call.sizes));
    if (!block.data()) return no_memory();
    for (std::int64_t b = 0; b < batch; b += together) {
        const SdpaCall part = slice(call, b, std::min(b + together, batch));
        const SdpaCall folded = folded_call(part, static_cast<char *>(block.data()));
        if (Status s = move_rows(context, part.query, folded.query, Direction::fold); !s.ok()) return s;
        if (Status s = run(folded); !s.ok()) return s;
        if (Status s = move_rows(context, part.out, folded.out, Direction::unfold); !s.ok()) return s;
        if (!part.lse.given()) continue;
        if (Status s = move_rows(context, part.lse, folded.lse, Direction::unfold); !s.ok()) return s;
    }
    return {};
}

std::size_t bytes_of_folded_groups(const SdpaProblem &p) {
    SdpaProblem some = p;
    some.batch = entries_together(p);
    return static_cast<std::size_t>(Bytes(some).all());
}

}  // namespace attune
