#include "op_call.h"
#include "user_call.h"

namespace attune {

CaptureArguments::CaptureArguments(const UserCall &call) {
    for (std::size_t n = 0; n < call.captures.size(); n++) {
        const CaptureRecord &record = call.attention->captures[n];
        const CaptureArgument &given = call.captures[n];
        if (record.rank > 0)
            all_.push_back(buffers_.emplace_back(given.buffer).get());
        else if (record.of_scores || record.dtype != DType::i32)
            all_.push_back(&numbers_.emplace_back(*given.number));
        else
            all_.push_back(&integers_.emplace_back(static_cast<std::int32_t>(*given.number)));
    }
}

void CaptureArguments::append_to(std::vector<void *> &args) { args.insert(args.end(), all_.begin(), all_.end()); }

// What BlockMask keeps.
class BlockMaskTables {
public:
    // Of the table for `key`: its blocks, empty where it is new.
    static std::vector<std::int32_t> &find(BlockMask &mask, const std::vector<std::int64_t> &key) {
        for (BlockMask::Table &t : mask.tables_)
            if (t.key == key) return t.blocks;
        mask.tables_.push_back({key, {}});
        return mask.tables_.back().blocks;
    }
};

Status BlockTable::make(Context::State &context, const SdpaCall &call, const BlockSides &sides) {
    const SdpaProblem &p = call.sizes;
    const AttentionRecord &attention = *call.user->attention;
    const bool same_offset = call.offset.size() == 1;
    const std::int64_t batch = attention.mask_by_batch || !same_offset ? p.batch : 1;
    // All heads have the same blocks where the mask does not know them.
    const std::int64_t block_heads = attention.mask_by_head ? sides.heads : 1;
    const std::int64_t heads = attention.mask_by_head ? p.query_heads / sides.heads : 1;
    const std::int64_t tiles = ceil_div(p.queries, sides.queries), chunks = ceil_div(p.keys, sides.keys);
    const std::int64_t count = batch * heads * tiles * chunks;
    if (count > most_elements) return unsupported("mask", "has more than 2^31 - 1 blocks of pairs");

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
    view_ = ConstView(blocks, {batch, heads, tiles, chunks});
    if (!known) {
        Choice choice;
        const std::string op = std::string(attention.op) + "_mask_blocks";
        static constexpr Wish wishes[] = {{"blocks", "", ""}};
        if (Status s = choose_variant({op, sum_type(p.dtype)}, wishes, {}, choice); !s.ok()) return s;
        auto count32 = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
        std::int32_t query_heads = count32(p.query_heads), key_heads = count32(p.key_heads), queries = count32(p.queries),
                     keys = count32(p.keys), in_heads = count32(block_heads), in_queries = count32(sides.queries),
                     in_keys = count32(sides.keys);
        HalideBuffer offset(same_offset ? ConstView(call.offset.data(), {batch}, {0}) : ConstView(call.offset.data(), {batch})),
            out(view_);
        std::vector<void *> args = {nullptr,   &query_heads, &key_heads, &queries,    &keys,
                                    &in_heads, &in_queries,  &in_keys,   offset.get()};
        CaptureArguments captures(*call.user);
        captures.append_to(args);
        args.push_back(out.get());
        const double asked = static_cast<double>(count) * static_cast<double>(block_heads * sides.queries * sides.keys);
        if (Status s = call_kernel(context, choice.variant->kernel, args.data(), worthwhile_threads(asked, context.threads));
            !s.ok()) {
            if (call.user->block_mask) call.user->block_mask->clear();
            return s;
        }
    }
    // As kernels read it.
    if (batch == 1) view_.extent[0] = p.batch, view_.stride[0] = 0;
    if (heads == 1) view_.extent[1] = p.query_heads, view_.stride[1] = 0;
    if (tiles == 1) view_.extent[2] = p.query_heads * p.queries, view_.stride[2] = 0;
    return {};
}

}  // namespace attune
