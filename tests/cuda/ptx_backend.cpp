// The library's own backend, of kernels that are PTX. LD_LIBRARY_PATH says which driver it finds.
#include "cuda_backend.h"

namespace {
const attune::DeviceBackend backend{"cuda80_as_ptx", attune::cuda_backend().missing, attune::cuda_backend().run};
const bool used = (attune::use_device_backend(&backend), true);
}  // namespace
