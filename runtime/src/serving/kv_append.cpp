// SPDX-License-Identifier: MIT
#include "attune/kv_cache.h"
#include "dispatch/op_call.h"
#include "execution/halide_call.h"
#include "serving/rows_device.h"
#include "serving/store_rows.h"
#include "tensors/checks.h"
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

namespace attune {
namespace {

// Bytes that a core copies in about the time in which another core wakes.
constexpr std::int64_t bytes_per_thread = 1 << 20;

// Change of a batch entry of both caches: rows [dropped, dropped + kept) move to the front, and the new rows [first, first +
// added) follow them.
struct Growth {
    std::int64_t dropped, kept, first, added;
};

struct AppendCall {
    ConstView key, value;
    View key_cache, value_cache;
    std::vector<Growth> growth;
    double bytes = 0;  // bytes that are moved
    // Steps before rows are stored; without them rows are copied.
    StepsOfRows key_steps = {}, value_steps = {};
    std::vector<std::int32_t> positions = {};  // of the call's own, (B, S)
};

Status check_tensor(std::string_view name, const ConstView &v, DType dtype) {
    if (v.rank != 4) return invalid(name, "rank must be 4, got " + text(v.rank));
    if (Status s = check_real(name, v); !s.ok()) return s;
    if (Status s = check_same_type(name, v.dtype, "key", dtype); !s.ok()) return s;
    if (Status s = check_memory(name, v); !s.ok()) return s;
    if (v.extent[3] < 1) return invalid(name, "last extent must be at least 1, got " + text(v.extent[3]));
    return check_dense(name, v);
}

// Lengths on a device are not read.
Status check_lens(std::string_view name, const ConstView &lens, std::int64_t batch, std::int64_t most, std::string_view what,
                  bool on_device) {
    if (lens.rank != 1) return invalid(name, "rank must be 1 (B), got " + text(lens.rank));
    if (Status s = check_ints(name, lens); !s.ok()) return s;
    if (Status s = check_extent(name, "batch (first extent)", lens.extent[0], "key", batch); !s.ok()) return s;
    for (std::int64_t b = 0; b < (on_device ? 0 : batch); b++) {
        const std::int32_t n = int_at(lens, b);
        if (n < 0 || n > most)
            return invalid(name, "entry (" + text(b) + ") is " + text(n) + ", must be from 0 to " + text(most) + ", " +
                                     std::string(what));
    }
    return {};
}

Status check_sizes(const ConstView &key, const ConstView &value, const View &key_cache, const View &value_cache) {
    const ExtentMatch matches[] = {{"value", "batch (first extent)", value.extent[0], "key", key.extent[0]},
                                   {"value", "number of heads", value.extent[1], "key", key.extent[1]},
                                   {"value", "number of rows", value.extent[2], "key", key.extent[2]},
                                   {"key_cache", "batch (first extent)", key_cache.extent[0], "key", key.extent[0]},
                                   {"key_cache", "number of heads", key_cache.extent[1], "key", key.extent[1]},
                                   {"key_cache", "head size (last extent)", key_cache.extent[3], "key", key.extent[3]},
                                   {"value_cache", "batch (first extent)", value_cache.extent[0], "key", key.extent[0]},
                                   {"value_cache", "number of heads", value_cache.extent[1], "key", key.extent[1]},
                                   {"value_cache", "capacity", value_cache.extent[2], "key_cache", key_cache.extent[2]},
                                   {"value_cache", "head size (last extent)", value_cache.extent[3], "value", value.extent[3]}};
    return check_extents(matches);
}

Status plan_growth(const ConstView &cache_lens, const KvAppendOptions &options, AppendCall &c) {
    const std::int64_t batch = c.key.extent[0], rows = c.key.extent[2], capacity = c.key_cache.extent[2];
    const double row_bytes =
        static_cast<double>(c.key.extent[3] + c.value.extent[3]) * size_of(c.key.dtype) * static_cast<double>(c.key.extent[1]);
    for (std::int64_t b = 0; b < batch; b++) {
        const std::int64_t held = int_at(cache_lens, b), n = options.new_lens.given() ? int_at(options.new_lens, b) : rows;
        const std::int64_t over = std::max<std::int64_t>(held + n - capacity, 0);
        if (over > 0 && options.when_full == CacheWhenFull::refuse)
            return invalid("cache_lens", "entry (" + text(b) + ") is " + text(held) + ", and " + text(n) +
                                             " more rows are too many for a cache of " + text(capacity));
        const std::int64_t dropped = std::min(over, held);
        c.growth.push_back({dropped, held - dropped, over - dropped, n - (over - dropped)});
        c.bytes += row_bytes * static_cast<double>((dropped > 0 ? c.growth.back().kept : 0) + c.growth.back().added);
    }
    return {};
}

// Checks the steps, and gives rows that RoPE rotates positions behind the held ones where the caller gave none.
Status check_steps(const ConstView &cache_lens, const KvAppendOptions &options, bool on_device, AppendCall &c) {
    StepsOfRows &keys = c.key_steps;
    if (Status s = check_steps("key_steps.", options.key_steps, c.key, keys); !s.ok()) return s;
    ConstView positions = options.positions;
    const bool in_order = keys.halves + keys.neighbours > 0 && !positions.given();
    if (in_order && !on_device) {
        if (options.when_full == CacheWhenFull::slide)
            return invalid("positions", "is not given, and RoPE needs it where the cache slides");
        const std::int64_t batch = c.key.extent[0], rows = c.key.extent[2];
        for (std::int64_t b = 0; b < batch; b++) {
            // Rows beyond new_lens[b] are not stored; their positions may lie beyond the tables.
            const std::int64_t added = options.new_lens.given() ? int_at(options.new_lens, b) : rows;
            for (std::int64_t i = 0; i < rows; i++)
                c.positions.push_back(static_cast<std::int32_t>(i < added ? int_at(cache_lens, b) + i : 0));
        }
        positions = ConstView(c.positions.data(), {batch, rows});
    }
    // On a device the kernel knows the positions.
    if (!in_order || !on_device)
        if (Status s = check_positions("positions", positions, "(B, S)", c.key, on_device, keys); !s.ok()) return s;
    if (options.rotate_values)
        if (Status s = check_hadamard("rotate_values", c.value, c.value_steps); !s.ok()) return s;
    return {};
}

Status check(const ConstView &cache_lens, const KvAppendOptions &options, bool on_device, AppendCall &c) {
    const DType type = c.key.dtype;
    if (Status s = check_tensor("key", c.key, type); !s.ok()) return s;
    if (Status s = check_tensor("value", c.value, type); !s.ok()) return s;
    if (Status s = check_tensor("key_cache", c.key_cache, type); !s.ok()) return s;
    if (Status s = check_tensor("value_cache", c.value_cache, type); !s.ok()) return s;
    if (Status s = check_sizes(c.key, c.value, c.key_cache, c.value_cache); !s.ok()) return s;
    const std::int64_t batch = c.key.extent[0], rows = c.key.extent[2], capacity = c.key_cache.extent[2];
    if (Status s = check_lens("cache_lens", cache_lens, batch, capacity, "the capacity of the caches", on_device); !s.ok())
        return s;
    if (options.new_lens.given())
        if (Status s = check_lens("new_lens", options.new_lens, batch, rows, "the number of rows of key", on_device); !s.ok())
            return s;
    if (options.when_full != CacheWhenFull::refuse && options.when_full != CacheWhenFull::slide)
        return invalid("when_full", "must be 0 or 1, got " + text(static_cast<int>(options.when_full)));
    if (Status s = check_steps(cache_lens, options, on_device, c); !s.ok()) return s;
    const std::array<NamedView, 8> inputs{{{"key", c.key},
                                           {"value", c.value},
                                           {"cache_lens", cache_lens},
                                           {"new_lens", options.new_lens},
                                           {"positions", options.positions},
                                           {"key_steps.norm_weight", options.key_steps.norm_weight},
                                           {"key_steps.rope.cos", options.key_steps.rope.cos},
                                           {"key_steps.rope.sin", options.key_steps.rope.sin}}};
    const std::array<NamedView, 2> outputs{{{"key_cache", c.key_cache}, {"value_cache", c.value_cache}}};
    if (Status s = check_overlaps(inputs, outputs); !s.ok()) return s;
    return on_device ? Status() : plan_growth(cache_lens, options, c);
}

// Rows of one head, copied from first to last: where rows move towards the front of the same memory, none is overwritten before
// it has been read.
struct HeadRows {
    char *data;
    std::int64_t stride;  // bytes
};
HeadRows rows_of(const ConstView &v, std::int64_t b, std::int64_t h, std::int64_t row) {
    const std::int64_t size = size_of(v.dtype);
    char *data = static_cast<char *>(const_cast<void *>(v.data));
    return {data + size * (b * v.stride[0] + h * v.stride[1] + row * v.stride[2]), v.stride[2] * size};
}
void copy_rows(HeadRows to, HeadRows from, std::int64_t rows, std::int64_t row_bytes) {
    if (to.stride == row_bytes && from.stride == row_bytes) row_bytes *= rows, rows = rows > 0;
    for (std::int64_t n = 0; n < rows; n++)
        std::memmove(to.data + n * to.stride, from.data + n * from.stride, static_cast<std::size_t>(row_bytes));
}

// Moves the held rows, and copies the new ones unless a kernel stores them.
void grow_head(const ConstView &rows, const View &cache, const Growth &g, bool copies, std::int64_t b, std::int64_t h) {
    const std::int64_t row_bytes = rows.extent[3] * size_of(rows.dtype);
    if (g.dropped > 0) copy_rows(rows_of(cache, b, h, 0), rows_of(cache, b, h, g.dropped), g.kept, row_bytes);
    if (copies) copy_rows(rows_of(cache, b, h, g.kept), rows_of(rows, b, h, g.first), g.added, row_bytes);
}

// Stores the new rows of one cache after their steps.
Status store_new_rows(Context::State &state, const AppendCall &call, const VariantRecord &variant, const StepsOfRows &steps,
                      const StepTables &tables, const ConstView &rows, const View &cache) {
    RowPlaces places;
    for (std::int64_t b = 0; b < rows.extent[0]; b++)
        for (std::int64_t i = 0; i < rows.extent[2]; i++) {
            const Growth &g = call.growth[static_cast<std::size_t>(b)];
            const bool added = i >= g.first && i < g.first + g.added;
            places.push_back({static_cast<std::int32_t>(added ? g.kept + i - g.first : -1), static_cast<std::int32_t>(b)});
        }
    return store_rows(state, variant, steps, tables, rows, places, cache);
}

std::string sizes_text(const AppendCall &c) {
    return "b " + text(c.key.extent[0]) + " h " + text(c.key.extent[1]) + " rows " + text(c.key.extent[2]) + " capacity " +
           text(c.key_cache.extent[2]) + " d " + text(c.key.extent[3]) + "/" + text(c.value.extent[3]);
}

// On a device the kernel reads the lengths. Rows for which a cache has no room are not stored.
Status append_on_device(Context::State &state, const ConstView &cache_lens, const KvAppendOptions &given, AppendCall call) {
    const CallStart start = start_of_call();
    const NamedView all[] = {{"key", call.key},
                             {"value", call.value},
                             {"cache_lens", cache_lens},
                             {"key_cache", call.key_cache},
                             {"value_cache", call.value_cache},
                             {"new_lens", given.new_lens},
                             {"positions", given.positions},
                             {"key_steps.norm_weight", given.key_steps.norm_weight},
                             {"key_steps.rope.cos", given.key_steps.rope.cos},
                             {"key_steps.rope.sin", given.key_steps.rope.sin}};
    if (Status s = check_places(all, "key"); !s.ok()) return s;
    const KvAppendOptions options = as_host(given);
    for (ConstView *v : {&call.key, &call.value}) *v = as_host(*v);
    for (View *v : {&call.key_cache, &call.value_cache}) *v = as_host(*v);
    if (Status s = check(as_host(cache_lens), options, true, call); !s.ok()) return s;
    if (options.when_full == CacheWhenFull::slide) return unsupported("when_full", "caches on a device do not slide");
    if (Status s = check_rows_on_device("key", "key_steps.", call.key, call.key_steps, all); !s.ok()) return s;
    const auto rows_of = [&](const ConstView &x, const StepsOfRows &steps) {
        return DeviceRows{.x = x, .steps = steps, .held_rows = as_host(cache_lens), .new_rows = options.new_lens};
    };
    const DeviceRows keys = rows_of(call.key, call.key_steps), values = rows_of(call.value, call.value_steps);
    Choice of_keys, of_values;
    if (Status s = choose_rows_on_device(state, ops::transform_rows, keys, of_keys); !s.ok()) return s;
    if (Status s = choose_rows_on_device(state, ops::transform_rows, values, of_values); !s.ok()) return s;
    if (of_keys.variant) {
        if (Status s = store_rows_on_device(state, *of_keys.variant, keys, call.key_cache); !s.ok()) return s;
        if (Status s = store_rows_on_device(state, *of_values.variant, values, call.value_cache); !s.ok()) return s;
    }
    record_call(state, of_keys, "kv_append", start, [&] { return sizes_text(call); });
    return {};
}

Status append(Context::State &state, const ConstView &cache_lens, const KvAppendOptions &options, AppendCall call,
              std::string_view why_here = {}) {
    if (call.key.place == Place::device) {
        std::string instead;
        if (Status s = find_device(state, "key", instead); !s.ok()) return s;
        if (instead.empty()) return append_on_device(state, cache_lens, options, std::move(call));
        const AppendCall here{as_host(call.key), as_host(call.value), as_host(call.key_cache), as_host(call.value_cache), {}};
        return append(state, as_host(cache_lens), as_host(options), here, instead);
    }
    const CallStart start = start_of_call();
    const ConstView &key = call.key, &value = call.value;
    const View &key_cache = call.key_cache, &value_cache = call.value_cache;
    if (Status s = check(cache_lens, options, false, call); !s.ok()) return s;
    // Nothing may fail once rows move.
    const bool any = call.bytes > 0;
    const bool key_steps = any && call.key_steps.any(), value_steps = any && call.value_steps.any();
    Choice choice{nullptr, "copies rows"};
    std::optional<StepTables> of_keys, of_values;
    if (key_steps || value_steps) {
        if (Status s = choose_rows(state, ops::transform_rows, key.dtype, choice); !s.ok()) return s;
        for (const StepTables *t :
             {&of_keys.emplace(state, call.key_steps, key), &of_values.emplace(state, call.value_steps, value)})
            if (!t->status.ok()) return t->status;
    }
    const std::int64_t heads = key.extent[1], tasks = call.bytes > 0 ? 2 * key.extent[0] * heads : 0;
    const auto copy = [&](std::int64_t n, int) -> Status {
        const std::int64_t b = n / 2 / heads, h = n / 2 % heads;
        const Growth &g = call.growth[static_cast<std::size_t>(b)];
        n % 2 ? grow_head(value, value_cache, g, !value_steps, b, h) : grow_head(key, key_cache, g, !key_steps, b, h);
        return {};
    };
    const int threads = static_cast<int>(std::clamp<double>(call.bytes / bytes_per_thread, 1, state.threads));
    if (Status s = run_tasks(state, tasks, threads, copy); !s.ok()) return s;
    if (key_steps)
        if (Status s = store_new_rows(state, call, *choice.variant, call.key_steps, *of_keys, key, key_cache); !s.ok())
            return s;
    if (value_steps)
        if (Status s = store_new_rows(state, call, *choice.variant, call.value_steps, *of_values, value, value_cache); !s.ok())
            return s;
    if (!why_here.empty()) choice.reason = why_here;
    record_call(state, choice, "kv_append", start, [&] { return sizes_text(call); });
    return {};
}

}  // namespace

Status kv_append(Context &context, const ConstView &key, const ConstView &value, const ConstView &cache_lens,
                 const View &key_cache, const View &value_cache, const KvAppendOptions &options) noexcept {
    const auto body = [&](Context::State &state, const ConstView &k, const ConstView &v, const ConstView &lens, const View &kc,
                          const View &vc, const KvAppendOptions &given) {
        return append(state, lens, given, {k, v, kc, vc, {}});
    };
    return answer(context, body, key, value, cache_lens, key_cache, value_cache, options);
}

}  // namespace attune
