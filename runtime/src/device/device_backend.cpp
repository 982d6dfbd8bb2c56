// SPDX-License-Identifier: MIT
#include "device/device_call.h"
#ifdef ATTUNE_CUDA
#include "device/cuda_backend.h"
#endif
#include <atomic>

namespace attune {

namespace {
std::atomic<const DeviceBackend *> other{nullptr};
}

const DeviceBackend *device_backend() noexcept {
    if (const DeviceBackend *used = other) return used;
#ifdef ATTUNE_CUDA
    return &cuda_backend();
#else
    return nullptr;
#endif
}
void use_device_backend(const DeviceBackend *backend) noexcept { other = backend; }

}  // namespace attune
