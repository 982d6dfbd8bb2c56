// A device of OpenCL, such as PoCL's, which is this CPU: tensors are the host's own, and copied there and back.
#include "HalideRuntimeOpenCL.h"
#include "device_call.h"

namespace {

using namespace attune;

const std::string &missing() {
    static const std::string what = [] {
        return halide_device_sync_global(nullptr, halide_opencl_device_interface()) ? "there is no device of OpenCL" : "";
    }();
    return what;
}

Status run(Context::State &context, DeviceCall &call) {
    std::vector<char> scratch(call.scratch_bytes);
    if (call.scratch) call.scratch->host = reinterpret_cast<std::uint8_t *>(scratch.data());
    for (halide_buffer_t *b : call.buffers) b->set_host_dirty();
    Status status = call_kernel(context, call.kernel, call.args.data(), 1);
    for (halide_buffer_t *b : call.buffers) {
        if (status.ok() && b->device_dirty() && halide_copy_to_host(nullptr, b))
            status = {StatusCode::internal, "cannot copy a result to the host"};
        halide_device_free(nullptr, b);
    }
    return status;
}

const DeviceBackend backend{"cuda80_as_opencl", missing, run};
const bool used = (use_device_backend(&backend), true);

}  // namespace
