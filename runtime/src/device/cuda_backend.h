// SPDX-License-Identifier: MIT
// Kernels of CUDA, through Halide's runtime. The driver is opened at the first call that has tensors on a device: programs link
// and start without one.
#pragma once
#include "device/device_call.h"

namespace attune {

// Of target cuda80, which newer GPUs run, too.
const DeviceBackend &cuda_backend() noexcept;

}  // namespace attune
