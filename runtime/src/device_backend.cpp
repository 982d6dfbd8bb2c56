#include "device_call.h"
#include <atomic>

namespace attune {

namespace {
std::atomic<const DeviceBackend *> backend{nullptr};
}

const DeviceBackend *device_backend() noexcept { return backend; }
void use_device_backend(const DeviceBackend *other) noexcept { backend = other; }

}  // namespace attune
