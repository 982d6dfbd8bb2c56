// SPDX-License-Identifier: MIT
// A batch over quantised pages as data: a case of pages whose rows are quantised by the reference, the call, and the reference
// over the rows as numbers.
#pragma once
#include "tests/reference/rows_reference.h"
#include "tests/reference/sdpa_reference.h"
#include "tests/support/append_case.h"
#include "tests/support/error_rule.h"
#include "tests/support/paged_case.h"

namespace attune_test {

// A quantised pool; scales and minima of rows that are not held are NaN, and their bytes are random.
struct QuantisedPool {
    Stored stored;
    std::int64_t group;
    Array<std::int8_t> int8;
    Array<std::uint8_t> int4;
    Array<float> scale, static_scale;
    Array<Float16> scale_f16, minimum;

    // Quantises `rows` (P, page, H, D), which is NaN where nothing is held, and replaces each row by the numbers that it has
    // then.
    QuantisedPool(Array<double> &rows, Stored how, std::int64_t group_or_all, std::mt19937 &random) : stored(how) {
        const attune::View v = rows.view();
        const std::int64_t pages = v.extent[0], page = v.extent[1], heads = v.extent[2], width = v.extent[3];
        group = group_or_all < 0 ? width : group_or_all;
        const std::int64_t groups = how == Stored::int4 ? width / group : 1;
        const bool heads_first = v.stride[2] > v.stride[1];
        const auto strides = [&](std::int64_t of_row) -> std::vector<std::int64_t> {
            const std::int64_t padded = of_row + 3;
            if (heads_first) return {padded * page * heads, padded, padded * page, 1};
            return {padded * page * heads, padded * heads, padded, 1};
        };
        const auto of_rows = [&](const std::vector<std::int64_t> &s) { return std::vector<std::int64_t>{s[0], s[1], s[2]}; };
        if (how == Stored::int4) {
            int4 = Array<std::uint8_t>({pages, page, heads, width / 2}, strides(width / 2));
            scale_f16 = Array<Float16>({pages, page, heads, groups}, strides(groups), poison<Float16>(0));
            minimum = Array<Float16>({pages, page, heads, groups}, strides(groups + 1), poison<Float16>(0));
            int4.each([&](std::uint8_t &q) { q = std::uint8_t(random()); });
        } else {
            int8 = Array<std::int8_t>({pages, page, heads, width}, strides(width));
            int8.each([&](std::int8_t &q) { q = std::int8_t(random() % 255 - 127); });
        }
        if (how == Stored::int8) scale = Array<float>({pages, page, heads}, of_rows(strides(1)), poison<float>(0));
        if (how == Stored::int8_f16) scale_f16 = Array<Float16>({pages, page, heads}, of_rows(strides(1)), poison<Float16>(0));
        if (how == Stored::int8_tensor) static_scale = Array<float>({1});
        if (how == Stored::int8_channel) static_scale = Array<float>({heads, width});
        static_scale.each([&](float &x) { x = 0.005f + float(random() % 1000) / 50000; });
        for (std::int64_t p = 0; p < pages; p++)
            for (std::int64_t i = 0; i < page; i++)
                for (std::int64_t h = 0; h < heads; h++) {
                    double *row = static_cast<double *>(v.data) + p * v.stride[0] + i * v.stride[1] + h * v.stride[2];
                    if (!std::isnan(row[0])) quantise(p, i, h, row, width);
                }
    }
    attune::ConstPages view() {
        switch (stored) {
        case Stored::int8: return attune::Pages{int8.view(), scale.view()};
        case Stored::int8_f16: return attune::Pages{int8.view(), scale_f16.view()};
        case Stored::int4: return attune::Pages{int4.view(), scale_f16.view(), minimum.view()};
        default: return attune::Pages{int8.view(), static_scale.view()};
        }
    }

private:
    void quantise(std::int64_t p, std::int64_t i, std::int64_t h, double *row, std::int64_t width) {
        const Row<float> x(row, row + width);
        if (stored == Stored::int4) {
            const QuantisedRow r = int4_of(x, std::size_t(group));
            for (std::int64_t d = 0; d < width; d += 2)
                int4(p, i, h, d / 2) = std::uint8_t(r.q[std::size_t(d)] | r.q[std::size_t(d + 1)] << 4);
            for (std::int64_t g = 0; g < width / group; g++)
                scale_f16(p, i, h, g) = Float16(r.scale[std::size_t(g)]),
                                   minimum(p, i, h, g) = Float16(r.minimum[std::size_t(g)]);
            for (std::int64_t d = 0; d < width; d++)
                row[d] = double(r.minimum[std::size_t(d / group)]) +
                         double(r.q[std::size_t(d)]) * double(r.scale[std::size_t(d / group)]);
            return;
        }
        Row<float> scales(std::size_t(width), 0);
        QuantisedRow r;
        if (stored == Stored::int8 || stored == Stored::int8_f16) {
            r = int8_of(x, stored == Stored::int8_f16);
            std::fill(scales.begin(), scales.end(), r.scale[0]);
            if (stored == Stored::int8) scale(p, i, h) = r.scale[0];
            if (stored == Stored::int8_f16) scale_f16(p, i, h) = Float16(r.scale[0]);
        } else {
            for (std::int64_t d = 0; d < width; d++)
                scales[std::size_t(d)] = static_scale.data()[stored == Stored::int8_channel ? h * width + d : 0];
            r = int8_of(x, scales);
        }
        for (std::int64_t d = 0; d < width; d++) {
            int8(p, i, h, d) = std::int8_t(r.q[std::size_t(d)]);
            row[d] = double(r.q[std::size_t(d)]) * double(scales[std::size_t(d)]);
        }
    }
};

struct QuantisedCase {
    PagedCase pages;
    Stored keys = Stored::int8, values = Stored::int8;
    std::int64_t group = 32;  // of int4; -1: all channels
};
inline std::string describe(const QuantisedCase &c) {
    std::ostringstream text;
    text << "keys " << name_of(c.keys) << " values " << name_of(c.values) << " group " << c.group << " page " << c.pages.page
         << " Hq " << c.pages.query_heads << " Hkv " << c.pages.key_heads << " Dk " << c.pages.head_dim << " Dv "
         << c.pages.value_dim << " seed " << c.pages.seed;
    return text.str();
}

template<typename T> struct QuantisedArrays {
    QuantisedCase the;
    PagedArrays<T> all;
    PagedArrays<double> numbers;  // the same tables; pools are the rows as numbers
    std::mt19937 random;
    QuantisedPool key, value;

    explicit QuantisedArrays(const QuantisedCase &c)
        : the(c), all(c.pages), numbers(c.pages), random(c.pages.seed), key(numbers.key, c.keys, c.group, random),
          value(numbers.value, c.values, c.group, random) {}

    attune::Status run(attune::Context &context, const attune::PagedOptions &options = {}) {
        return attune::paged_attention(context, all.query.view(), key.view(), value.view(), all.cu_seqlens_q(),
                                       all.block_table(), all.lens(), all.out.view(), all.with_tables(options));
    }
    // Fault by the error rule; empty: none. Kernels that read quantised rows take them as numbers of f32, all others as numbers
    // of the type of the query: a sequence is right if it is that of either.
    std::string defect(const attune::PagedOptions &options) {
        for (std::int64_t s = 0; s < all.batch(); s++) {
            if (the.pages.queries[std::size_t(s)] == 0) continue;
            const std::string exact = defect(options, s, false), rounded = exact.empty() ? "" : defect(options, s, true);
            if (!rounded.empty()) return "sequence " + std::to_string(s) + ": " + exact + "; rows rounded: " + rounded;
        }
        return {};
    }

private:
    std::string defect(const attune::PagedOptions &options, std::int64_t s, bool rounded) {
        const std::int64_t first = all.ends[std::size_t(s)], queries = the.pages.queries[std::size_t(s)];
        const attune::ConstView q = sequence_of(all.query.view(), first, queries);
        Array<double> k = numbers.rows_in_order(numbers.key, s), v = numbers.rows_in_order(numbers.value, s);
        const auto round = [](double &x) { x = stored_as<T>(x); };
        if (rounded) k.each(round), v.each(round);
        Array<T> bias;
        const InOrder given = in_order(options, all, s, k.view().extent[2], bias);
        const auto exact = sdpa_of_rows<double, T>(rows_of<double, T>(q), rows_of<double, double>(k.view()),
                                                   rows_of<double, double>(v.view()), given.options, 4);
        k.each(round), v.each(round);
        const auto plain = sdpa_of_rows<Sum<T>, T, T>(rows_of<Sum<T>, T>(q), rows_of<Sum<T>, double>(k.view()),
                                                      rows_of<Sum<T>, double>(v.view()), given.options, 4);
        const Verdict of_out = judge(exact.out, plain.out, rows_of<T, T>(sequence_of(all.out.view(), first, queries)).data);
        if (!of_out.right) return "out: " + of_out.why;
        attune::View lse = sequence_of(all.lse.view(), first, queries);
        lse.rank = 4, lse.extent[3] = 1, lse.stride[3] = 1;
        const Verdict of_lse = judge(exact.lse, plain.lse, rows_of<Sum<T>, Sum<T>>(lse).data);
        return of_lse.right ? "" : "lse: " + of_lse.why;
    }
};

}  // namespace attune_test
