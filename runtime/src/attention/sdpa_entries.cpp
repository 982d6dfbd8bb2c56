// SPDX-License-Identifier: MIT
// Batch entries of a call by the keys that they hold. Each entry's kernel is chosen by its own number of keys, and runs over
// those: neither the room of a cache nor the other entries change a result or, beyond a factor, the work.
#include "attention/sdpa_call.h"
#include <algorithm>
#include <cstring>

namespace attune {
namespace {

// Entries of a group may be padded to the longest one's keys as long as all of them are at most this many times those held,
// or few.
constexpr std::int64_t most_padding = 4, few_keys = 1024;

// Whether no causal mask, window or offset leaves out a key that entry b holds.
bool band_is_open(const SdpaCall &c, std::int64_t b, std::int64_t keys) {
    return of_entry(c.band_begin, b) == -c.sizes.queries && of_entry(c.band_end, b) >= keys;
}

// Probabilities may be multiplied with the values, by a product whose order of sums depends on the number of keys.
bool may_multiply_weights(const SdpaCall &c) { return c.weights.given() && c.weights_mode == WeightsMode::probabilities; }

SdpaProblem with_keys(SdpaProblem p, std::int64_t keys) {
    p.keys = keys;
    if (p.window_keys > 0) p.window_keys = std::min(p.window_keys, 2 * keys + 1);
    return p;
}

bool same_variants(const Choice &a, const Choice &b) { return a.variant == b.variant && a.of_last == b.of_last; }

// An entry that may join the group before it.
struct Entry {
    std::int64_t number, keys;
    Choice values;
};
bool joins(const SdpaCall &c, const EntryGroup &g, const Entry &e) {
    if (may_multiply_weights(c))
        return g.keys == e.keys && same_variants(g.values, e.values) &&
               band_is_open(c, g.begin, g.keys) == band_is_open(c, e.number, e.keys);
    const std::int64_t padded = (g.end - g.begin + 1) * std::max(g.keys, e.keys);
    return same_variants(g.values, e.values) && (padded <= most_padding * (g.held + e.keys) || padded <= few_keys);
}
void join(EntryGroup &g, const Entry &e) { g.end = e.number + 1, g.keys = std::max(g.keys, e.keys), g.held += e.keys; }

}  // namespace

std::int64_t keys_held(const SdpaCall &c, std::int64_t b) {
    const ConstView &lens = c.lengths;
    if (!lens.given()) return c.sizes.keys;
    const auto *data = static_cast<const std::int32_t *>(lens.data) + b * lens.stride[0];
    std::int32_t longest = 0;
    for (std::int64_t i = 0; i < (lens.stride[1] == 0 ? std::min<std::int64_t>(c.sizes.queries, 1) : c.sizes.queries); i++)
        longest = std::max(longest, data[i * lens.stride[1]]);
    return longest;
}

Status choose_by_entries(const SdpaCall &call, const Forced &forced, AttentionChoice &choice) {
    const SdpaProblem &p = call.sizes;
    std::vector<EntryGroup> &groups = choice.groups;
    groups.clear();
    // A user's attention reads captures by the number of an entry, and the number of keys.
    const bool differ = call.lengths.given() || (call.band_begin.size() > 1 && may_multiply_weights(call));
    if (call.user || !differ || p.batch == 0 || p.query_heads == 0 || p.queries == 0 || p.keys == 0)
        return choose_values(call.op, p, forced, !call.user, choice.values);
    for (std::int64_t b = 0; b < p.batch; b++) {
        // Kernels run over one key at least, and mask it in an entry that holds none.
        Entry entry{b, std::max<std::int64_t>(keys_held(call, b), 1), {}};
        if (Status s = choose_values(call.op, with_keys(p, entry.keys), forced, true, entry.values); !s.ok()) return s;
        if (groups.empty() || !joins(call, groups.back(), entry))
            groups.push_back({b, b + 1, entry.keys, entry.keys, entry.values});
        else
            join(groups.back(), entry);
    }
    choice.values = most_work(groups).values;
    if (groups.size() == 1 && groups[0].keys == p.keys) groups.clear();
    return {};
}

const EntryGroup &most_work(const std::vector<EntryGroup> &groups) {
    return *std::max_element(groups.begin(), groups.end(), [](auto &a, auto &b) { return a.held < b.held; });
}

SdpaCall slice(const SdpaCall &call, const EntryGroup &group) {
    SdpaCall part = slice(call, group.begin, group.end);
    const std::int64_t keys = group.keys, queries = part.sizes.queries;
    part.sizes = with_keys(part.sizes, keys);
    part.key.extent[2] = part.value.extent[2] = keys;
    for (ConstView *table : {&part.bias, &part.mask}) {
        if (!table->given()) continue;
        if (table->extent[3] > 1) table->extent[3] = keys;
        if (table->extent[3] == keys) table->stride[3] = 1;
    }
    if (part.weights.given()) part.weights.extent[3] = keys;
    for (std::vector<std::int32_t> *ends : {&part.band_begin, &part.band_end})
        for (std::int32_t &x : *ends) x = static_cast<std::int32_t>(std::clamp<std::int64_t>(x, -queries, keys));
    // Lengths that leave out no key are none.
    const bool each = part.lengths.given() && part.lengths.stride[1] == 0;
    bool all = each;
    for (std::int64_t b = 0; all && b < part.sizes.batch; b++) all = int_at(part.lengths, b) == keys;
    if (all) part.lengths = {};
    return part;
}

void fill_weights_behind(const View &weights, std::int64_t keys, WeightsMode mode) {
    if (keys >= weights.extent[3]) return;
    const View behind = part_of(weights, 3, keys, weights.extent[3] - keys);
    if (mode == WeightsMode::probabilities) return fill_zeros(behind);
    // -inf, whose lowest bits are 0 in every type.
    const auto size = static_cast<std::size_t>(size_of(behind.dtype));
    const std::uint64_t bits = behind.dtype == DType::f64   ? 0xfff0000000000000u
                               : behind.dtype == DType::f32 ? 0xff800000u
                               : behind.dtype == DType::f16 ? 0xfc00u
                                                            : 0xff80u;
    for (std::int64_t b = 0; b < behind.extent[0]; b++)
        for (std::int64_t h = 0; h < behind.extent[1]; h++)
            for (std::int64_t i = 0; i < behind.extent[2]; i++) {
                char *to = static_cast<char *>(behind.data) +
                           (b * behind.stride[0] + h * behind.stride[1] + i * behind.stride[2]) * size_of(behind.dtype);
                for (std::int64_t j = 0; j < behind.extent[3]; j++, to += size) std::memcpy(to, &bits, size);
            }
}

}  // namespace attune
