// SPDX-License-Identifier: MIT
// The library's own backend for kernels of tests, in the Python package.
#include "device/cuda_backend.h"
#include "device/device_call.h"

namespace {

const attune::DeviceBackend backend{"cuda80_as_ptx", attune::cuda_backend().missing, attune::cuda_backend().run,
                                    attune::cuda_backend().allocate, attune::cuda_backend().release};
const bool used = [] {
    attune::use_device_backend(&backend);
    return true;
}();

}  // namespace
