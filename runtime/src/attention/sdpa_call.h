// SPDX-License-Identifier: MIT
// A checked call of an attention, and the steps between the public functions and the kernels.
#pragma once
#include "attention/attention_cost.h"
#include "attune/sdpa.h"
#include "dispatch/op_call.h"
#include "execution/context_state.h"
#include "tensors/checks.h"
#include <array>
#include <memory>
#include <vector>

namespace attune {

struct UserCall;

// Keys whose rows follow each other in a pool: generators/attention/forward/placed_rows.h, which the runtime cannot include.
constexpr std::int64_t keys_of_run = 16;

// Scales of keys or values that are quantised (pool.h): heads and rows are theirs.
struct RowScales {
    ConstView scale, minimum;  // (1, H, rows, G)
    ConstView static_scale;    // (H, D), in place of scale
    std::int64_t group = 0;    // channels of a group, of u8

    bool are_f16() const { return scale.given() && scale.dtype == DType::f16; }
};
// The scales, or minima, of rows (B, H, rows, W) where they have this type; else ones, for a kernel that has an input of each
// type.
inline ConstView scales_of_type(const ConstView &scales, DType type, const ConstView &rows) {
    static constexpr float one = 1;
    if (scales.given() && scales.dtype == type) return scales;
    ConstView ones(&one, {rows.extent[0], rows.extent[1], rows.extent[2], 1}, {0, 0, 0, 1});
    ones.dtype = type;
    return ones;
}
// Writes quantised keys or values [0, keys) of all heads, which `row_shift` places, as numbers: out (1, H, keys, D).
using Dequantise = Status (*)(Context::State &, const ConstView &rows, const RowScales &, const ConstView &row_shift,
                              const View &out);

// Pages of a pool on a device: entry (b, n) of the table is the page of keys [n, n + 1) * 2^bits of batch entry b, of `pages`
// pages that begin `stride` rows behind one another.
struct DevicePages {
    ConstView block_table;  // int32 (B, N)
    std::int32_t pages, bits, stride;
};

// All views of rank 4 (lse: 3), all extents agree.
struct SdpaCall {
    Op op;
    const UserCall *user = nullptr;  // of a user's attention (user_call.h)
    SdpaProblem sizes;
    ConstView query, key, value;
    // int32 (B, runs of keys_of_run keys): where key and value are pages of a pool, the row of a run's first key less the
    // position of that key (generators/attention/forward/placed_rows.h). Not given: rows are in their order.
    ConstView row_shift;
    const DevicePages *device_pages = nullptr;  // on a device: key and value are the rows (1, H, rows, D) of a pool
    // Where key and value are i8 or u8 (pool.h; rows of sizes.head_dim / 2 and sizes.value_dim / 2 bytes): their scales, and
    // the way to kernels that read numbers.
    RowScales key_scales, value_scales;
    Dequantise dequantise = nullptr;
    View out, lse;
    double scale = 0;
    ConstView pair_weight;  // of additive scores: (h), and their bias
    double pair_bias = 0;
    // Keys of query i of batch entry b: [i + band_begin[b], i + band_end[b]) within [0, length); one entry, or one a batch.
    std::vector<std::int32_t> band_begin, band_end, offset;
    ConstView lengths;                                               // int32 (B, Sq), any strides; not given: every key
    std::shared_ptr<const std::vector<std::int32_t>> cache_lengths;  // what lengths points to where cache_lens was given
    double softcap = 0;
    ConstView bias, mask;  // (B, Hq, Sq, Sk), strides 0 where they broadcast; the last extent may be 1
    std::shared_ptr<const std::vector<float>> standard_slopes;  // what slopes may point to
    ConstView slopes, sinks;                                    // f32 (B, Hq), (Hq)
    Dropout dropout;
    std::uint32_t first_head = 0;  // b * Hq + h of the first head, where this is a slice of a call
    View weights;                  // (B, Hq or 1, Sq, Sk)
    WeightsMode weights_mode = WeightsMode::probabilities;
    bool average_weights = false;
};

// Keys of query i: [i + begin, i + end) within [0, keys). `offset` is where ALiBi counts from.
struct Band {
    std::int32_t begin, end, offset;
};
// Keys behind the one that a query stands at that it may see; -1: unbounded. A causal mask leaves none.
inline std::int64_t right_of_window(const SdpaOptions &options) {
    return options.causal != Causal::none ? 0 : options.window.right;
}
// The band of one batch entry that causal, window and an offset of the caller leave.
Band band_of(const SdpaOptions &, std::optional<std::int64_t> offset, std::int64_t queries, std::int64_t keys);

// The score of SdpaOptions: its op, its checks, and its scale where none is given.
const Op &op_of(Score);
Status check_score(const SdpaOptions &);
double scale_of(const SdpaOptions &, std::int64_t head_dim);

// Checks everything, in the order of the arguments, and fills `call` but for op, scale and pair; more_inputs are those of
// the op itself, which outputs must not overlap either.
Status check_attention(const ConstView &query, const ConstView &key, const ConstView &value, const View &out,
                       const SdpaOptions &, std::span<const NamedView> more_inputs, SdpaCall &call);
// Parts of this check. check_inputs: all but the outputs, but call.out too. check_by_query: a tensor (B, Hq, Sq), or of
// lower rank where query is, as lse.
Status check_inputs(const ConstView &query, const ConstView &key, const ConstView &value, const NamedView &out,
                    const SdpaOptions &, SdpaCall &call);
Status check_by_query(std::string_view name, const ConstView &, int rank, const SdpaProblem &, ConstView &as3);
std::vector<NamedView> named_inputs(const ConstView &query, const ConstView &key, const ConstView &value, const SdpaOptions &);
Status check_score_options(const SdpaOptions &, int rank, SdpaCall &call);
Status check_weights(const SdpaOptions &, int rank, SdpaCall &call);
Status check_dropout(const Dropout &);
Status check_counted_heads(const Dropout &, std::int64_t query_heads);

// The sizes of a problem that no tensor has checked.
Status check_problem(const SdpaProblem &);

// Consecutive batch entries that take one variant: the most keys that one of them holds, and the sum over them.
struct EntryGroup {
    std::int64_t begin, end, keys, held;
    Choice values;
};
// Which variant computes the values, and which the weights where they are wanted. Where entries hold different numbers of keys,
// or fewer than there is room for: the variants of the values of groups of them, and `values` is that of the most work.
struct AttentionChoice {
    Choice values, weights;
    std::vector<EntryGroup> groups = {};
};
// may_share: the last queries, which fill no tile, may go to another variant.
Status choose_values(const Op &, const SdpaProblem &, const Forced &, bool may_share, Choice &);
// The queries of a problem that fill no tile of the variant.
SdpaProblem last_queries(const VariantRecord &, SdpaProblem);
// Whether any variant could compute the values.
bool has_variant(const Op &, const SdpaProblem &);
// Every variant that could compute the values, with its predicted time for one batch entry, the quickest first.
std::vector<PredictedVariant> predictions(const Op &, const SdpaProblem &);
Status choose_attention(const Context::State &, const SdpaCall &, std::string_view variant, AttentionChoice &);
// Chooses the variant of the weights; `variant` may name one of the values.
Status choose_weights(const Context::State &, const Op &, DType, std::int64_t head_dim, std::string_view variant, Choice &);
// The keys that batch entry b holds: those below the longest length of its queries.
std::int64_t keys_held(const SdpaCall &, std::int64_t b);
// Chooses the variants of the values by the keys that each entry holds.
Status choose_by_entries(const SdpaCall &, const Forced &, AttentionChoice &);
const EntryGroup &most_work(const std::vector<EntryGroup> &);

// Kernels of softcap, bias, ALiBi, masks, sinks or dropout count all pairs of these extents, (B, Hq, Sq, Sk), in 32 bits.
Status check_pairs(std::string_view name, const std::array<std::int64_t, 4> &extents, std::string_view kind);

// Threads that a call of these sizes is worth now, at most `threads`, and at any time.
int worthwhile_threads(const SdpaProblem &, int threads) noexcept;
int worthwhile_threads_at_most(const SdpaProblem &, int threads) noexcept;

// Upper bound of the scratch of a call in a Context: at any number of threads that are then worth waking, under any mask.
std::size_t sdpa_workspace_bytes(const Context::State &, const VariantRecord &, const SdpaProblem &);
// Upper bound over calls whose entries hold up to this number of keys, by which their variants are chosen.
std::size_t workspace_of_any_keys(const Context::State &, const Op &, const SdpaProblem &);
// The number of key heads whose keys and values an AMX kernel copies at a time, which bounds its scratch memory: every head of
// the batch where the copies take at most 64 MiB; else heads of one entry, as many as 64 MiB hold, or one for each thread.
std::int64_t key_heads_together(const VariantRecord &, const SdpaProblem &, int threads) noexcept;
// Whether a call may find out which entries have no NaN or Inf among their values, of which values of others may be masked.
bool may_look_at_values(const VariantRecord &, const SdpaProblem &) noexcept;
// How many bf16 stand for a number in AMX tiles, 0 if none do.
int amx_tile_parts_of(DType) noexcept;

// Batch entries [begin, end) of a view, and of a call.
template<typename Data> BasicView<Data> entries(const BasicView<Data> &v, std::int64_t begin, std::int64_t end) {
    return part_of(v, 0, begin, end - begin);
}
SdpaCall slice(const SdpaCall &, std::int64_t begin, std::int64_t end);
// The views that kernels index by query, key or pair, and whether kernels of AMX can index all.
std::array<NamedView, 7> places_of(const SdpaCall &);
bool has_32_bit_places(const SdpaCall &);
// The entries of a group, with the keys that they hold.
SdpaCall slice(const SdpaCall &, const EntryGroup &);
// Writes the weights of the keys from `keys` on, which take no part: 0, or -inf in mode `masked`.
void fill_weights_behind(const View &weights, std::int64_t keys, WeightsMode);
// Key heads [begin, end) of a call of one entry, and the query heads that share them; not of a user's attention.
SdpaCall slice_key_heads(const SdpaCall &, std::int64_t begin, std::int64_t end);
// Moves the keys that each query of a part sees by so many keys, for a part whose first query or key is not that of the call:
// bands, clamped to the sizes of the part, and the offsets from which ALiBi counts.
void shift_bands(SdpaCall &part, std::int64_t by);
// Queries [begin, end) of a call; not of one with dropout or a user's attention, to which a query is known by its number.
SdpaCall slice_queries(const SdpaCall &, std::int64_t begin, std::int64_t end);

// Scores but the dot product have no kernels of 16 bits.
Status check_score_type(Score, std::string_view name, DType);

inline bool is_quantised(const ConstView &rows) { return rows.dtype == DType::i8 || rows.dtype == DType::u8; }
inline bool is_quantised(const SdpaCall &c) { return is_quantised(c.key) || is_quantised(c.value); }

// A kernel of the variant reads rows of keys and values where SdpaCall::row_shift says.
inline bool reads_in_place(const SdpaCall &c, const VariantRecord &v) {
    if (c.op.id == OpId::sdpa_int8 || c.op.id == OpId::sdpa_int4) return true;
    return v.pages_kernel && !is_quantised(c);
}

// The element of band_begin, band_end or offset for batch entry b.
inline std::int32_t of_entry(const std::vector<std::int32_t> &list, std::int64_t b) {
    return list[list.size() == 1 ? 0 : static_cast<std::size_t>(b)];
}
// No causal mask, window or offset leaves out a key.
bool band_is_open(const SdpaCall &);
// Some query may leave out a key.
bool leaves_keys_out(const SdpaCall &);

// The same memory as an output.
inline View writable(const ConstView &v) {
    View w;
    w.data = const_cast<void *>(v.data), w.dtype = v.dtype, w.place = v.place, w.rank = v.rank;
    w.capacity = v.capacity;
    for (int n = 0; n < max_rank; n++) w.extent[n] = v.extent[n], w.stride[n] = v.stride[n];
    return w;
}

// A view of elements whose type is known only now.
inline ConstView typed_view(const void *data, DType type, std::initializer_list<std::int64_t> extents,
                            std::initializer_list<std::int64_t> strides) {
    ConstView v(static_cast<const float *>(data), extents, strides);
    v.dtype = type;
    return v;
}

// Whether a kernel is told which entries have no NaN or Inf among their values, which max_magnitude() finds out.
bool looks_at_values(const SdpaCall &, const VariantRecord &);

// One kernel: of the values, or of the weights where `to_weights`.
Status run_kernel(Context::State &, const SdpaCall &, const VariantRecord &, const View *to_weights);
// Refuses captures of a user's attention that are smaller than the kernel of the values reads, and computes nothing.
Status check_captures_of_kernel(Context::State &, const SdpaCall &, const VariantRecord &);

// Runs the kernel of the values for key_heads_together() heads at a time. The bits do not depend on that number.
Status run_by_key_heads(Context::State &, const SdpaCall &, const VariantRecord &);

// Runs the kernels of the choice. What needs no kernel is written here, and then the choice says why.
Status run_attention(Context &, const SdpaCall &, AttentionChoice &);

// The sizes in the words of ATTUNE_VERBOSE.
std::string sizes_text(const SdpaProblem &);

}  // namespace attune
