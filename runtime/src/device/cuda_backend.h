// SPDX-License-Identifier: MIT
// CUDA backend, through Halide's runtime. The driver is opened by the first call that has tensors on a device: programs link
// and start without a driver.
#pragma once
#include "device/device_call.h"

namespace attune {

// The backend of target cuda80, which newer GPUs run, too.
const DeviceBackend &cuda_backend() noexcept;

}  // namespace attune
