// SPDX-License-Identifier: MIT
#include "device/device_call.h"
#include <algorithm>

namespace attune {

halide_buffer_t *DeviceCall::add(HalideBuffer &added) {
    halide_buffer_t *b = added.get();
    // Kernels for devices read bf16 as 16-bit unsigned integers.
    if (b->type.code == halide_type_bfloat) b->type.code = halide_type_uint;
    buffers.push_back(b);
    return b;
}
halide_buffer_t *DeviceCall::buffer(const ConstView &v) { return add(held_.emplace_back(v)); }
halide_buffer_t *DeviceCall::buffer(const ConstView &v, std::int64_t innermost_extent) {
    return add(held_.emplace_back(v, innermost_extent));
}

halide_buffer_t *DeviceCall::scratch_buffer(std::initializer_list<std::int64_t> extents, DType type) {
    View v(static_cast<float *>(nullptr), extents);
    v.dtype = type;
    std::int64_t bytes = size_of(type);
    for (const std::int64_t extent : extents) bytes *= extent;
    halide_buffer_t *added = buffer(v);
    scratch.push_back({added, static_cast<std::size_t>(bytes)});
    return added;
}
halide_buffer_t *DeviceCall::scratch_buffer(std::initializer_list<std::int64_t> extents, std::int64_t innermost_extent) {
    std::int64_t bytes = size_of(DType::f32);
    for (const std::int64_t extent : extents) bytes *= extent;
    halide_buffer_t *added = buffer(View(static_cast<float *>(nullptr), extents), innermost_extent);
    scratch.push_back({added, static_cast<std::size_t>(bytes)});
    return added;
}

DeviceMemory::DeviceMemory(Context::State &context, std::size_t bytes) : context_(context), bytes_(whole_lines(bytes)) {
    Context::State::DeviceScratch &scratch = context.device_scratch;
    const std::size_t begin = scratch.used;
    scratch.used += bytes_;
    scratch.most = std::max(scratch.most, scratch.used);
    const DeviceOptions &device = context.device;
    if (device.workspace) {
        // One that is too small is refused at the end of the rehearsal.
        data_ = reinterpret_cast<void *>(reinterpret_cast<std::uintptr_t>(device.workspace) + begin);
        if (!scratch.rehearses && scratch.used > device.workspace_bytes)
            status_ = {StatusCode::internal, "a call on a device took more scratch than in its rehearsal"};
    } else if (bytes_ != 0 && !scratch.rehearses) {
        status_ = device_backend()->allocate(context, bytes_, data_);
    }
}
DeviceMemory::~DeviceMemory() {
    context_.device_scratch.used -= bytes_;
    if (data_ && !context_.device.workspace) device_backend()->release(context_, data_);
}

Status queue(Context::State &context, DeviceCall &call) {
    std::size_t bytes = 0;
    for (const DeviceCall::Scratch &s : call.scratch) bytes += whole_lines(s.bytes);
    const DeviceMemory block(context, bytes);
    if (!block.status().ok()) return block.status();
    if (context.device_scratch.rehearses) return {};
    auto *next = static_cast<std::uint8_t *>(block.data());
    for (const DeviceCall::Scratch &s : call.scratch) {
        s.buffer->host = next;
        next += whole_lines(s.bytes);
    }
    return device_backend()->run(context, call);
}

ConstView stand_in(const ConstView &memory, DType type, std::initializer_list<std::int64_t> extents) {
    // Memory of a device is allocated at multiples of 256 bytes. A tensor of 16 bits may begin at an odd one of its elements,
    // where a load of 32 bits would fault.
    constexpr std::uintptr_t bytes = 16;
    const std::uintptr_t behind = reinterpret_cast<std::uintptr_t>(memory.data) % bytes;
    ConstView v(reinterpret_cast<const float *>(static_cast<const char *>(memory.data) - behind), extents);
    v.dtype = type;
    for (std::int64_t &stride : v.stride) stride = 0;
    return v;
}

Status find_device(Context::State &context, std::string_view name, std::string &instead) {
    const DeviceBackend *backend = device_backend();
    const std::string missing = backend ? backend->missing() : "this build has no kernels for a device (preset cuda)";
    context.device_scratch.most = 0;
    if (missing.empty()) return {};
    context.device_scratch.rehearses = false;  // the CPU computes at once
    if (!context.device.cpu_instead) return unsupported(name, "is on a device, but " + missing);
    instead = "tensors on a device, but " + missing;
    return {};
}

Status check_places(std::span<const NamedView> views, std::string_view name) {
    for (const NamedView &v : views)
        if (v.view.given() && v.view.place != Place::device)
            return invalid(v.name, "is on the host, " + std::string(name) + " is on a device");
    return {};
}

Status choose_on_device(const Context::State &context, const DeviceNeeds &needs, std::string_view variant, Choice &choice) {
    const std::string_view target = device_backend()->target;
    const Forced forced = forced_variant(context, variant, needs.op);
    const auto fits = [&](const Runnable &v) {
        return (forced.name.empty() || v.record->name == forced.name) && needs.fits(v);
    };
    PredictedVariant next;
    const PredictedVariant best = quickest_of(device_runnables(needs.op, needs.dtype, target), fits, needs.order, &next);
    if (best.variant && !forced.name.empty())
        choice = {best.variant->record, "forced", true};
    else if (best.variant)
        choice = needs.predicted ? Choice::of(best, next) : Choice{best.variant->record, "tensors on the device"};
    if (choice.variant) return {};
    if (!forced.name.empty())
        return {StatusCode::invalid_argument, std::string(forced.by) + ": " + std::string(forced.name) + " is no variant of " +
                                                  std::string(target) +
                                                  " for the type, sizes, alignment and options of this call"};
    return {StatusCode::unsupported, std::string(needs.op.name) + ": no variant of " + std::string(target) + " for " +
                                         name_of(needs.dtype) + " and " + needs.sizes() + " is linked in"};
}

std::vector<PredictedVariant> predictions_on_device(const DeviceNeeds &needs) {
    return sorted_by_time(device_runnables(needs.op, needs.dtype, device_backend()->target), needs.fits, needs.order);
}

}  // namespace attune
