// SPDX-License-Identifier: MIT
#include "dispatch/op_call.h"
#include "kernel_arguments.h"
#include "user_attention/user_call.h"
#include <algorithm>
#include <array>

namespace attune {

namespace {

// The origin, in the order of origin_arguments.
std::array<std::int32_t, 8> origin_of(const PairOrigin &o, const SdpaProblem &p) {
    const auto or_else = [](std::int64_t of_larger_call, std::int64_t own) { return of_larger_call ? of_larger_call : own; };
    const std::int64_t origin[] = {o.entry,
                                   o.head,
                                   o.key_head,
                                   o.query,
                                   o.key,
                                   or_else(o.heads, p.query_heads),
                                   or_else(o.queries, p.queries),
                                   or_else(o.keys, p.keys)};
    std::array<std::int32_t, 8> as_32_bits{};
    std::transform(std::begin(origin), std::end(origin), as_32_bits.begin(),
                   [](std::int64_t n) { return static_cast<std::int32_t>(n); });
    return as_32_bits;
}

// Appends the origin and the captures to a list of arguments; buffer_of makes a kernel's argument of a view.
template<typename BufferOf>
void append_arguments(const UserCall &call, const SdpaProblem &p, std::deque<double> &numbers,
                      std::deque<std::int32_t> &integers, std::vector<void *> &all, const BufferOf &buffer_of) {
    for (const std::int32_t n : origin_of(call.origin, p)) all.push_back(&integers.emplace_back(n));
    for (std::size_t n = 0; n < call.captures.size(); n++) {
        const CaptureRecord &record = call.attention->captures[n];
        const CaptureArgument &given = call.captures[n];
        if (record.rank > 0)
            all.push_back(buffer_of(given.buffer));
        else if (record.of_scores || record.dtype != DType::i32)
            all.push_back(&numbers.emplace_back(*given.number));
        else
            all.push_back(&integers.emplace_back(static_cast<std::int32_t>(*given.number)));
    }
}

}  // namespace

UserCall UserCall::with(const PairOrigin &part) const {
    UserCall of_part = *this;
    PairOrigin &o = of_part.origin;
    o.entry += part.entry, o.head += part.head, o.key_head += part.key_head;
    o.query = part.query, o.key = part.key, o.queries = part.queries, o.keys = part.keys;
    return of_part;
}

CaptureArguments::CaptureArguments(const UserCall &call, const SdpaProblem &p) {
    append_arguments(call, p, numbers_, integers_, all_,
                     [this](const ConstView &buffer) { return buffers_.emplace_back(buffer).get(); });
}

DeviceCaptures::DeviceCaptures(DeviceCall &call, const SdpaCall &c) {
    if (!c.user) return;
    append_arguments(*c.user, c.sizes, numbers_, integers_, all_, [&](const ConstView &buffer) { return call.buffer(buffer); });
}

std::vector<CaptureArgument> as_host(std::span<const CaptureArgument> captures) {
    std::vector<CaptureArgument> all(captures.begin(), captures.end());
    for (CaptureArgument &c : all) c.buffer.place = Place::host;
    return all;
}

// Access to the tables of a BlockMask.
class BlockMaskTables {
public:
    // Blocks of the table for `key`, empty where it is new.
    static std::vector<std::int32_t> &find(BlockMask &mask, const std::vector<std::int64_t> &key) {
        for (BlockMask::Table &t : mask.tables_)
            if (t.key == key) return t.blocks;
        mask.tables_.push_back({key, {}});
        return mask.tables_.back().blocks;
    }
};

namespace {
// Extents of the table; batch and heads are 1 where the mask does not depend on them.
struct Blocks {
    std::int64_t batch, heads, in_heads, tiles, kv_blocks;
    Blocks(const SdpaCall &call, const BlockSides &sides) {
        const SdpaProblem &p = call.sizes;
        const AttentionRecord &attention = *call.user->attention;
        batch = attention.mask_by_batch || call.offset.size() > 1 ? p.batch : 1;
        in_heads = attention.mask_by_head ? sides.heads : 1;
        heads = attention.mask_by_head ? p.query_heads / sides.heads : 1;
        tiles = ceil_div(p.queries, sides.queries), kv_blocks = ceil_div(p.keys, sides.keys);
    }
};
}  // namespace

Status choose_blocks(const SdpaCall &call, const BlockSides &sides, Choice &choice) {
    const Blocks n(call, sides);
    if (static_cast<__int128>(n.batch) * n.heads * n.tiles * n.kv_blocks > most_extent)
        return unsupported("mask", "has more than 2^31 - 1 blocks of pairs");
    const std::string op = std::string(call.user->attention->op) + "_mask_blocks";
    static constexpr Candidate candidates[] = {{Schedule::blocks, "", ""}};
    return choose_variant({op_of_user(op), sum_type(call.sizes.dtype)}, candidates, {}, choice);
}

Status BlockTable::make(Context::State &context, const SdpaCall &call, const BlockSides &sides) {
    const SdpaProblem &p = call.sizes;
    const bool same_offset = call.offset.size() == 1;
    Choice choice;
    if (Status s = choose_blocks(call, sides, choice); !s.ok()) return s;
    const auto [batch, heads, block_heads, tiles, kv_blocks] = Blocks(call, sides);
    const std::int64_t count = batch * heads * tiles * kv_blocks;

    std::int32_t *blocks = nullptr;
    bool known = false;
    if (call.user->block_mask) {
        std::vector<std::int64_t> key = {batch,         heads,       block_heads, sides.queries, sides.keys,
                                         p.query_heads, p.key_heads, p.queries,   p.keys};
        key.insert(key.end(), call.offset.begin(), call.offset.end());
        std::vector<std::int32_t> &kept = BlockMaskTables::find(*call.user->block_mask, key);
        known = !kept.empty();
        kept.resize(static_cast<std::size_t>(count));
        blocks = kept.data();
    } else {
        memory_.emplace(*context.scratch, static_cast<std::size_t>(count) * sizeof(std::int32_t));
        if (!memory_->data()) return no_memory();
        blocks = static_cast<std::int32_t *>(memory_->data());
    }
    view_ = ConstView(blocks, {batch, heads, tiles, kv_blocks});
    if (!known) {
        auto count32 = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
        HalideBuffer offset(same_offset ? ConstView(call.offset.data(), {batch}, {0}) : ConstView(call.offset.data(), {batch})),
            out(view_);
        const CaptureArguments captures(*call.user, p);
        const MaskBlocksArguments arguments{.query_heads = count32(p.query_heads),
                                            .key_heads = count32(p.key_heads),
                                            .queries = count32(p.queries),
                                            .keys = count32(p.keys),
                                            .block_heads = count32(block_heads),
                                            .block_queries = count32(sides.queries),
                                            .block_keys = count32(sides.keys),
                                            .offset = offset.get(),
                                            .captures = captures.list(),
                                            .blocks = out.get()};
        const double asked = static_cast<double>(count) * static_cast<double>(block_heads * sides.queries * sides.keys);
        const int threads = worthwhile_threads(asked, context.threads);
        if (Status s = call_kernel(context, choice.variant->kernel, arguments, threads); !s.ok()) {
            if (call.user->block_mask) call.user->block_mask->clear();
            return s;
        }
    }
    // Broadcast as kernels read it.
    if (batch == 1) view_.extent[0] = p.batch, view_.stride[0] = 0;
    if (heads == 1) view_.extent[1] = p.query_heads, view_.stride[1] = 0;
    if (tiles == 1) view_.extent[2] = p.query_heads * p.queries, view_.stride[2] = 0;
    return {};
}

}  // namespace attune
