// SPDX-License-Identifier: MIT
// A user's attention in a call: captures, their checks, and arguments of its kernels.
#pragma once
#include "attention/sdpa_call.h"
#include "attune/detail/user_attention.h"
#include "device/device_call.h"
#include "execution/halide_call.h"
#include <deque>

namespace attune {

using detail::CaptureArgument, detail::CaptureRecord;

// Where the pairs of a call lie in a larger call of which it is a part, such as a chunk of queries and a chunk of keys of a
// sequence: the user's functions see indices and extents of the larger call.
struct PairOrigin {
    std::int64_t entry = 0, head = 0, key_head = 0, query = 0, key = 0;
    std::int64_t heads = 0, queries = 0, keys = 0;  // extents of the larger call; 0: those of the call
};

// A user's part of a call; each capture is a buffer or a number.
struct UserCall {
    const AttentionRecord *attention;
    std::span<const CaptureArgument> captures;
    BlockMask *block_mask;  // null: the blocks are made for this call
    PairOrigin origin = {};

    // The user's part of a call that is a part of this one, at `part`: entries and heads of `part` count from the origin of
    // this call, and the number of heads stays.
    UserCall with(const PairOrigin &part) const;
};

// The element type of a capture where the tensors are of `type`.
inline DType type_of(const CaptureRecord &capture, DType type) { return capture.of_scores ? sum_type(type) : capture.dtype; }

// Checks of a call, forward and backward; check_captures() appends the captures to `inputs`.
Status check_captures(const UserCall &, DType type_of_tensors, std::vector<NamedView> &inputs);
std::vector<NamedView> named_captures(const UserCall &);
Status check_user_options(const AttentionRecord &, const SdpaOptions &);
// Checks a call on the host and chooses its kernels.
Status prepare_user_call(const Context::State &, const UserCall &, const ConstView &query, const ConstView &key,
                         const ConstView &value, const View &out, const SdpaOptions &, SdpaCall &, AttentionChoice &);
// Checks, computes and records a call on the host, with reason `why_here` where that is not empty.
Status run_user_call(Context &, Context::State &, const UserCall &, const ConstView &query, const ConstView &key,
                     const ConstView &value, const View &out, const SdpaOptions &, std::string_view why_here = {});
// Refuses captures that are smaller than such a call reads, and computes nothing.
Status check_captures_read(Context::State &, const UserCall &, const ConstView &query, const ConstView &key,
                           const ConstView &value, const View &out, const SdpaOptions &);
// Turns a kernel's error for a capture that is too small into the caller's words.
Status in_words(const AttentionRecord &, Status);

// Arguments of kernels for the origin (generators/arguments/user_arguments.h) and the captures, in their order.
class CaptureArguments {
public:
    CaptureArguments(const UserCall &, const SdpaProblem &);
    CaptureArguments(const CaptureArguments &) = delete;
    CaptureList list() const { return std::span<void *const>(all_); }

private:
    std::deque<HalideBuffer> buffers_;
    std::deque<double> numbers_;
    std::deque<std::int32_t> integers_;
    std::vector<void *> all_;
};

// Arguments of kernels for devices, likewise: buffers are those of the call. Without a user's attention there are none.
class DeviceCaptures {
public:
    DeviceCaptures(DeviceCall &, const SdpaCall &);
    DeviceCaptures(const DeviceCaptures &) = delete;
    CaptureList list() const { return std::span<void *const>(all_); }

private:
    std::deque<double> numbers_;
    std::deque<std::int32_t> integers_;
    std::vector<void *> all_;
};

// The captures as the host's, for checks.
std::vector<CaptureArgument> as_host(std::span<const CaptureArgument>);

// Sides of a block of pairs: adjacent query heads, queries and keys.
struct BlockSides {
    std::int64_t heads, queries, keys;
};
// The sides for a variant; a tile of the split form holds the queries of all heads that share a key head.
BlockSides block_sides(const SdpaCall &, const VariantRecord &);
// Chooses the kernel that finds the blocks that a mask leaves out, for functions that must not fail between kernels.
Status choose_blocks(const SdpaCall &, const BlockSides &, Choice &);

// Table of the blocks that the mask of a user's attention leaves out, (B, Hq / heads, tiles, KV blocks), with strides of 0
// where the mask does not depend on the entry or head. The object owns its memory.
class BlockTable {
public:
    Status make(Context::State &, const SdpaCall &, const BlockSides &);
    const ConstView &view() const { return view_; }

private:
    std::optional<ScratchBlock> memory_;
    ConstView view_;
};

}  // namespace attune
