// SPDX-License-Identifier: MIT
#include "context_parallel/chunk_gradients.h"
#include "user_attention/user_gradients.h"
#include <algorithm>
#include <cstring>

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
    if (!memory_->data()) return no_memory();
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

Status TableSum::begin(Context::State &context) {
    context_ = &context;
    if (!wanted()) return {};
    const std::int64_t slots = static_cast<std::int64_t>(chunks_) + 1;
    if (elements() > most_extent / slots)
        return unsupported("gradients", "a rank sums more than 2^31 - 1 elements of a table: use larger chunks or more ranks");
    const auto bytes = static_cast<std::size_t>(slots * elements() * size_of(gradient_.dtype));
    memory_.emplace(*context.scratch, bytes);
    if (!memory_->data()) return no_memory();
    std::memset(memory_->data(), 0, bytes);
    return {};
}

View TableSum::part() const {
    View part = gradient_;
    part.data = slot(chunks_), part.capacity = -1;
    std::int64_t stride = 1;
    for (int n = part.rank - 1; n >= 0; n--) part.stride[n] = stride, stride *= part.extent[n];
    return part;
}

Status TableSum::add(std::size_t n) {
    const std::int64_t distance = static_cast<std::int64_t>(chunks_ - n) * elements();
    return elements() > 0 ? sum_parts(*context_, slot(n), gradient_.dtype, 2, distance, elements(), slot(n)) : Status();
}

namespace {

// The gradients of one call, of which those of the tables are parts of their sums.
Status run_gradients(Context &context, const RankCall &call, const PairOptions &of_pair, const QueryRows &q, const KeyRows &k,
                     const SdpaForward &forward, SdpaGradients &gradients, const PairGradients &g) {
    if (g.slopes) gradients.alibi_slopes = g.slopes->part();
    if (!call.user)
        return scaled_dot_product_attention_backward(context, q.query, k.key, k.value, forward, gradients, of_pair.options);
    std::vector<View> captures(call.user->captures.size());
    for (std::size_t n = 0; g.captures && n < captures.size(); n++)
        if ((*g.captures)[n].wanted()) captures[n] = (*g.captures)[n].part();
    const UserCall user = call.user->with(of_pair.origin);
    return run_user_gradients(context, state_of(context),
                              {user, q.query, k.key, k.value, forward, gradients, captures, of_pair.options});
}

Status add_tables(const PairGradients &g) {
    if (g.slopes)
        if (Status s = g.slopes->add(g.own_queries); !s.ok()) return s;
    if (g.captures)
        for (TableSum &sum : *g.captures)
            if (sum.wanted())
                if (Status s = sum.add(g.own_queries); !s.ok()) return s;
    return {};
}

}  // namespace

Status pair_gradients(Context &context, const Geometry &geometry, const RankCall &call, std::int64_t of_queries,
                      const QueryRows &q, std::int64_t of_keys, const KeyRows &k, const PairGradients &g) {
    const std::int64_t first = geometry.begin(of_queries), first_key = geometry.begin(of_keys);
    for (const ChunkPair &p : geometry.pairs(of_queries, of_keys)) {
        const PairOptions of_pair(call, q.mask, q.bias, first, p);
        const auto by_query = [&](const auto &v) { return v.given() ? rows_of(v, p.query - first, p.queries) : v; };
        const auto by_key = [&](const auto &v) { return v.given() ? rows_of(v, p.key - first_key, p.keys) : v; };
        SdpaForward forward{by_query(q.out), without_column(by_query(q.lse)), by_query(q.grad_out)};
        if (q.grad_lse.given()) forward.grad_lse = without_column(by_query(q.grad_lse));
        SdpaGradients gradients{by_query(g.query), by_key(g.key), by_key(g.value)};
        if (g.bias.given()) gradients.bias = part_of(by_query(g.bias), 3, p.key, p.keys);
        QueryRows queries = q;
        queries.query = by_query(q.query);
        if (Status s = run_gradients(context, call, of_pair, queries, {by_key(k.key), by_key(k.value)}, forward, gradients, g);
            !s.ok())
            return s;
        if (Status s = add_tables(g); !s.ok()) return s;
    }
    return {};
}

}  // namespace attune
