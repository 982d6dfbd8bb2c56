// Calls whose tensors are on a device. What runs its kernels is a backend that is linked in or not (preset cuda): the library
// without one answers that it has none.
#pragma once
#include "halide_call.h"
#include "sdpa_call.h"
#include <memory>

namespace attune {

// A kernel, its arguments, and which of them are buffers; their `host` holds the caller's pointer to the device.
struct DeviceCall {
    int (*kernel)(void **) = nullptr;
    std::vector<void *> args;
    std::vector<halide_buffer_t *> buffers;
    // Of buffers: what the caller did not ask for and the kernel writes; and its size.
    halide_buffer_t *scratch = nullptr;
    std::size_t scratch_bytes = 0;
};

struct DeviceBackend {
    std::string_view target;          // of the variants that it runs
    const std::string &(*missing)();  // what this machine lacks for it; empty: nothing
    // Queues the kernel and returns. Nothing is copied and nothing waited for.
    Status (*run)(Context::State &, DeviceCall &);
};

// That of the library, if it has one, or another. Null: none is linked in.
const DeviceBackend *device_backend() noexcept;
void use_device_backend(const DeviceBackend *) noexcept;

// The same memory, called the host's.
template<typename Data> BasicView<Data> as_host(BasicView<Data> v) {
    v.place = Place::host;
    return v;
}
SdpaOptions as_host(const SdpaOptions &);

// Attention of tensors on a device. `instead` is set where the caller's Context has the CPU compute, and then nothing was done.
Status sdpa_on_device(Context &, const ConstView &query, const ConstView &key, const ConstView &value, const View &out,
                      const SdpaOptions &, std::string &instead);

}  // namespace attune
