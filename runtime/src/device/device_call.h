// SPDX-License-Identifier: MIT
// Calls whose tensors are on a device. What runs its kernels is a backend that is linked in or not (preset cuda): the library
// without one answers that it has none.
#pragma once
#include "attention/sdpa_call.h"
#include "execution/halide_call.h"
#include <deque>
#include <functional>

namespace attune {

// A kernel, its arguments, and which of them are buffers; their `host` holds the caller's pointer to the device.
struct DeviceCall {
    int (*kernel)(void **) = nullptr;
    ArgumentList args;
    std::vector<halide_buffer_t *> buffers;
    // Of buffers: what the caller did not ask for and the kernel writes. Memory for it is the backend's.
    struct Scratch {
        halide_buffer_t *buffer;
        std::size_t bytes;
    };
    std::vector<Scratch> scratch;

    explicit DeviceCall(const VariantRecord &variant) : kernel(variant.kernel) {}
    // Buffers among the arguments, which are held here. With an innermost extent: as HalideBuffer.
    halide_buffer_t *buffer(const ConstView &);
    halide_buffer_t *buffer(const ConstView &, std::int64_t innermost_extent);
    // The same of what the caller did not give: dense, of f32 where it says no type.
    halide_buffer_t *scratch_buffer(std::initializer_list<std::int64_t> extents, DType = DType::f32);
    halide_buffer_t *scratch_buffer(std::initializer_list<std::int64_t> extents, std::int64_t innermost_extent);

private:
    halide_buffer_t *add(HalideBuffer &);
    std::deque<HalideBuffer> held_;
};

// What is not given is never used, but read: it stands for some memory of the call, with strides 0.
ConstView stand_in(const ConstView &memory, DType, std::initializer_list<std::int64_t> extents);
inline const ConstView &given_or(const ConstView &v, const ConstView &other) { return v.given() ? v : other; }

struct DeviceBackend {
    std::string_view target;          // of the variants that it runs
    const std::string &(*missing)();  // what this machine lacks for it; empty: nothing
    // Queues the kernel and returns. Nothing is copied and nothing waited for.
    Status (*run)(Context::State &, DeviceCall &);
};

// That of the library, if it has one, or another. Null: none is linked in.
const DeviceBackend *device_backend() noexcept;
void use_device_backend(const DeviceBackend *) noexcept;

// Whether a call whose argument `name` is on a device can be run there. `instead` is set where the caller's Context has the CPU
// compute, and then nothing else is to be done there; it says why.
Status find_device(const Context::State &, std::string_view name, std::string &instead);
// All that are given are on the device, as `name` is.
Status check_places(std::span<const NamedView>, std::string_view name);

// What a call asks of a variant for a device. Of those that fit the forced one is chosen, else the best.
struct DeviceNeeds {
    Op op;
    DType dtype;
    std::function<bool(const VariantRecord &)> fits;  // of this op and type
    std::function<bool(const VariantRecord &, const VariantRecord &)> better;
    std::function<std::string()> sizes;  // of the call, for messages
};
Status choose_on_device(const Context::State &, const DeviceNeeds &, std::string_view variant, Choice &);

// Attention of tensors on a device, which find_device() lets be run there. `more` are inputs of the op itself; `complete`
// checks them and sets op, scale and pair of a checked call.
Status attention_on_device(Context &, const ConstView &query, const ConstView &key, const ConstView &value, const View &out,
                           const SdpaOptions &, std::span<const NamedView> more,
                           const std::function<Status(SdpaCall &)> &complete);

}  // namespace attune
