// SPDX-License-Identifier: MIT
// A packed batch as data: lengths of its sequences, arrays, the call, and the same sequences one by one.
#pragma once
#include "attune/varlen.h"
#include "tests/support/array.h"
#include "tests/support/catch.h"
#include <random>
#include <sstream>

namespace attune_test {

struct PackedCase {
    std::vector<std::int32_t> queries, keys;  // of each sequence
    std::int64_t query_heads = 4, key_heads = 2, head_dim = 16, value_dim = 16;
    std::int64_t spare_rows = 3;  // behind the last sequence
    bool heads_first = false;     // (H, T, D) in memory
    unsigned seed = 1;
};
inline std::string describe(const PackedCase &c) {
    std::ostringstream text;
    const auto list = [&](const char *name, const std::vector<std::int32_t> &all) {
        text << name << " {";
        for (std::size_t n = 0; n < all.size(); n++) text << (n ? "," : "") << all[n];
        text << "} ";
    };
    list("queries", c.queries), list("keys", c.keys);
    text << "Hq " << c.query_heads << " Hkv " << c.key_heads << " Dk " << c.head_dim << " Dv " << c.value_dim
         << (c.heads_first ? " heads first" : "") << " seed " << c.seed;
    return text.str();
}

inline std::vector<std::int32_t> ends_of(const std::vector<std::int32_t> &lengths) {
    std::vector<std::int32_t> ends = {0};
    for (std::int32_t n : lengths) ends.push_back(ends.back() + n);
    return ends;
}

// Lengths that differ in all that a choice of variants may depend on: none, one, short, long.
inline std::vector<std::int32_t> random_lengths(std::mt19937 &random, std::size_t count, std::int32_t most) {
    std::vector<std::int32_t> lengths;
    for (std::size_t n = 0; n < count; n++) {
        const std::int32_t kinds[] = {0, 1, std::int32_t(1 + random() % 16), std::int32_t(1 + random() % unsigned(most))};
        lengths.push_back(kinds[random() % 4]);
    }
    return lengths;
}

// Options that have a meaning within a sequence, a choice for each number; they point into this object.
struct OptionsOfSequences {
    std::vector<std::int32_t> offsets;
    std::vector<float> slopes, sinks;
    attune::SdpaOptions options(unsigned n, std::int64_t batch, std::int64_t heads) {
        std::mt19937 random(n);
        attune::SdpaOptions o;
        o.causal = static_cast<attune::Causal>(n % 3);
        if (n % 4 == 1) o.window = {std::int64_t(random() % 20), std::int64_t(random() % 20) - 1};
        if (n % 5 == 2) {
            for (std::int64_t s = 0; s < batch; s++) offsets.push_back(std::int32_t(random() % 40) - 10);
            o.offsets = attune::ConstView(offsets.data(), {batch});
        } else if (n % 5 == 3) {
            o.offset = 7;
        }
        if (n % 6 == 1) o.alibi = true;
        if (n % 6 == 4) {
            for (std::int64_t m = 0; m < batch * heads; m++) slopes.push_back(float(random() % 100) / 400);
            o.alibi_slopes = attune::ConstView(slopes.data(), {batch, heads});
        }
        if (n % 4 == 2) {
            for (std::int64_t h = 0; h < heads; h++) sinks.push_back(float(random() % 40) / 10 - 2);
            o.sinks = attune::ConstView(sinks.data(), {heads});
        }
        if (n % 7 == 3) o.softcap = 5;
        if (n % 8 == 5) o.scale = 0.3;
        if (n % 8 == 7) o.score = n % 16 == 7 ? attune::Score::cosine : attune::Score::gaussian;
        return o;
    }
};

// Nine sequences of random lengths, of sizes and layouts by seed.
inline PackedCase random_packed_case(unsigned seed) {
    std::mt19937 random(seed);
    PackedCase c{.queries = random_lengths(random, 9, 130), .keys = random_lengths(random, 9, 300), .seed = seed};
    c.heads_first = seed % 2, c.spare_rows = seed % 3;
    if (seed % 4 == 0) c.head_dim = 64, c.value_dim = 64;
    if (seed % 4 == 1) c.head_dim = 17, c.value_dim = 21, c.query_heads = 2;
    return c;
}

// View of rows [first, first + count) of (T, H, D) as the batch entry (1, H, count, D), or of (H, T) as (1, H, count).
inline attune::View sequence_of(attune::View packed, std::int64_t first, std::int64_t count) {
    attune::View v = packed;
    const bool lse = packed.rank == 2;
    v.rank = packed.rank + 1;
    v.extent[0] = 1, v.stride[0] = 0;
    const int head = lse ? 0 : 1, row = lse ? 1 : 0;
    v.extent[1] = packed.extent[head], v.stride[1] = packed.stride[head];
    v.extent[2] = count, v.stride[2] = packed.stride[row];
    if (!lse) v.extent[3] = packed.extent[2], v.stride[3] = packed.stride[2];
    v.data = static_cast<char *>(packed.data) + first * packed.stride[row] * attune::size_of(packed.dtype);
    return v;
}

template<typename T> struct PackedArrays {
    PackedCase the;
    std::vector<std::int32_t> query_ends, key_ends;
    Array<T> query, key, value, out;
    Array<Sum<T>> lse;

    explicit PackedArrays(const PackedCase &c) : the(c), query_ends(ends_of(c.queries)), key_ends(ends_of(c.keys)) {
        const std::int64_t tq = query_ends.back() + c.spare_rows, tk = key_ends.back() + c.spare_rows;
        query = rows(tq, c.query_heads, c.head_dim), out = rows(tq, c.query_heads, c.value_dim, poison<T>(2));
        key = rows(tk, c.key_heads, c.head_dim), value = rows(tk, c.key_heads, c.value_dim);
        lse = Array<Sum<T>>({c.query_heads, tq}, {tq + 2, 1}, poison<Sum<T>>(2));
        std::mt19937 random(c.seed);
        query.randomise(random, 1.7), key.randomise(random, 1.7), value.randomise(random, 1.7);
    }
    std::int64_t batch() const { return std::int64_t(the.queries.size()); }
    attune::ConstView cu_seqlens_q() const { return {query_ends.data(), {batch() + 1}}; }
    attune::ConstView cu_seqlens_k() const { return {key_ends.data(), {batch() + 1}}; }

    attune::Status run(attune::Context &context, attune::SdpaOptions options = {}) {
        options.lse = lse.view();
        return attune::variable_length_attention(context, query.view(), key.view(), value.view(), cu_seqlens_q(),
                                                 cu_seqlens_k(), out.view(), options);
    }
    // Rows of sequence s in an array of queries, (Tq, Hq, D) or (Hq, Tq), or of keys.
    attune::View of_queries(attune::View v, std::int64_t s) const {
        return sequence_of(v, query_ends[std::size_t(s)], the.queries[std::size_t(s)]);
    }
    attune::View of_keys(attune::View v, std::int64_t s) const {
        return sequence_of(v, key_ends[std::size_t(s)], the.keys[std::size_t(s)]);
    }
    // Options of sequence s alone.
    attune::SdpaOptions options_alone(attune::SdpaOptions options, std::int64_t s) const {
        const auto entry_of = [&](attune::ConstView &v) {
            v.data = static_cast<const char *>(v.data) + s * v.stride[0] * 4, v.extent[0] = 1;
        };
        if (options.offsets.given()) entry_of(options.offsets);
        if (options.alibi_slopes.rank == 2) entry_of(options.alibi_slopes);
        attune::Dropout &d = options.dropout;
        d.first_head += std::uint32_t(s) * (d.heads ? d.heads : std::uint32_t(the.query_heads));
        return options;
    }
    // Runs sequence s alone, into `to`, which is of the same case.
    attune::Status run_alone(attune::Context &context, std::int64_t s, const attune::SdpaOptions &given, PackedArrays &to) {
        attune::SdpaOptions options = options_alone(given, s);
        options.lse = of_queries(to.lse.view(), s);
        return attune::scaled_dot_product_attention(context, of_queries(query.view(), s), of_keys(key.view(), s),
                                                    of_keys(value.view(), s), of_queries(to.out.view(), s), options);
    }
    Array<T> rows(std::int64_t count, std::int64_t heads, std::int64_t width, T fill = poison<T>(1)) const {
        if (the.heads_first) return Array<T>({count, heads, width}, {width, count * width + 7, 1}, fill);
        return Array<T>({count, heads, width}, {heads * width, width, 1}, fill);
    }
};

// Runs the batch, and each of its sequences alone: all bits must agree, and nothing else be written.
template<typename T> void check_packed(attune::Context &context, const PackedCase &c, const attune::SdpaOptions &options = {}) {
    INFO(describe(c));
    PackedArrays<T> all(c), alone(c);
    const attune::Status status = all.run(context, options);
    INFO("ran " << context.last_variant() << ' ' << status.message());
    REQUIRE(status.ok());
    attune::Context one({.threads = 1});
    for (std::int64_t s = 0; s < all.batch(); s++) {
        const attune::Status single = all.run_alone(one, s, options, alone);
        INFO("sequence " << s << ' ' << single.message());
        REQUIRE(single.ok());
    }
    CHECK(same_bits(all.out.values(), alone.out.values()));
    CHECK(same_bits(all.lse.values(), alone.lse.values()));
    CHECK(all.out.gaps_untouched());
    CHECK(all.lse.gaps_untouched());
}

}  // namespace attune_test
