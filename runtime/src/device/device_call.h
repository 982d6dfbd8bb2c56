// SPDX-License-Identifier: MIT
// Calls whose tensors are on a device, and the backend that runs their kernels: one that is linked in (preset cuda) or none, in
// which case calls are refused.
#pragma once
#include "attention/sdpa_call.h"
#include "dispatch/cost.h"
#include "execution/halide_call.h"
#include <deque>
#include <functional>

namespace attune {

// A kernel, its arguments, and the buffers among them, whose `host` holds the caller's pointer to the device.
struct DeviceCall {
    int (*kernel)(void **) = nullptr;
    ArgumentList args;
    std::vector<halide_buffer_t *> buffers;
    // A buffer that the kernel writes and the caller did not ask for. queue() takes its memory.
    struct Scratch {
        halide_buffer_t *buffer;
        std::size_t bytes;
    };
    std::vector<Scratch> scratch;

    explicit DeviceCall(const VariantRecord &variant) : kernel(variant.kernel) {}
    // Buffers among the arguments, owned by this object. With an innermost extent: as HalideBuffer.
    halide_buffer_t *buffer(const ConstView &);
    halide_buffer_t *buffer(const ConstView &, std::int64_t innermost_extent);
    // Scratch buffers: dense, f32 where no type is given.
    halide_buffer_t *scratch_buffer(std::initializer_list<std::int64_t> extents, DType = DType::f32);
    halide_buffer_t *scratch_buffer(std::initializer_list<std::int64_t> extents, std::int64_t innermost_extent);

private:
    halide_buffer_t *add(HalideBuffer &);
    std::deque<HalideBuffer> held_;
};

// A stand-in for an argument that is not given, which is read but not used: memory of the call that begins at a multiple of 16
// bytes, with strides 0.
ConstView stand_in(const ConstView &memory, DType, std::initializer_list<std::int64_t> extents);
inline const ConstView &given_or(const ConstView &v, const ConstView &other) { return v.given() ? v : other; }

struct DeviceBackend {
    std::string_view target;          // of the variants that it runs
    const std::string &(*missing)();  // what this machine lacks for it; empty: nothing
    // Queues the kernel, whose scratch has memory, and returns. Nothing is copied and nothing waited for.
    Status (*run)(Context::State &, DeviceCall &);
    // Memory of the device, aligned to 256 bytes, in the order of the queue: kernels queued before release() may still use it.
    Status (*allocate)(Context::State &, std::size_t bytes, void *&block);
    void (*release)(Context::State &, void *);
};

// The library's backend, if it has one, or the one set last. Null: none is linked in.
const DeviceBackend *device_backend() noexcept;
void use_device_backend(const DeviceBackend *) noexcept;

// Bytes up to the line at which the next block begins.
constexpr std::size_t whole_lines(std::size_t bytes) {
    constexpr std::size_t line = Context::State::device_line;
    return (bytes + line - 1) / line * line;
}

// A block of the device's memory for the kernels of a call: of the workspace, or else of the backend; none in a rehearsal
// without a workspace.
class DeviceMemory {
public:
    DeviceMemory(Context::State &, std::size_t bytes);
    ~DeviceMemory();
    DeviceMemory(const DeviceMemory &) = delete;
    void *data() const { return data_; }
    const Status &status() const { return status_; }

private:
    Context::State &context_;
    std::size_t bytes_;
    void *data_ = nullptr;
    Status status_;
};

// Queues the kernel, with memory for its scratch; where the call rehearses, only that is asked for.
Status queue(Context::State &, DeviceCall &);

// Whether a call whose argument `name` is on a device can run there. `instead` is the reason for computing on the CPU, where
// the Context allows that and the device cannot; otherwise empty.
Status find_device(Context::State &, std::string_view name, std::string &instead);
// Checks that all given views are on the device, as `name` is.
Status check_places(std::span<const NamedView>, std::string_view name);

// Requirements of a call for a device. The forced variant is chosen; otherwise, of the variants that fit, the variant of least
// `order`, and of equal ones the variant with the fewest options.
struct DeviceNeeds {
    Op op;
    DType dtype;
    std::function<std::string()> sizes;  // of the call, for messages
    std::function<bool(const Runnable &)> fits = [](const Runnable &) { return true; };
    std::function<double(const Runnable &)> order = [](const Runnable &) { return 0.0; };
    bool predicted = false;  // order is a time in nanoseconds
};
Status choose_on_device(const Context::State &, const DeviceNeeds &, std::string_view variant, Choice &);
// All variants that fit, the quickest first.
std::vector<PredictedVariant> predictions_on_device(const DeviceNeeds &);

// Attention of tensors on a device, after find_device() has found it. `more` are inputs of the op itself; `complete` checks
// them and sets op, scale and pair of a checked call.
Status attention_on_device(Context &, const ConstView &query, const ConstView &key, const ConstView &value, const View &out,
                           const SdpaOptions &, std::span<const NamedView> more,
                           const std::function<Status(SdpaCall &)> &complete);

}  // namespace attune
