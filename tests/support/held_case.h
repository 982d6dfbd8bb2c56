// SPDX-License-Identifier: MIT
// Calls of scaled_dot_product_attention over caches: room for some keys, of which each batch entry holds some.
#pragma once
#include "tests/support/sdpa_arrays.h"

namespace attune_test {

// Elements [begin, begin + count) of dimension n of a view.
template<typename V> V part_of(V view, int n, std::int64_t begin, std::int64_t count) {
    using Byte = std::conditional_t<std::is_same_v<V, attune::View>, char, const char>;
    view.data = static_cast<Byte *>(view.data) + begin * view.stride[n] * attune::size_of(view.dtype);
    view.extent[n] = count;
    return view;
}

// Arrays with room for the.keys keys, and the number that each entry holds. Query i of an entry stands at key held - Sq + i.
template<typename T> struct HeldArrays : SdpaArrays<T> {
    std::vector<std::int32_t> held, offsets;
    bool wants_lse = true;

    HeldArrays(const SdpaCase &c, std::vector<std::int32_t> keys_held) : SdpaArrays<T>(c), held(std::move(keys_held)) {
        for (const std::int32_t n : held) offsets.push_back(n - std::int32_t(c.queries));
    }

    // All entries, in room for `room` keys. In caches: by cache_lens, else by valid_lens and offsets.
    attune::Status run_in(attune::Context &context, std::int64_t room, bool in_caches = false, std::string_view variant = {}) {
        attune::SdpaOptions o = options_of(room, variant);
        const attune::ConstView starts(offsets.data(), {this->the.batch});
        if (in_caches)
            o.cache_lens = starts;
        else
            o.offsets = starts, o.valid_lens = attune::ConstView(held.data(), {this->the.batch});
        return attune::scaled_dot_product_attention(context, this->query.view(), part_of(this->key.view(), 2, 0, room),
                                                    part_of(this->value.view(), 2, 0, room), this->out.view(), o);
    }
    // Entry b alone, over a tensor of the keys that it holds.
    attune::Status run_alone(attune::Context &context, std::int64_t b, std::string_view variant = {}) {
        const std::int64_t keys = held[std::size_t(b)];
        attune::SdpaOptions o = options_of(keys, variant);
        const auto entry = [&](auto view) { return part_of(view, 0, b, 1); };
        if (o.lse.given()) o.lse = entry(o.lse);
        if (o.weights.given()) o.weights = entry(o.weights);
        for (attune::ConstView *table : {&o.bias, &o.mask})
            if (table->rank == 4 && table->extent[0] > 1) *table = entry(*table);
        if (o.alibi_slopes.rank == 2) o.alibi_slopes = entry(o.alibi_slopes);
        o.offset = offsets[std::size_t(b)];
        return attune::scaled_dot_product_attention(context, entry(this->query.view()),
                                                    part_of(entry(this->key.view()), 2, 0, keys),
                                                    part_of(entry(this->value.view()), 2, 0, keys), entry(this->out.view()), o);
    }

private:
    attune::SdpaOptions options_of(std::int64_t room, std::string_view variant) {
        attune::SdpaOptions o = this->options(variant);
        if (!wants_lse) o.lse = {};
        for (attune::ConstView *table : {&o.bias, &o.mask})
            if (table->given() && table->extent[table->rank - 1] > 1) table->extent[table->rank - 1] = room;
        if (o.weights.given()) o.weights.extent[o.weights.rank - 1] = room;
        return o;
    }
};

// Whether entry b has the same bits in both, its weights over the keys that it holds.
template<typename T> bool same_entry(HeldArrays<T> &a, HeldArrays<T> &other, std::int64_t b) {
    const SdpaCase &c = a.the;
    bool same = true;
    for (std::int64_t h = 0; h < c.query_heads; h++)
        for (std::int64_t i = 0; i < c.queries; i++) {
            for (std::int64_t d = 0; d < c.value_dim; d++) same = same && same_bits(a.out(b, h, i, d), other.out(b, h, i, d));
            if (a.wants_lse && other.wants_lse) same = same && same_bits(a.lse(b, h, i), other.lse(b, h, i));
            if (!c.weights || (c.average_weights && h > 0)) continue;
            for (std::int64_t j = 0; j < a.held[std::size_t(b)]; j++)
                same = same && (c.average_weights ? same_bits(a.weights(b, i, j), other.weights(b, i, j))
                                                  : same_bits(a.weights(b, h, i, j), other.weights(b, h, i, j)));
        }
    return same;
}

}  // namespace attune_test
