// SPDX-License-Identifier: MIT
// Steps on rows (norm, RoPE, Hadamard rotation), and appends to pages and caches.
#include "attune/kv_cache.h"
#include "tests/fuzz/family.h"
#include "tests/support/append_case.h"

namespace attune_fuzz {
namespace {
using namespace attune_test;

RowsCase draw_rows(Draw &draw) {
    RowsCase c;
    c.seed = draw.seed();
    c.batch = draw.number("batch", 1, 3), c.heads = draw.number("heads", 1, 4), c.rows = draw.number("rows", 1, 40);
    c.head_dim = draw.number("head_dim", 1, 300);
    if (draw.flag("eights")) c.head_dim = (c.head_dim + 7) / 8 * 8;
    c.norm = draw.flag("norm"), c.weight_by_head = c.norm && draw.flag("weight_by_head", 3);
    c.weight_is_f32 = c.norm && draw.flag("weight_is_f32", 3);
    if (c.head_dim >= 2) c.pairs = static_cast<Pairs>(draw.one_of("pairs", {"none", "halves", "interleaved"}));
    if (c.pairs != Pairs::none && (c.head_dim % 2 != 0 || draw.flag("part", 3))) {
        c.dim = 2 * draw.number("turned_pairs", 1, c.head_dim / 2);
        c.offset = draw.number("turned_from", 0, c.head_dim - c.dim);
    }
    c.own_tables = c.pairs != Pairs::none && draw.flag("own_tables", 3);
    c.hadamard = c.head_dim % 8 == 0 && draw.flag("hadamard", 3);
    c.layout = draw_layout(draw, "layout", true), c.out_layout = draw_layout(draw, "out_layout", true);
    c.in_place = draw.flag("in_place", 4);
    return c;
}

struct CacheCase {
    std::vector<std::int32_t> held, new_lens;
    std::int64_t heads, rows, capacity, head_dim, value_dim;
    Layout rows_layout, cache_layout;
    bool slides;
    unsigned seed;
};
// Reference: the held rows, then the new ones, of which the last that fit are kept; memory beyond is unchanged.
template<typename T> std::vector<T> grown(const CacheCase &c, Array<T> &cache, Array<T> &rows, std::int64_t width) {
    std::vector<T> all;
    for (std::size_t b = 0; b < c.held.size(); b++)
        for (std::int64_t h = 0; h < c.heads; h++) {
            std::vector<T *> sequence;
            const std::int64_t added = c.new_lens.empty() ? c.rows : c.new_lens[b], at = std::int64_t(b);
            for (std::int64_t n = 0; n < c.held[b]; n++) sequence.push_back(&cache(at, h, n, 0));
            for (std::int64_t n = 0; n < added; n++) sequence.push_back(&rows(at, h, n, 0));
            sequence.erase(sequence.begin(),
                           sequence.begin() + std::max<std::int64_t>(std::int64_t(sequence.size()) - c.capacity, 0));
            for (std::int64_t n = std::int64_t(sequence.size()); n < c.capacity; n++) sequence.push_back(&cache(at, h, n, 0));
            for (const T *row : sequence) all.insert(all.end(), row, row + width);
        }
    return all;
}

}  // namespace

void run_rows(Draw &draw) {
    with_any_type(draw, [&](auto zero) {
        using T = decltype(zero);
        const RowsCase c = draw_rows(draw);
        attune::Context context(draw_context(draw));
        const DrawnFence fence(draw);
        if (draw.flag("gradients", 3)) return check_gradients<T>(context, c);
        check_case<T>(context, c);
        if (c.in_place) return;
        RowsArrays<T> first(c), second(c);
        const Inputs inputs(first.x, first.weight, first.weight_f32, first.cos, first.sin, first.positions);
        attune::Context apart(draw_context(draw, "other_"));
        check(first.run(context).ok() && second.run(apart).ok(), "refused the second time");
        inputs.check_unchanged();
        check(same_bits(first.out.values(), second.out.values()), "other bits with another Context");
    });
}

void run_append(Draw &draw) {
    with_type<float, BFloat16, Float16>(draw, [&](auto zero) {
        PagedAppendCase c;
        c.steps = draw_rows(draw);
        c.steps.batch = 1, c.steps.in_place = false;
        const std::vector<std::string> names = {"as_given", "int8", "int8_f16", "int8_tensor", "int8_channel", "int4"};
        c.keys = static_cast<Stored>(draw.one_of("keys", names));
        c.values = static_cast<Stored>(draw.one_of("values", names));
        // Both or none are quantised.
        if ((c.keys == Stored::as_given) != (c.values == Stored::as_given)) c.values = c.keys;
        c.value_dim = draw.number("value_dim", 1, 300);
        c.rotate_values = c.value_dim % 8 == 0 && draw.flag("rotate_values", 3);
        constexpr std::int64_t groups[] = {-1, 32, 64};
        c.group = groups[draw.one_of("int4_group", {"all", "32", "64"})];
        if (c.group > 0 && (c.steps.head_dim % c.group != 0 || c.value_dim % c.group != 0)) c.group = -1;
        if (c.steps.head_dim % 2 != 0 && c.keys == Stored::int4) c.keys = Stored::int8;
        if (c.value_dim % 2 != 0 && c.values == Stored::int4) c.values = Stored::int8_f16;
        c.heads_first = draw.flag("heads_first");
        constexpr double spreads[] = {1.7, 1e-7, 3e4};
        c.spread = spreads[draw.one_of("spread", {"one", "small", "large"}, 3)];
        attune::Context context(draw_context(draw)), one({.threads = 1});
        const DrawnFence fence(draw);
        check_case<decltype(zero)>(context, one, c);
    });
}

void run_cache(Draw &draw) {
    with_any_type(draw, [&](auto zero) {
        using T = decltype(zero);
        CacheCase c;
        c.seed = draw.seed(), c.slides = draw.flag("slides", 3);
        const std::int64_t batch = draw.number("batch", 1, 3);
        c.heads = draw.number("heads", 1, 3), c.rows = draw.number("rows", 1, 40), c.capacity = draw.number("capacity", 1, 80);
        if (!c.slides) c.capacity = std::max(c.capacity, c.rows);
        const bool some = draw.flag("new_lens", 3);
        for (std::int64_t b = 0; b < batch; b++) {
            const std::string n = std::to_string(b);
            c.held.push_back(std::int32_t(draw.number("held" + n, 0, c.slides ? c.capacity : c.capacity - c.rows)));
            if (some) c.new_lens.push_back(std::int32_t(draw.number("new" + n, 0, c.rows)));
        }
        c.head_dim = draw.number("head_dim", 1, 130), c.value_dim = draw.number("value_dim", 1, 130);
        c.rows_layout = draw_layout(draw, "rows_layout"), c.cache_layout = draw_layout(draw, "cache_layout", true);
        attune::Context context(draw_context(draw));
        const DrawnFence fence(draw);
        Array<T> key({batch, c.heads, c.rows, c.head_dim}, c.rows_layout);
        Array<T> value({batch, c.heads, c.rows, c.value_dim}, c.rows_layout);
        Array<T> key_cache({batch, c.heads, c.capacity, c.head_dim}, c.cache_layout, poison<T>(2));
        Array<T> value_cache({batch, c.heads, c.capacity, c.value_dim}, c.cache_layout, poison<T>(2));
        std::mt19937 random(c.seed);
        for (Array<T> *a : {&key, &value, &key_cache, &value_cache}) a->randomise(random, 2);
        const auto keys = grown(c, key_cache, key, c.head_dim), values = grown(c, value_cache, value, c.value_dim);
        const Inputs inputs(key, value);
        attune::KvAppendOptions o{.when_full = c.slides ? attune::CacheWhenFull::slide : attune::CacheWhenFull::refuse};
        if (some) o.new_lens = attune::ConstView(c.new_lens.data(), {batch});
        const attune::Status status =
            attune::kv_append(context, key.view(), value.view(), attune::ConstView(c.held.data(), {batch}), key_cache.view(),
                              value_cache.view(), o);
        check(status.ok(), "refused: " + status.message());
        inputs.check_unchanged();
        check(same_bits(key_cache.values(), keys), "keys are other rows");
        check(same_bits(value_cache.values(), values), "values are other rows");
        check(key_cache.gaps_untouched() && value_cache.gaps_untouched(), "written beyond the caches");
    });
}

}  // namespace attune_fuzz
