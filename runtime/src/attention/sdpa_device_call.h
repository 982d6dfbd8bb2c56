// SPDX-License-Identifier: MIT
// Attention of tensors on a device, and its gradients: what their calls share.
#pragma once
#include "attune/sdpa_backward.h"
#include "device/device_call.h"
#include "kernel_arguments.h"

namespace attune {

// What kernels are told of the keys that queries see: the numbers plus, where they are given, what the device holds. Kernels
// keep that within 2^29, so that every sum stays within 32 bits.
struct DeviceBands {
    std::int32_t begin, end, offset, length;
    ConstView offsets, lengths;  // (B), (B, Sq); not given: none
};
Status find_device_bands(const SdpaOptions &, const SdpaProblem &, DeviceBands &);

// What no kernel of a device computes; and the options as they are checked for the host, less what only the device can read.
Status check_device_options(const SdpaOptions &, DType);
SdpaOptions checked_on_host(const SdpaOptions &);

// Rows begin on 16 bytes.
bool is_aligned(const ConstView &);
// A variant for the sizes and alignment of the call; and whether the first of two that fit is the better one, where keys are
// to be split or not.
bool fits_on_device(const VariantRecord &, const SdpaCall &);
bool better_on_device(const VariantRecord &, const VariantRecord &, bool in_splits);

// Which arguments a variant has, and those that all begin with. Without queries or keys a kernel sees one that nothing is valid
// for.
DeviceAttentionForm form_on_device(const SdpaCall &, const VariantRecord &);
DeviceAttentionArguments attention_inputs(DeviceCall &, const SdpaCall &, const DeviceBands &, const DeviceAttentionForm &);

Status sdpa_backward_on_device(Context &, const ConstView &query, const ConstView &key, const ConstView &value,
                               const SdpaForward &, const SdpaGradients &, const SdpaOptions &);

}  // namespace attune
