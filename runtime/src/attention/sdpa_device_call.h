// SPDX-License-Identifier: MIT
// Calls of attention with tensors on a device, forward and backward: their common parts.
#pragma once
#include "attune/sdpa_backward.h"
#include "device/device_call.h"
#include "kernel_arguments.h"

namespace attune {

struct BackwardCall;

// Band of keys that queries see, as kernels get it: the numbers plus, where given, the tensors on the device. Kernels clamp the
// sums within 2^29, so that 32 bits suffice.
struct DeviceBands {
    std::int32_t begin, end, offset, length;
    ConstView offsets, lengths;  // (B), (B, Sq); not given: none
};
Status find_device_bands(const SdpaOptions &, const SdpaProblem &, DeviceBands &);
// The same of a band and sizes that the host knows.
Status find_device_bands(const Band &, const SdpaProblem &, DeviceBands &);

// Refuses options that no device kernel computes; and the options without tensors that only the device can read.
Status check_device_options(const SdpaOptions &, DType);
SdpaOptions checked_on_host(const SdpaOptions &);

// Whether a kernel cuts keys in splits; whether it multiplies matrices on tensor cores.
inline bool cuts_keys(const VariantRecord &v) {
    return v.schedule_id == Schedule::split || v.schedule_id == Schedule::mma_split;
}
inline bool multiplies_matrices(const VariantRecord &v) {
    return v.schedule_id == Schedule::mma || v.schedule_id == Schedule::mma_split;
}
// Whether rows begin at multiples of 16 bytes.
bool is_aligned(const ConstView &);
// Whether a variant fits the sizes and alignment of a call; the needs of a call, which outlives them.
bool fits_on_device(const Runnable &, const SdpaCall &);
DeviceNeeds needs_on_device(const SdpaCall &);

// The arguments that a variant has, and those common to all variants. Without queries or keys a kernel gets a row for which no
// key is valid.
DeviceAttentionForm form_on_device(const SdpaCall &, const VariantRecord &);
DeviceAttentionArguments attention_inputs(DeviceCall &, const SdpaCall &, const DeviceBands &, const DeviceAttentionForm &,
                                          const CaptureList &);

// Steps of a call whose views are checked: choice of its kernel, none where there are no queries; and the kernel.
Status choose_attention_on_device(const Context::State &, const SdpaCall &, std::string_view variant, Choice &);
Status run_attention_on_device(Context::State &, const SdpaCall &, const Choice &, const DeviceBands &);

// These steps of a call of its own. Views but those of the options are marked as the host's, and all places are checked.
struct DeviceAttention {
    SdpaCall call;
    DeviceBands bands;
    Choice choice, weights;  // of weights: where the call wants any
};
Status prepare_attention_on_device(const Context::State &, const ConstView &query, const ConstView &key, const ConstView &value,
                                   const View &out, const SdpaOptions &, std::span<const NamedView> more,
                                   const std::function<Status(SdpaCall &)> &complete, DeviceAttention &);
Status run_prepared_on_device(Context::State &, const DeviceAttention &, CallStart);
// Variant and scratch of a call of these sizes, which have been checked.
Status plan_on_device(Context::State &, const SdpaProblem &, Plan &);

// Refuses gradients that no device kernel computes.
Status check_device_gradients(const SdpaGradients &);
// Kernels of the gradients of a call: by its tensors, by bias and slopes, by the captures of a user's attention, and by sinks.
struct DeviceBackwardChoice {
    Choice tensors{nullptr, "no rows"}, tables, captures, sinks;
};
Status choose_backward_on_device(const Context::State &, const BackwardCall &, std::string_view variant,
                                 DeviceBackwardChoice &);
Status choose_sinks_on_device(const Context::State &, const BackwardCall &, Choice &);
// The row_lse and row_delta of a call, (B, Hq, Sq), which each of its kernels writes and that of the sinks reads.
struct DeviceRowTotals {
    View lse, delta;
    DeviceRowTotals(const BackwardCall &, void *memory);  // of bytes_of(), on the device
    static std::size_t bytes_of(const BackwardCall &);
    DeviceRowTotals rows(std::int64_t first, std::int64_t count) const;
};
// The kernels of a choice but that of the sinks; and that one.
Status run_backward_on_device(Context::State &, const BackwardCall &, const DeviceBackwardChoice &, const DeviceBands &,
                              const DeviceRowTotals &);
Status run_sinks_on_device(Context::State &, const BackwardCall &, const Choice &, const DeviceRowTotals &);

Status sdpa_backward_on_device(Context &, const ConstView &query, const ConstView &key, const ConstView &value,
                               const SdpaForward &, const SdpaGradients &, const SdpaOptions &);
// The same of any attention: `more` are the other tensors of the call, and `check` checks all of the call as if it was on the
// host, overlaps included, and sets op, scale and user.
Status gradients_on_device(Context &, const ConstView &query, const ConstView &key, const ConstView &value, const SdpaForward &,
                           const SdpaGradients &, const SdpaOptions &, std::span<const NamedView> more,
                           const std::function<Status(BackwardCall &)> &check);

}  // namespace attune
