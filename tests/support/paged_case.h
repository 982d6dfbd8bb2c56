// SPDX-License-Identifier: MIT
// A batch over pages as data: sequences, a pool whose other rows are NaN, the call, and each sequence over its rows in order.
#pragma once
#include "attune/paged.h"
#include "tests/support/packed_case.h"
#include <algorithm>
#include <numeric>

namespace attune_test {

struct PagedCase {
    std::vector<std::int32_t> queries, rows;  // of each sequence; rows: those it holds, its queries' among them
    std::int64_t page = 16;
    std::int64_t query_heads = 4, key_heads = 2, head_dim = 16, value_dim = 16;
    bool heads_first = false;                                    // pool (P, Hkv, page, D) in memory
    bool list = false;                                           // the table as one list, with indptr
    std::vector<std::int32_t> prefix_rows = {}, prefix_of = {};  // shared prefixes, and that of each sequence; empty: none
    unsigned seed = 1;
};

template<typename T> struct PagedArrays {
    PagedCase the;
    std::vector<std::int32_t> ends, indptr = {0}, table, prefix_table;
    std::int64_t pages = 0, width = 0, prefix_width = 0;
    Array<T> query, out, key, value;
    Array<Sum<T>> lse;
    std::vector<std::vector<std::int32_t>> lists, prefix_lists;  // pages of each sequence and prefix

    explicit PagedArrays(const PagedCase &c) : the(c), ends(ends_of(c.queries)) {
        std::mt19937 random(c.seed);
        const std::int64_t spare = 3;
        for (std::int32_t n : c.rows) pages += (n + c.page - 1) / c.page;
        for (std::int32_t n : c.prefix_rows) pages += (n + c.page - 1) / c.page;
        pages += spare;
        std::vector<std::int32_t> free(static_cast<std::size_t>(pages));
        std::iota(free.begin(), free.end(), 0);
        std::shuffle(free.begin(), free.end(), random);
        const auto take = [&](std::int32_t rows) {
            const auto count = (rows + c.page - 1) / c.page;
            std::vector<std::int32_t> taken(free.end() - count, free.end());
            free.resize(free.size() - static_cast<std::size_t>(count));
            return taken;
        };
        for (std::int32_t n : c.rows) lists.push_back(take(n));
        for (std::int32_t n : c.prefix_rows) prefix_lists.push_back(take(n));
        width = lay_out(lists, table), prefix_width = lay_out(prefix_lists, prefix_table);
        if (c.list) {
            table.clear();
            for (const auto &list : lists) {
                table.insert(table.end(), list.begin(), list.end());
                indptr.push_back(std::int32_t(table.size()));
            }
        }
        const std::int64_t tq = ends.back() + 2;
        query = Array<T>({tq, c.query_heads, c.head_dim}, {c.query_heads * c.head_dim, c.head_dim, 1}, poison<T>(1));
        out = Array<T>({tq, c.query_heads, c.value_dim}, {c.query_heads * c.value_dim, c.value_dim, 1}, poison<T>(2));
        lse = Array<Sum<T>>({c.query_heads, tq}, {tq + 2, 1}, poison<Sum<T>>(2));
        key = pool(c.head_dim), value = pool(c.value_dim);
        query.randomise(random, 1.7);
        fill(key, random), fill(value, random);
    }
    std::int64_t batch() const { return std::int64_t(the.queries.size()); }
    attune::ConstView cu_seqlens_q() const { return {ends.data(), {batch() + 1}}; }
    attune::ConstView lens() const { return {the.rows.data(), {batch()}}; }
    attune::ConstView block_table() const {
        if (the.list) return {table.data(), {std::int64_t(table.size())}};
        return {table.data(), {batch(), width}};
    }
    attune::PagedOptions with_tables(attune::PagedOptions o) {
        o.lse = lse.view();
        if (the.list) o.indptr = attune::ConstView(indptr.data(), {batch() + 1});
        if (!the.prefix_of.empty()) {
            const auto count = std::int64_t(the.prefix_rows.size());
            o.prefix = {{prefix_table.data(), {count, prefix_width}},
                        {the.prefix_rows.data(), {count}},
                        {the.prefix_of.data(), {batch()}}};
        }
        return o;
    }
    attune::Status run(attune::Context &context, const attune::PagedOptions &options = {}) {
        return attune::paged_attention(context, query.view(), attune::ConstView(key.view()), attune::ConstView(value.view()),
                                       cu_seqlens_q(), block_table(), lens(), out.view(), with_tables(options));
    }
    // Rows of a sequence in order, those of its prefix first, as (1, Hkv, rows, D).
    Array<T> rows_in_order(const Array<T> &pool, std::int64_t s) const {
        std::vector<std::pair<std::int32_t, std::int64_t>> places;
        const auto add = [&](const std::vector<std::int32_t> &list, std::int32_t rows) {
            for (std::int64_t j = 0; j < rows; j++) places.emplace_back(list[std::size_t(j / the.page)], j % the.page);
        };
        if (const std::int32_t g = the.prefix_of.empty() ? -1 : the.prefix_of[std::size_t(s)]; g >= 0)
            add(prefix_lists[std::size_t(g)], the.prefix_rows[std::size_t(g)]);
        add(lists[std::size_t(s)], the.rows[std::size_t(s)]);
        const attune::ConstView from = const_cast<Array<T> &>(pool).view();
        const std::int64_t heads = from.extent[2], width = from.extent[3], count = std::int64_t(places.size());
        Array<T> rows({1, heads, count, width}, dense_strides({1, heads, count, width}));
        const attune::View to = rows.view();
        for (std::int64_t h = 0; h < heads; h++)
            for (std::int64_t j = 0; j < count; j++) {
                const auto [page, slot] = places[std::size_t(j)];
                const T *row =
                    static_cast<const T *>(from.data) + page * from.stride[0] + slot * from.stride[1] + h * from.stride[2];
                std::copy_n(row, width, static_cast<T *>(to.data) + (h * count + j) * width);
            }
        return rows;
    }

private:
    // A table, a row a list, with -1 behind the end of a list.
    static std::int64_t lay_out(const std::vector<std::vector<std::int32_t>> &all, std::vector<std::int32_t> &to) {
        std::size_t width = 1;
        for (const auto &list : all) width = std::max(width, list.size());
        for (const auto &list : all) {
            to.insert(to.end(), list.begin(), list.end());
            to.resize(to.size() + width - list.size(), -1);
        }
        return std::int64_t(width);
    }
    Array<T> pool(std::int64_t channels) const {
        const std::int64_t h = the.key_heads, p = the.page;
        if (the.heads_first)
            return Array<T>({pages, p, h, channels}, {h * p * channels, channels, p * channels, 1}, poison<T>(1));
        return Array<T>({pages, p, h, channels}, {p * h * channels, h * channels, channels, 1}, poison<T>(1));
    }
    // Random rows where something is held; all others are NaN.
    void fill(Array<T> &pool, std::mt19937 &random) const {
        pool.randomise(random, 1.7);
        const attune::View v = pool.view();
        std::vector<bool> held(std::size_t(pages * the.page), false);
        const auto hold = [&](const std::vector<std::int32_t> &list, std::int32_t rows) {
            for (std::int64_t j = 0; j < rows; j++)
                held[std::size_t(list[std::size_t(j / the.page)] * the.page + j % the.page)] = true;
        };
        for (std::size_t s = 0; s < lists.size(); s++) hold(lists[s], the.rows[s]);
        for (std::size_t g = 0; g < prefix_lists.size(); g++) hold(prefix_lists[g], the.prefix_rows[g]);
        for (std::int64_t n = 0; n < pages * the.page; n++)
            for (std::int64_t h = 0; h < the.key_heads && !held[std::size_t(n)]; h++)
                std::fill_n(static_cast<T *>(v.data) + n / the.page * v.stride[0] + n % the.page * v.stride[1] +
                                h * v.stride[2],
                            v.extent[3], poison<T>(0));
    }
};

// Options of attention for one sequence that say what these say of all.
struct InOrder {
    std::vector<unsigned char> mask;
    attune::SdpaOptions options;
};
template<typename T>
InOrder in_order(const attune::PagedOptions &o, const PagedArrays<T> &all, std::int64_t s, std::int64_t keys, Array<T> &bias) {
    InOrder made;
    const std::int64_t queries = all.the.queries[std::size_t(s)], older = keys - queries;
    made.options = {.scale = o.scale, .softcap = o.softcap, .alibi = o.alibi, .alibi_slopes = o.alibi_slopes};
    made.options.causal = attune::Causal::offset, made.options.offset = older;
    if (!o.causal || o.tree_mask.given()) made.options.causal = attune::Causal::none;
    made.options.sinks = o.sinks;
    if (!o.tree_mask.given()) made.options.window = o.window;
    if (o.tree_mask.given()) {
        const auto *tree = static_cast<const bool *>(o.tree_mask.data);
        const std::int64_t side = o.tree_mask.extent[1];
        const auto sees = [&](std::int64_t i, std::int64_t j) { return tree[(s * side + i) * side + j]; };
        const auto position = [&](std::int64_t i) {
            std::int64_t depth = -1;
            for (std::int64_t j = 0; j <= i; j++) depth += sees(i, j);
            return older + depth;
        };
        made.mask.assign(std::size_t(queries * keys), 0);
        for (std::int64_t i = 0; i < queries; i++)
            for (std::int64_t j = 0; j < older + i + 1; j++) {
                const std::int64_t at = j < older ? j : position(j - older), behind = position(i) - at;
                const bool within =
                    (o.window.left < 0 || behind <= o.window.left) && (o.window.right < 0 || -behind <= o.window.right);
                made.mask[std::size_t(i * keys + j)] = within && (j < older || sees(i, j - older));
            }
        made.options.mask = attune::ConstView(reinterpret_cast<const bool *>(made.mask.data()), {queries, keys});
    }
    if (o.distance_bias.given()) {
        bias = Array<T>({all.the.query_heads, queries, keys}, dense_strides({all.the.query_heads, queries, keys}));
        for (std::int64_t h = 0; h < all.the.query_heads; h++)
            for (std::int64_t i = 0; i < queries; i++)
                for (std::int64_t j = 0; j < keys; j++) {
                    const std::int64_t r = std::clamp<std::int64_t>(i + older - j, 0, o.distance_bias.extent[1] - 1);
                    static_cast<T *>(bias.view().data)[(h * queries + i) * keys + j] =
                        static_cast<const T *>(o.distance_bias.data)[h * o.distance_bias.extent[1] + r];
                }
        made.options.bias = bias.view();
    }
    return made;
}

// Prompts, chunks of prompts, steps, and sequences without queries.
inline PagedCase random_paged_case(unsigned seed) {
    std::mt19937 random(seed);
    PagedCase c{.queries = {}, .rows = {}, .seed = seed};
    constexpr std::int64_t pages[] = {16, 32, 48, 64, 128, 1};
    c.page = pages[random() % 6], c.heads_first = random() % 2, c.list = random() % 3 == 0;
    for (unsigned s = 0; s < 1 + random() % 8; s++) {
        const std::int32_t kinds[] = {0, 1, 1, std::int32_t(2 + random() % 12), std::int32_t(1 + random() % 140)};
        c.queries.push_back(kinds[random() % 5]);
        c.rows.push_back(c.queries.back() + (random() % 3 ? std::int32_t(random() % 700) : 0));
    }
    constexpr std::int64_t widths[][4] = {{4, 2, 16, 16}, {8, 2, 64, 64}, {4, 4, 128, 128}, {3, 1, 17, 21}, {4, 1, 40, 24}};
    const auto &w = widths[random() % 5];
    c.query_heads = w[0], c.key_heads = w[1], c.head_dim = w[2], c.value_dim = w[3];
    if (random() % 3 == 0) {
        c.prefix_rows = {std::int32_t(16 * (random() % 20)), 64};
        for (std::size_t s = 0; s < c.queries.size(); s++) c.prefix_of.push_back(std::int32_t(random() % 3) - 1);
    }
    return c;
}

// Options of random batches by seed, whose sinks they point to.
struct PagedOptionsOfSeed {
    std::vector<float> sinks;
    attune::PagedOptions options;

    PagedOptionsOfSeed(unsigned seed, std::int64_t query_heads) {
        std::mt19937 random(seed);
        options.causal = seed % 5 != 0;
        if (seed % 4 == 1) options.window = {std::int64_t(random() % 200), seed % 8 == 1 ? -1 : 3};
        if (seed % 6 == 2) options.alibi = true;
        if (seed % 7 == 3) options.softcap = 5;
        for (std::int64_t h = 0; h < query_heads; h++) sinks.push_back(float(random() % 40) / 10 - 2);
        if (seed % 4 == 2) options.sinks = attune::ConstView(sinks);
        if (seed % 9 == 4) options.scale = 0.3;
    }
    PagedOptionsOfSeed(const PagedOptionsOfSeed &) = delete;
};

}  // namespace attune_test
