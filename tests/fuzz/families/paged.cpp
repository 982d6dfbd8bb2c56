// SPDX-License-Identifier: MIT
// Attention over pages: the bits of dense attention over the rows in order, and for quantised rows the numbers of the reference
// over the dequantised ones.
#include "tests/fuzz/family.h"
#include "tests/support/quantised_case.h"

namespace attune_fuzz {
namespace {
using namespace attune_test;

PagedCase draw_pages(Draw &draw) {
    PagedCase c;
    c.seed = draw.seed();
    constexpr std::int64_t pages[] = {16, 32, 48, 64, 128, 1};
    c.page = pages[draw.one_of("page", {"16", "32", "48", "64", "128", "1"})];
    c.heads_first = draw.flag("heads_first"), c.list = draw.flag("list", 3);
    const std::int64_t count = draw.number("sequences", 1, 6);
    for (std::int64_t s = 0; s < count; s++) {
        const std::string n = std::to_string(s);
        c.queries.push_back(std::int32_t(draw.number("queries" + n, 0, draw.flag("prompt" + n, 4) ? 140 : 3)));
        c.rows.push_back(c.queries.back() + std::int32_t(draw.number("older" + n, 0, 500)));
    }
    constexpr std::int64_t widths[][2] = {{16, 16}, {64, 64}, {128, 128}, {17, 21}, {40, 24}};
    const auto &w = widths[draw.one_of("widths", {"16", "64", "128", "17,21", "40,24"})];
    c.head_dim = w[0], c.value_dim = w[1];
    c.key_heads = draw.number("key_heads", 1, 3), c.query_heads = c.key_heads * draw.number("group", 1, 5);
    if (draw.flag("prefix", 4)) {
        c.prefix_rows = {std::int32_t(16 * draw.number("prefix_rows", 0, 12)), 64};
        for (std::int64_t s = 0; s < count; s++)
            c.prefix_of.push_back(std::int32_t(draw.number("prefix_of" + std::to_string(s), -1, 1)));
    }
    return c;
}

// Options; those of PagedOptionsOfSeed.
attune::PagedOptions draw_options(Draw &draw, PagedOptionsOfSeed &given) {
    attune::PagedOptions o = given.options;
    o.invariant = draw.flag("invariant", 6);
    return o;
}

// The bits of dense attention over each sequence's rows in order.
template<typename T> void check_in_order(PagedArrays<T> &all, const attune::PagedOptions &options) {
    PagedArrays<T> alone(all.the);
    attune::Context one({.threads = 1});
    for (std::int64_t s = 0; s < all.batch(); s++) {
        const std::int64_t queries = all.the.queries[std::size_t(s)], first = all.ends[std::size_t(s)];
        if (queries == 0) continue;
        Array<T> key = all.rows_in_order(all.key, s), value = all.rows_in_order(all.value, s), bias;
        InOrder given = in_order(options, all, s, key.view().extent[2], bias);
        given.options.lse = sequence_of(alone.lse.view(), first, queries);
        given.options.invariant = options.invariant;
        const attune::Status status =
            attune::scaled_dot_product_attention(one, sequence_of(all.query.view(), first, queries), key.view(), value.view(),
                                                 sequence_of(alone.out.view(), first, queries), given.options);
        check(status.ok(), "sequence " + std::to_string(s) + " over dense rows was refused: " + status.message());
    }
    check(same_bits(all.out.values(), alone.out.values()), "out: other bits than over dense rows");
    check(same_bits(all.lse.values(), alone.lse.values()), "lse: other bits than over dense rows");
}

constexpr Stored stored_types[] = {Stored::int8, Stored::int8_f16, Stored::int8_tensor, Stored::int8_channel, Stored::int4};
const std::vector<std::string> stored_names = {"int8", "int8_f16", "int8_tensor", "int8_channel", "int4"};

}  // namespace

void run_paged(Draw &draw) {
    with_any_type(draw, [&](auto zero) {
        using T = decltype(zero);
        const PagedCase c = draw_pages(draw);
        PagedOptionsOfSeed given(unsigned(draw.number("options", 0, 500)), c.query_heads);
        const attune::PagedOptions o = draw_options(draw, given);
        attune::Context context(draw_context(draw));
        const DrawnFence fence(draw);
        PagedArrays<T> a(c);
        const Inputs inputs(a.query, a.key, a.value);
        const attune::Status status = a.run(context, o);
        inputs.check_unchanged();
        check(status.ok(), "refused: " + status.message());
        INFO("ran " << context.last_variant());
        check(a.out.gaps_untouched() && a.lse.gaps_untouched(), "written beyond the outputs");
        check_in_order(a, o);
    });
}

void run_quantised(Draw &draw) {
    with_type<float, BFloat16, Float16>(draw, [&](auto zero) {
        using T = decltype(zero);
        QuantisedCase c{draw_pages(draw)};
        c.keys = stored_types[draw.one_of("keys", stored_names)];
        c.values = draw.flag("other_values", 3) ? stored_types[draw.one_of("values", stored_names)] : c.keys;
        constexpr std::int64_t groups[] = {-1, 32, 64};
        c.group = groups[draw.one_of("int4_group", {"all", "32", "64"})];
        if (c.group > 0 && (c.pages.head_dim % c.group != 0 || c.pages.value_dim % c.group != 0)) c.group = -1;
        if (c.pages.head_dim % 2 != 0 && c.keys == Stored::int4) c.keys = Stored::int8;
        if (c.pages.value_dim % 2 != 0 && c.values == Stored::int4) c.values = Stored::int8_channel;
        PagedOptionsOfSeed given(unsigned(draw.number("options", 0, 500)), c.pages.query_heads);
        const attune::PagedOptions o = draw_options(draw, given);
        INFO(describe(c));
        const attune::ContextOptions options = draw_context(draw);
        const DrawnFence fence(draw);
        QuantisedArrays<T> a(c);
        attune::Context context(options);
        const Inputs inputs(a.all.query, a.key.int8, a.key.int4, a.value.int8, a.value.int4);
        const attune::Status status = a.run(context, o);
        inputs.check_unchanged();
        check(status.ok(), "refused: " + status.message());
        INFO("ran " << context.last_variant());
        check(a.all.out.gaps_untouched() && a.all.lse.gaps_untouched(), "written beyond the outputs");
        check_none(a.defect(o));
        QuantisedArrays<T> again(c);
        attune::Context apart(draw_context(draw, "other_"));
        check(again.run(apart, o).ok(), "refused the second time");
        check(same_bits(a.all.out.values(), again.all.out.values()), "out: other bits with another Context");
        check(same_bits(a.all.lse.values(), again.all.lse.values()), "lse: other bits with another Context");
    });
}

}  // namespace attune_fuzz
