// SPDX-License-Identifier: MIT
#include "attune/append.h"
#include "serving/page_checks.h"
#include "serving/rows_device.h"
#include "tensors/checks.h"
#include "tensors/max_magnitude.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

namespace attune {
namespace {

// Bytes that a core copies in about the time in which another core wakes, and rows of a task of copies.
constexpr std::int64_t bytes_per_thread = 1 << 20, rows_of_copy = 64;

// Keys or values of a call.
struct AppendedRows {
    std::string_view name;
    ConstView x;  // (1, H, T, D)
    StepsOfRows steps;
    PagesToWrite pages;
    Choice choice;
};
struct AppendCall {
    AppendedRows key, value;
    std::vector<std::int64_t> slots;
};

// Slots on a device are not read.
Status check_slots(const ConstView &slots, bool on_device, AppendCall &c) {
    if (slots.rank != 1) return invalid("slots", "rank must be 1 (T), got " + text(slots.rank));
    if (slots.dtype != DType::i64) return invalid("slots", std::string("type must be i64, got ") + name_of(slots.dtype));
    if (Status s = check_memory("slots", slots); !s.ok()) return s;
    const std::int64_t rows = c.key.x.extent[2];
    if (Status s = check_extent("slots", "number of entries", slots.extent[0], "key's rows", rows); !s.ok()) return s;
    if (on_device) return {};
    const std::int64_t end = c.key.pages.pages() * c.key.pages.page();
    for (std::int64_t t = 0; t < rows; t++) {
        const std::int64_t slot = static_cast<const std::int64_t *>(slots.data)[t * slots.stride[0]];
        if (slot < -1 || slot >= end)
            return invalid("slots", "entry (" + text(t) + ") is " + text(slot) + ", must be from -1 to " + text(end - 1) +
                                        ", the last row of the pages");
        c.slots.push_back(slot);
    }
    std::vector<std::int64_t> sorted;
    std::copy_if(c.slots.begin(), c.slots.end(), std::back_inserter(sorted), [](std::int64_t slot) { return slot >= 0; });
    std::sort(sorted.begin(), sorted.end());
    if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
        return invalid("slots", "slot " + text(*twice) + " is named twice");
    return {};
}

Status check(const ConstView &key, const ConstView &value, const ConstView &slots, const Pages &key_pages,
             const Pages &value_pages, const AppendOptions &options, bool on_device, AppendCall &c) {
    if (Status s = check_rows("key", key, 3); !s.ok()) return s;
    if (Status s = check_rows("value", value, 3); !s.ok()) return s;
    if (Status s = check_same_type("value", value.dtype, "key", key.dtype); !s.ok()) return s;
    const ExtentMatch rows[] = {{"value", "number of rows", value.extent[0], "key", key.extent[0]},
                                {"value", "number of heads", value.extent[1], "key", key.extent[1]}};
    if (Status s = check_extents(rows); !s.ok()) return s;
    c.key.name = "key", c.value.name = "value";
    c.key.x = as_rows_of_heads(key), c.value.x = as_rows_of_heads(value);
    if (Status s = check_steps("key_steps.", options.key_steps, c.key.x, c.key.steps); !s.ok()) return s;
    if (Status s = check_positions("positions", options.positions, "(T)", c.key.x, on_device, c.key.steps); !s.ok()) return s;
    if (options.rotate_values)
        if (Status s = check_hadamard("rotate_values", c.value.x, c.value.steps); !s.ok()) return s;
    if (Status s = check_pages_to_write("key_pages", key_pages, "key", c.key.x, on_device, c.key.pages); !s.ok()) return s;
    if (Status s = check_pages_to_write("value_pages", value_pages, "value", c.value.x, on_device, c.value.pages); !s.ok())
        return s;
    const ExtentMatch pages[] = {{"value_pages", "number of pages", c.value.pages.pages(), "key_pages", c.key.pages.pages()},
                                 {"value_pages", "rows of a page", c.value.pages.page(), "key_pages", c.key.pages.page()}};
    if (Status s = check_extents(pages); !s.ok()) return s;
    if (Status s = check_slots(slots, on_device, c); !s.ok()) return s;

    const auto written = [](const AppendedRows &r, const View &scale) {
        return r.pages.out.static_scale.given() ? View() : scale;
    };
    const auto read = [](const AppendedRows &r, const View &scale) {
        return r.pages.out.static_scale.given() ? ConstView(scale) : ConstView();
    };
    const std::array<NamedView, 9> inputs{{{"key", key},
                                           {"value", value},
                                           {"slots", slots},
                                           {"positions", options.positions},
                                           {"key_steps.norm_weight", options.key_steps.norm_weight},
                                           {"key_steps.rope.cos", options.key_steps.rope.cos},
                                           {"key_steps.rope.sin", options.key_steps.rope.sin},
                                           {"key_pages.scale", read(c.key, key_pages.scale)},
                                           {"value_pages.scale", read(c.value, value_pages.scale)}}};
    const std::array<NamedView, 6> outputs{{{"key_pages.rows", key_pages.rows},
                                            {"key_pages.scale", written(c.key, key_pages.scale)},
                                            {"key_pages.minimum", key_pages.minimum},
                                            {"value_pages.rows", value_pages.rows},
                                            {"value_pages.scale", written(c.value, value_pages.scale)},
                                            {"value_pages.minimum", value_pages.minimum}}};
    return check_overlaps(inputs, outputs);
}

// The largest magnitude of a row for which no step leaves the range of f32: RoPE at most doubles it, the rotation sums a block,
// and RMS norm makes at most sqrt(D) times the weight.
bool steps_are_finite(float largest, const StepsOfRows &steps, std::int64_t sums) {
    const double growth =
        (steps.halves + steps.neighbours > 0 ? 2. : 1.) * static_cast<double>(std::int64_t(1) << steps.butterflies);
    return static_cast<double>(largest) * growth * static_cast<double>(sums) <=
           static_cast<double>(std::numeric_limits<float>::max());
}

// Checks rows that are to be quantised for NaN, Inf and numbers whose rotation may leave the range of f32.
Status check_finite(Context::State &context, const AppendCall &c, const AppendedRows &r) {
    if (!r.pages.quantised) return {};
    const ConstView &weight = r.steps.norm_weight;
    if (weight.given()) {
        ConstView as4 = weight;
        as4.rank = 4;
        as4.extent[0] = as4.extent[1] = 1, as4.stride[0] = as4.stride[1] = 0;
        as4.extent[2] = weight.stride[0] == 0 ? 1 : weight.extent[0], as4.stride[2] = weight.stride[0];
        as4.extent[3] = weight.extent[1], as4.stride[3] = weight.stride[1];
        float largest = 0;
        if (Status s = max_magnitude(context, as4, &largest); !s.ok()) return s;
        if (!steps_are_finite(largest, r.steps, weight.extent[1]))
            return invalid("key_steps.norm_weight", "holds NaN, Inf, or a number whose rotation may leave the range of f32");
    }
    const auto fits = [&](float largest) {
        return weight.given() ? all_finite(largest) : steps_are_finite(largest, r.steps, 1);
    };
    float largest = 0;
    if (Status s = max_magnitude(context, r.x, &largest); !s.ok()) return s;
    if (fits(largest)) return {};
    // Rows that are skipped may hold anything.
    const ConstView &x = r.x;
    ConstView by_row = x;
    by_row.extent[0] = x.extent[2], by_row.stride[0] = x.stride[2];
    by_row.extent[2] = 1, by_row.stride[2] = 0;
    std::vector<float> of_rows(static_cast<std::size_t>(x.extent[2]));
    if (Status s = max_magnitude(context, by_row, of_rows.data()); !s.ok()) return s;
    for (std::int64_t t = 0; t < x.extent[2]; t++)
        if (const float of_row = of_rows[static_cast<std::size_t>(t)];
            c.slots[static_cast<std::size_t>(t)] >= 0 && !fits(of_row))
            return invalid(r.name,
                           "row " + text(t) + " is quantised and holds " +
                               (all_finite(of_row) ? "numbers whose rotation may leave the range of f32" : "NaN or Inf"));
    return {};
}

// Copies rows that take no steps: all heads at once where they are contiguous on both sides.
Status copy_rows(Context::State &context, const AppendCall &c, const AppendedRows &r) {
    const ConstView &x = r.x;
    const View &out = r.pages.out.rows;
    const std::int64_t size = size_of(x.dtype), page = r.pages.page(), rows = x.extent[2], width = x.extent[3];
    const bool whole = x.extent[1] == 1 || (x.stride[1] == width && out.stride[1] == width);
    const std::int64_t heads = whole ? 1 : x.extent[1];
    const auto bytes = static_cast<std::size_t>((whole ? x.extent[1] : 1) * width * size);
    const auto copy = [&](std::int64_t task, int) -> Status {
        for (std::int64_t t = task * rows_of_copy; t < std::min(rows, (task + 1) * rows_of_copy); t++) {
            const std::int64_t slot = c.slots[static_cast<std::size_t>(t)];
            if (slot < 0) continue;
            const char *const from = static_cast<const char *>(x.data) + size * t * x.stride[2];
            char *const to = static_cast<char *>(out.data) + size * (slot / page * out.stride[0] + slot % page * out.stride[2]);
            for (std::int64_t h = 0; h < heads; h++)
                std::memcpy(to + size * h * out.stride[1], from + size * h * x.stride[1], bytes);
        }
        return {};
    };
    const std::int64_t worth = elements_of(x) * size / bytes_per_thread;
    const int threads = static_cast<int>(std::clamp<std::int64_t>(worth, 1, context.threads));
    return run_tasks(context, ceil_div(rows, rows_of_copy), threads, copy);
}

// Stores the rows that have slots.
Status store(Context::State &context, const AppendCall &c, const AppendedRows &r, const StepTables &tables) {
    if (!r.pages.quantised && !r.steps.any()) return copy_rows(context, c, r);
    const std::int64_t page = r.pages.page();
    RowPlaces places(c.slots.size());
    std::transform(c.slots.begin(), c.slots.end(), places.begin(), [page](std::int64_t slot) {
        if (slot < 0) return RowPlace{-1, 0};
        return RowPlace{static_cast<std::int32_t>(slot % page), static_cast<std::int32_t>(slot / page)};
    });
    const QuantisedOut &out = r.pages.out;
    return r.pages.quantised ? store_quantised_rows(context, *r.choice.variant, r.steps, tables, r.x, places, out)
                             : store_rows(context, *r.choice.variant, r.steps, tables, r.x, places, out.rows);
}

const Op &op_of(const AppendedRows &r) { return r.pages.quantised ? ops::quantise_rows : ops::transform_rows; }
std::string sizes_text(const AppendCall &c) {
    const std::int64_t *key = c.key.x.extent;
    return "h " + text(key[1]) + " t " + text(key[2]) + " dk " + text(key[3]) + " dv " + text(c.value.x.extent[3]);
}

// On a device the kernel reads the slots. Rows whose slot is not in the pool are not stored.
Status append_on_device(Context::State &context, const ConstView &key, const ConstView &value, const ConstView &slots,
                        const Pages &key_pages, const Pages &value_pages, const AppendOptions &options) {
    const CallStart start = start_of_call();
    const RowSteps &steps = options.key_steps;
    const NamedView all[] = {{"key", key},
                             {"value", value},
                             {"slots", slots},
                             {"key_pages.rows", key_pages.rows},
                             {"key_pages.scale", key_pages.scale},
                             {"key_pages.minimum", key_pages.minimum},
                             {"value_pages.rows", value_pages.rows},
                             {"value_pages.scale", value_pages.scale},
                             {"value_pages.minimum", value_pages.minimum},
                             {"positions", options.positions},
                             {"key_steps.norm_weight", steps.norm_weight},
                             {"key_steps.rope.cos", steps.rope.cos},
                             {"key_steps.rope.sin", steps.rope.sin}};
    if (Status s = check_places(all, "key"); !s.ok()) return s;
    AppendCall c;
    if (Status s = check(as_host(key), as_host(value), as_host(slots), as_host(key_pages), as_host(value_pages),
                         as_host(options), true, c);
        !s.ok())
        return s;
    if (Status s = check_rows_on_device("key", "key_steps.", c.key.x, c.key.steps, all); !s.ok()) return s;
    if (const std::int64_t rows = c.key.pages.pages() * c.key.pages.page(); rows > most_extent)
        return unsupported("key_pages.rows", "a pool of " + text(rows) + " rows; on a device it has less than 2^31");
    ConstView by_entry = as_host(slots);
    by_entry.rank = 2, by_entry.extent[1] = slots.extent[0], by_entry.stride[1] = slots.stride[0];
    by_entry.extent[0] = 1, by_entry.stride[0] = 0;
    const auto rows_of = [&](const AppendedRows &r) { return DeviceRows{.x = r.x, .steps = r.steps, .slots = by_entry}; };
    for (AppendedRows *r : {&c.key, &c.value})
        if (Status s = choose_rows_on_device(context, op_of(*r), rows_of(*r), r->choice); !s.ok()) return s;
    for (const AppendedRows *r : {&c.key, &c.value}) {
        if (!r->choice.variant || elements_of(r->pages.out.rows) == 0) continue;
        const VariantRecord &variant = *r->choice.variant;
        const Status s = r->pages.quantised ? store_quantised_rows_on_device(context, variant, rows_of(*r), r->pages.out)
                                            : store_rows_on_device(context, variant, rows_of(*r), r->pages.out.rows);
        if (!s.ok()) return s;
    }
    record_call(context, c.key.choice, op_of(c.key).name, start, [&] { return sizes_text(c); });
    return {};
}

Status append(Context::State &context, const ConstView &key, const ConstView &value, const ConstView &slots,
              const Pages &key_pages, const Pages &value_pages, const AppendOptions &options, std::string_view why_here = {}) {
    if (key.place == Place::device) {
        std::string instead;
        if (Status s = find_device(context, "key", instead); !s.ok()) return s;
        if (instead.empty()) return append_on_device(context, key, value, slots, key_pages, value_pages, options);
        return append(context, as_host(key), as_host(value), as_host(slots), as_host(key_pages), as_host(value_pages),
                      as_host(options), instead);
    }
    const CallStart start = start_of_call();
    AppendCall c;
    if (Status s = check(key, value, slots, key_pages, value_pages, options, false, c); !s.ok()) return s;
    // Nothing may fail once rows are stored.
    std::optional<StepTables> tables[2];
    for (AppendedRows *r : {&c.key, &c.value}) {
        if (!r->pages.quantised && !r->steps.any())
            r->choice = {nullptr, "copies rows"};
        else if (Status s = choose_rows(context, op_of(*r), key.dtype, r->choice); !s.ok())
            return s;
        if (Status s = check_finite(context, c, *r); !s.ok()) return s;
        const StepTables &t = tables[r == &c.value].emplace(context, r->steps, r->x);
        if (!t.status.ok()) return t.status;
    }
    const bool any =
        elements_of(c.key.x) > 0 && std::any_of(c.slots.begin(), c.slots.end(), [](std::int64_t slot) { return slot >= 0; });
    if (any) {
        if (Status s = store(context, c, c.key, *tables[0]); !s.ok()) return s;
        if (Status s = store(context, c, c.value, *tables[1]); !s.ok()) return s;
    }
    Choice choice = any ? c.key.choice : Choice{nullptr, "no rows"};
    if (!why_here.empty()) choice.reason = why_here;
    record_call(context, choice, op_of(c.key).name, start, [&] { return sizes_text(c); });
    return {};
}

}  // namespace

Status paged_append(Context &context, const ConstView &key, const ConstView &value, const ConstView &slots,
                    const Pages &key_pages, const Pages &value_pages, const AppendOptions &options) noexcept {
    const auto body = [](Context::State &state, const ConstView &k, const ConstView &v, const ConstView &to, const Pages &kp,
                         const Pages &vp, const AppendOptions &o) { return append(state, k, v, to, kp, vp, o); };
    return answer(context, body, key, value, slots, key_pages, value_pages, options);
}

}  // namespace attune
