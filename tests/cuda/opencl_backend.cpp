// SPDX-License-Identifier: MIT
// Backend of an OpenCL device, such as PoCL's, which is this CPU: tensors are the host's own, copied there and back.
#include "execution/halide_runtime.h"  // before others of the runtime

#include "HalideRuntimeOpenCL.h"
#include "device/device_call.h"
#include <cstdlib>
#include <cstring>

namespace {

using namespace attune;

const std::string &missing() {
    static const std::string what = [] {
        return halide_device_sync_global(nullptr, halide_opencl_device_interface()) ? "there is no device of OpenCL" : "";
    }();
    return what;
}

// Dense copies of tables with negative strides, of up to two dimensions, which Halide does not copy to a device of OpenCL.
void make_dense(halide_buffer_t &b, std::vector<char> &memory) {
    bool reversed = false;
    for (int n = 0; n < b.dimensions; n++) reversed = reversed || b.dim[n].stride < 0;
    if (!reversed) return;
    const std::size_t size = b.type.bytes();
    const int columns = b.dim[0].extent, rows = b.dimensions > 1 ? b.dim[1].extent : 1;
    memory.resize(size * std::size_t(columns) * std::size_t(rows));
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            const std::int64_t at =
                std::int64_t(j) * b.dim[0].stride + (b.dimensions > 1 ? std::int64_t(i) * b.dim[1].stride : 0);
            std::memcpy(&memory[size * std::size_t(i * columns + j)], b.host + at * std::int64_t(size), size);
        }
    b.host = reinterpret_cast<std::uint8_t *>(memory.data());
    b.dim[0].stride = 1;
    if (b.dimensions > 1) b.dim[1].stride = columns;
}

Status run(Context::State &context, DeviceCall &call) {
    std::vector<std::vector<char>> dense(call.buffers.size());
    for (std::size_t n = 0; n < dense.size(); n++) make_dense(*call.buffers[n], dense[n]);
    for (halide_buffer_t *b : call.buffers) b->set_host_dirty();
    Status status = call_kernel(context, call.kernel, call.args.data(), 1);
    for (halide_buffer_t *b : call.buffers) {
        if (status.ok() && b->device_dirty() && halide_copy_to_host(nullptr, b))
            status = {StatusCode::internal, "cannot copy a result to the host"};
        halide_device_free(nullptr, b);
    }
    return status;
}

// The device's memory is the host's.
Status allocate(Context::State &, std::size_t bytes, void *&block) {
    block = std::malloc(bytes);
    return block ? Status() : Status(StatusCode::out_of_memory, "the device has no memory for this call");
}
void release(Context::State &, void *block) { std::free(block); }

const DeviceBackend backend{"cuda80_as_opencl", missing, run, allocate, release};
const bool used = (use_device_backend(&backend), true);

}  // namespace
