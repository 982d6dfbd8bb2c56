// SPDX-License-Identifier: MIT
#include "context_parallel/chunk_gradients.h"
#include <algorithm>

namespace attune {

Status GradientSum::begin(Context::State &context) {
    context_ = &context;
    if (!wanted()) return {};
    const std::size_t chunks = geometry_.chunks_of(rank_).size();
    begun_.assign(chunks, 0);
    const std::int64_t *n = tensor_.extent, rows = std::min(chunk_, n[2]);
    elements_ = n[0] * n[1] * rows * n[3];
    if (elements_ * (static_cast<std::int64_t>(chunks) + 1) > most_extent)
        return unsupported("gradients", "a rank sums more than 2^31 - 1 elements: use more ranks");
    const std::int64_t slots = static_cast<std::int64_t>(chunks) + 1,
                       wide = ceil_div(slots * elements_ * size_of(sum_type(tensor_.dtype)), 128) * 128,
                       narrow = is_widened(tensor_.dtype) ? elements_ * size_of(tensor_.dtype) : 0;
    memory_.emplace(*context.scratch, static_cast<std::size_t>(wide + narrow));
    if (!memory_->data() && wide + narrow > 0) return no_memory();
    narrow_ = dense_view(static_cast<char *>(memory_->data()) + wide, tensor_.dtype, n[0], n[1], rows, n[3]);
    return {};
}

// The accumulator of the n-th chunk; behind those of all chunks, a part.
View GradientSum::slot(std::size_t n, std::int64_t rows) const {
    const DType type = sum_type(tensor_.dtype);
    char *memory = static_cast<char *>(memory_->data()) + static_cast<std::int64_t>(n) * elements_ * size_of(type);
    return dense_view(memory, type, tensor_.extent[0], tensor_.extent[1], rows, tensor_.extent[3]);
}

View GradientSum::part(std::size_t n, bool written_in_whole) {
    if (!wanted()) return {};
    const std::int64_t rows = geometry_.count(geometry_.chunks_of(rank_)[n]);
    View part = slot(begun_[n] ? begun_.size() : n, rows);
    if (is_widened(tensor_.dtype))
        part = dense_view(narrow_.data, tensor_.dtype, tensor_.extent[0], tensor_.extent[1], rows, tensor_.extent[3]);
    if (!written_in_whole) fill_zeros(part);
    return part;
}

Status GradientSum::add(std::size_t n) {
    if (!wanted()) return {};
    const std::int64_t rows = geometry_.count(geometry_.chunks_of(rank_)[n]);
    const View sum = slot(n, rows), wide = slot(begun_[n] ? begun_.size() : n, rows);
    if (is_widened(tensor_.dtype)) {
        const ConstView part =
            dense_view(narrow_.data, tensor_.dtype, tensor_.extent[0], tensor_.extent[1], rows, tensor_.extent[3]);
        if (Status s = convert(*context_, part, wide); !s.ok()) return s;
    }
    if (begun_[n]) {
        const std::int64_t distance = static_cast<std::int64_t>(begun_.size() - n) * elements_;
        if (Status s = sum_parts(*context_, sum.data, sum.dtype, 2, distance, elements_of(sum), sum.data); !s.ok()) return s;
    }
    begun_[n] = true;
    return {};
}

Status GradientSum::end() {
    if (!wanted()) return {};
    for (std::size_t n = 0; n < begun_.size(); n++) {
        const std::int64_t chunk = geometry_.chunks_of(rank_)[n], rows = geometry_.count(chunk);
        const View to = rows_of(gradient_, geometry_.row(chunk), rows), sum = slot(n, rows);
        if (!begun_[n])
            fill_zeros(to);
        else if (!is_widened(tensor_.dtype))
            copy_rows(sum, to);
        else if (Status s = convert(*context_, sum, to); !s.ok())
            return s;
    }
    return {};
}

Status SlopeSum::begin(Context::State &context) {
    context_ = &context;
    if (!wanted()) return {};
    const std::int64_t all = (static_cast<std::int64_t>(chunks_) + 1) * elements();
    memory_.emplace(*context.scratch, static_cast<std::size_t>(all) * sizeof(float));
    if (!memory_->data() && all > 0) return no_memory();
    std::fill_n(slot(0), all, 0.0f);
    return {};
}

View SlopeSum::part() const {
    return gradient_.rank == 1 ? View(slot(chunks_), {gradient_.extent[0]})
                               : View(slot(chunks_), {gradient_.extent[0], gradient_.extent[1]});
}

Status SlopeSum::add(std::size_t n) {
    const std::int64_t distance = static_cast<std::int64_t>(chunks_ - n) * elements();
    return elements() > 0 ? sum_parts(*context_, slot(n), DType::f32, 2, distance, elements(), slot(n)) : Status();
}

Status pair_gradients(Context &context, const Geometry &geometry, const SdpaOptions &options, std::int64_t of_queries,
                      const QueryRows &q, std::int64_t of_keys, const KeyRows &k, const PairGradients &g) {
    const std::int64_t first = geometry.begin(of_queries), first_key = geometry.begin(of_keys);
    for (const ChunkPair &p : geometry.pairs(of_queries, of_keys)) {
        const PairOptions of_pair(geometry.plan(), options, q.mask, q.bias, first, q.query.extent[1], p);
        const auto by_query = [&](const auto &v) { return v.given() ? rows_of(v, p.query - first, p.queries) : v; };
        const auto by_key = [&](const auto &v) { return v.given() ? rows_of(v, p.key - first_key, p.keys) : v; };
        SdpaForward forward{by_query(q.out), without_column(by_query(q.lse)), by_query(q.grad_out)};
        if (q.grad_lse.given()) forward.grad_lse = without_column(by_query(q.grad_lse));
        SdpaGradients gradients{by_query(g.query), by_key(g.key), by_key(g.value)};
        if (g.bias.given()) gradients.bias = part_of(by_query(g.bias), 3, p.key, p.keys);
        if (g.slopes) gradients.alibi_slopes = g.slopes->part();
        if (Status s = scaled_dot_product_attention_backward(context, by_query(q.query), by_key(k.key), by_key(k.value),
                                                             forward, gradients, of_pair.options);
            !s.ok())
            return s;
        if (!g.slopes) continue;
        if (Status s = g.slopes->add(g.own_queries); !s.ok()) return s;
    }
    return {};
}

}  // namespace attune
