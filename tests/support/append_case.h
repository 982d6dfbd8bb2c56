// SPDX-License-Identifier: MIT
// One call of paged_append as data, its arrays, and the check of its outputs: rows after their steps are those of
// transform_rows in f32, which has tests of its own; their quantisation is exact.
#pragma once
#include "attune/append.h"
#include "tests/support/rows_case.h"
#include <set>

namespace attune_test {

enum class Stored { as_given, int8, int8_f16, int8_tensor, int8_channel, int4 };
inline const char *name_of(Stored stored) {
    constexpr const char *names[] = {"as given", "int8", "int8, f16", "int8, one scale", "int8, channel scales", "int4"};
    return names[static_cast<int>(stored)];
}

struct PagedAppendCase {
    RowsCase steps{.batch = 1};  // of keys; the batch stays 1
    std::int64_t value_dim = 32;
    bool rotate_values = false;
    Stored keys = Stored::as_given, values = Stored::as_given;
    std::int64_t group = 32;  // of int4; -1: all channels
    std::int64_t pages = 6, page = 16;
    bool heads_first = false;  // pages laid out (P, Hkv, page, D)
    double spread = 1.7;
};
inline std::string describe(const PagedAppendCase &c) {
    std::ostringstream text;
    text << describe(c.steps) << " values of " << c.value_dim << (c.rotate_values ? " rotated" : "") << ", keys "
         << name_of(c.keys) << ", values " << name_of(c.values) << " group " << c.group << " pages " << c.pages << " of "
         << c.page << (c.heads_first ? " heads first" : "");
    return text.str();
}

// A pool with gaps around rows, heads and pages.
template<typename T> struct PoolArrays {
    Stored stored;
    std::int64_t pages, page, heads, width, group, groups;
    Array<T> rows;
    Array<std::int8_t> int8;
    Array<std::uint8_t> int4;
    Array<float> scale, static_scale;
    Array<Float16> scale_f16, minimum;

    PoolArrays(const PagedAppendCase &c, Stored how, std::int64_t head_dim, std::mt19937 &random)
        : stored(how), pages(c.pages), page(c.page), heads(c.steps.heads), width(head_dim),
          group(c.group < 0 ? head_dim : c.group), groups(how == Stored::int4 ? head_dim / group : 1) {
        const auto strides = [&](std::int64_t row) {
            const std::int64_t head = c.heads_first ? page * (row + 1) : row + 1;
            const std::int64_t step = c.heads_first ? row + 1 : heads * (row + 1) + 2;
            return std::vector<std::int64_t>{step * (c.heads_first ? page * heads + 3 : page + 1), step, head, 1};
        };
        if (how == Stored::as_given) rows = Array<T>({pages, page, heads, width}, strides(width), poison<T>(2));
        if (how == Stored::int4) {
            int4 = Array<std::uint8_t>({pages, page, heads, width / 2}, strides(width / 2), std::uint8_t(0xa7));
            scale_f16 = Array<Float16>({pages, page, heads, groups}, strides(groups), poison<Float16>(2));
            minimum =
                Array<Float16>({pages, page, heads, groups}, dense_strides({pages, page, heads, groups}), poison<Float16>(2));
            return;
        }
        if (how != Stored::as_given) int8 = Array<std::int8_t>({pages, page, heads, width}, strides(width), std::int8_t(-128));
        const std::vector<std::int64_t> by_row = {page * (heads + 1), heads + 1, 1};
        if (how == Stored::int8) scale = Array<float>({pages, page, heads}, by_row, poison<float>(2));
        if (how == Stored::int8_f16) scale_f16 = Array<Float16>({pages, page, heads}, by_row, poison<Float16>(2));
        if (how == Stored::int8_tensor) static_scale = Array<float>({1});
        if (how == Stored::int8_channel) static_scale = Array<float>({heads, width});
        if (how == Stored::int8_tensor || how == Stored::int8_channel) {
            static_scale.randomise(random, 1);
            static_scale.each([](float &x) { x = std::abs(x) / 100 + 0.005f; });
        }
    }
    attune::Pages view() {
        switch (stored) {
        case Stored::as_given: return rows.view();
        case Stored::int8: return {int8.view(), scale.view()};
        case Stored::int8_f16: return {int8.view(), scale_f16.view()};
        case Stored::int4: return {int4.view(), scale_f16.view(), minimum.view()};
        default: return {int8.view(), static_scale.view()};
        }
    }
    // Fault of row `slot` of a head, which is to hold `row`, the row after its steps in f32.
    std::string defect(std::int64_t slot, std::int64_t h, const Row<Sum<T>> &row) {
        const std::int64_t p = slot / page, i = slot % page;
        std::ostringstream why;
        why << "slot " << slot << " head " << h << ": ";
        if (stored == Stored::as_given) {
            for (std::int64_t d = 0; d < width; d++)
                if (!same_bits(rows(p, i, h, d), T(row[std::size_t(d)]))) {
                    why << "channel " << d << " is " << rows(p, i, h, d) << ", not " << row[std::size_t(d)];
                    return why.str();
                }
            return {};
        }
        const Row<float> x(row.begin(), row.end());
        QuantisedRow expected;
        if (stored == Stored::int4) {
            expected = int4_of(x, std::size_t(group));
        } else if (stored == Stored::int8 || stored == Stored::int8_f16) {
            expected = int8_of(x, stored == Stored::int8_f16);
        } else {
            Row<float> scales(std::size_t(width), static_scale.data()[0]);
            if (stored == Stored::int8_channel) std::copy_n(static_scale.data() + h * width, width, scales.begin());
            expected = int8_of(x, scales);
        }
        for (std::int64_t d = 0; d < width; d++) {
            const int q = stored == Stored::int4 ? int4(p, i, h, d / 2) >> 4 * (d % 2) & 15 : int(int8(p, i, h, d));
            if (q == expected.q[std::size_t(d)]) continue;
            why << "q of channel " << d << " (" << x[std::size_t(d)] << ") is " << q << ", not " << expected.q[std::size_t(d)];
            return why.str();
        }
        for (std::int64_t g = 0; g < std::int64_t(expected.scale.size()); g++) {
            const float s = stored == Stored::int8       ? scale(p, i, h)
                            : stored == Stored::int8_f16 ? float(scale_f16(p, i, h))
                                                         : float(scale_f16(p, i, h, g));
            // Zeros of either sign are equal: a row that holds both has a minimum, and a range, of either sign.
            if (s != expected.scale[std::size_t(g)]) {
                why << "scale " << g << " is " << s << ", not " << expected.scale[std::size_t(g)];
                return why.str();
            }
            if (stored == Stored::int4 && float(minimum(p, i, h, g)) != expected.minimum[std::size_t(g)]) {
                why << "minimum " << g << " is " << float(minimum(p, i, h, g)) << ", not " << expected.minimum[std::size_t(g)];
                return why.str();
            }
        }
        return {};
    }
    // All memory of the pool, in which rows of `slots` and what belongs to them are cleared.
    std::vector<std::byte> others(const std::set<std::int64_t> &slots) {
        PoolArrays copy = *this;
        std::vector<std::byte> all;
        const auto clear = [&](auto &array, std::int64_t of_row, bool rank4) {
            using E = std::decay_t<decltype(*array.data())>;
            for (std::int64_t slot : slots)
                for (std::int64_t h = 0; h < heads; h++)
                    for (std::int64_t d = 0; d < of_row; d++)
                        (rank4 ? array(slot / page, slot % page, h, d) : array(slot / page, slot % page, h)) = E();
            const auto bytes = array.bytes();
            all.insert(all.end(), bytes.begin(), bytes.end());
        };
        if (stored == Stored::as_given) clear(copy.rows, width, true);
        if (stored == Stored::int4)
            clear(copy.int4, width / 2, true), clear(copy.scale_f16, groups, true), clear(copy.minimum, groups, true);
        if (stored != Stored::as_given && stored != Stored::int4) clear(copy.int8, width, true);
        if (stored == Stored::int8) clear(copy.scale, 1, false);
        if (stored == Stored::int8_f16) clear(copy.scale_f16, 1, false);
        return all;
    }
};

template<typename T> struct PagedAppendArrays {
    PagedAppendCase the;
    std::mt19937 random;
    RowsArrays<T> keys;
    RowsArrays<T> values;
    PoolArrays<T> key_pool, value_pool;
    std::vector<std::int64_t> slots;
    std::set<std::int64_t> used;

    explicit PagedAppendArrays(const PagedAppendCase &c)
        : the(c), random(c.steps.seed), keys(c.steps), values(of_values(c)), key_pool(c, c.keys, c.steps.head_dim, random),
          value_pool(c, c.values, c.value_dim, random) {
        keys.x.randomise(random, c.spread), values.x.randomise(random, c.spread);
        std::vector<std::int64_t> all(std::size_t(c.pages * c.page));
        for (std::size_t n = 0; n < all.size(); n++) all[n] = std::int64_t(n);
        std::shuffle(all.begin(), all.end(), random);
        for (std::int64_t t = 0; t < c.steps.rows; t++) {
            slots.push_back(t % 5 == 3 ? -1 : all[std::size_t(t)]);
            if (slots.back() >= 0) used.insert(slots.back());
        }
    }
    // Rows (1, H, T, D) as (T, H, D).
    static attune::View packed(attune::View v) {
        attune::View w = v;
        w.rank = 3;
        w.extent[0] = v.extent[2], w.stride[0] = v.stride[2], w.extent[1] = v.extent[1], w.stride[1] = v.stride[1];
        w.extent[2] = v.extent[3], w.stride[2] = v.stride[3];
        return w;
    }
    attune::Status run(attune::Context &context) {
        attune::AppendOptions options{.key_steps = keys.steps(), .rotate_values = the.rotate_values};
        if (the.steps.pairs != Pairs::none)
            options.positions = keys.placed(attune::ConstView(keys.positions.data(), {the.steps.rows}));
        return attune::paged_append(context, keys.placed(packed(keys.x.view())), keys.placed(packed(values.x.view())),
                                    keys.placed(attune::ConstView(slots.data(), {the.steps.rows})), placed(key_pool),
                                    placed(value_pool), options);
    }
    attune::Pages placed(PoolArrays<T> &pool) const {
        attune::Pages pages = pool.view();
        for (attune::View *v : {&pages.rows, &pages.scale, &pages.minimum}) *v = keys.placed(*v);
        return pages;
    }

private:
    static RowsCase of_values(const PagedAppendCase &c) {
        return {.batch = 1,
                .heads = c.steps.heads,
                .rows = c.steps.rows,
                .head_dim = c.value_dim,
                .hadamard = c.rotate_values,
                .layout = c.steps.layout,
                .seed = c.steps.seed + 1000};
    }
};

// Rows after their steps in the type of sums, by transform_rows: f32 rows of the same numbers.
template<typename T> Array<Sum<T>> after_library_steps(attune::Context &context, RowsArrays<T> &rows) {
    RowsCase c = rows.the;
    c.layout = c.out_layout = Layout::dense, c.weight_is_f32 = true, c.in_place = false, c.place = attune::Place::host;
    RowsArrays<Sum<T>> wide(c);
    const auto copy = [](auto &from, auto &to) {
        const auto values = from.values();
        auto next = values.begin();
        to.each([&](auto &x) { x = *next++; });
    };
    copy(rows.x, wide.x), copy(rows.positions, wide.positions);
    if (rows.the.weight_is_f32)
        copy(rows.weight_f32, wide.weight_f32);
    else
        copy(rows.weight, wide.weight_f32);
    if (std::is_same_v<T, double>) copy(rows.weight, wide.weight), wide.the.weight_is_f32 = rows.the.weight_is_f32;
    REQUIRE(wide.run(context).ok());
    return wide.out;
}

// `f32` is a Context for the rows after their steps, in which no variant of another type is forced.
template<typename T> void check_case(attune::Context &context, attune::Context &f32, const PagedAppendCase &c) {
    INFO(describe(c));
    PagedAppendArrays<T> a(c);
    const auto other_keys = a.key_pool.others(a.used), other_values = a.value_pool.others(a.used);
    const attune::Status status = a.run(context);
    INFO("ran " << context.last_variant() << ' ' << status.message());
    REQUIRE(status.ok());
    for (auto [rows, pool] : {std::pair(&a.keys, &a.key_pool), {&a.values, &a.value_pool}}) {
        Array<Sum<T>> stepped = after_library_steps(f32, *rows);
        std::string defect;
        for (std::int64_t t = 0; t < c.steps.rows; t++)
            for (std::int64_t h = 0; h < c.steps.heads && a.slots[std::size_t(t)] >= 0 && defect.empty(); h++) {
                Row<Sum<T>> row;
                for (std::int64_t d = 0; d < rows->the.head_dim; d++) row.push_back(stepped(0, h, t, d));
                defect = pool->defect(a.slots[std::size_t(t)], h, row);
            }
        INFO((rows == &a.keys ? "keys: " : "values: ") << defect);
        CHECK(defect.empty());
    }
    CHECK(a.key_pool.others(a.used) == other_keys);
    CHECK(a.value_pool.others(a.used) == other_values);
}

}  // namespace attune_test
