// SPDX-License-Identifier: MIT
// What a user's attention adds to a call, and to the arguments of its kernels.
#pragma once
#include "attention/sdpa_call.h"
#include "attune/detail/user_attention.h"
#include "execution/halide_call.h"
#include <deque>

namespace attune {

using detail::CaptureArgument, detail::CaptureRecord;

// By capture: a buffer, or a number.
struct UserCall {
    const AttentionRecord *attention;
    std::span<const CaptureArgument> captures;
    BlockMask *block_mask;  // null: made for this call
};

// The element type of a capture where the tensors are of `type`.
inline DType type_of(const CaptureRecord &capture, DType type) { return capture.of_scores ? sum_type(type) : capture.dtype; }

// Checks of a call, forward and backward; check_captures() appends the captures to `inputs`.
Status check_captures(const UserCall &, DType type_of_tensors, std::vector<NamedView> &inputs);
Status check_user_options(const AttentionRecord &, const SdpaOptions &);
// The error of a kernel that a capture is too small for, in the words of the caller.
Status in_words(const AttentionRecord &, Status);

// The arguments that captures are, in the order of the captures.
class CaptureArguments {
public:
    explicit CaptureArguments(const UserCall &);
    CaptureArguments(const CaptureArguments &) = delete;
    CaptureList list() const { return std::span<void *const>(all_); }

private:
    std::deque<HalideBuffer> buffers_;
    std::deque<double> numbers_;
    std::deque<std::int32_t> integers_;
    std::vector<void *> all_;
};

// Blocks of pairs: the queries of `heads` query heads that follow one another, so many queries, so many keys.
struct BlockSides {
    std::int64_t heads, queries, keys;
};
// Those of a tile of the split form are the queries of all heads that share a key head.
BlockSides block_sides(const SdpaCall &, const VariantRecord &);
// Which kernel finds the blocks that a mask leaves out; called beforehand by functions that must not refuse it between kernels.
Status choose_blocks(const SdpaCall &, const BlockSides &, Choice &);

// The table of the blocks that the mask of a user's attention leaves out, (B, Hq / heads, tiles, KV blocks) with strides of 0
// where nothing depends on the entry or the head; of memory that is held as long as this is.
class BlockTable {
public:
    Status make(Context::State &, const SdpaCall &, const BlockSides &);
    const ConstView &view() const { return view_; }

private:
    std::optional<ScratchBlock> memory_;
    ConstView view_;
};

}  // namespace attune
