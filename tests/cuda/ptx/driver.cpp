// SPDX-License-Identifier: MIT
// A libcuda.so whose device is this CPU: kernels in PTX are interpreted, device memory is the host's, and all work is done when
// it is queued. It has the functions that Halide's runtime and ours call, no more.
#include "driver_counts.h"
#include "program.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

using Pointer = std::uint64_t;

namespace {
constexpr int no_error = 0, invalid = 1, no_device = 101, invalid_context = 201, not_found = 500, launch_failed = 719,
              not_while_capturing = 900;
int something, of_thread, primary;         // targets of handles: of events; of contexts
thread_local std::vector<void *> entered;  // contexts that are current in the thread, the last one at the end
void *current_context() { return entered.empty() ? &of_thread : entered.back(); }
DriverCounts counts;

struct Launch {
    ptx::Kernel *kernel;
    unsigned grid[3], block[3];
    unsigned shared;
    std::vector<std::vector<char>> arguments;
};
bool captures = false;
std::vector<Launch> graph;

int run(const Launch &launch) {
    std::vector<void *> arguments;
    for (const std::vector<char> &bytes : launch.arguments) arguments.push_back(const_cast<char *>(bytes.data()));
    try {
        counts.barriers += ptx::run(*launch.kernel, launch.grid, launch.block, launch.shared, arguments.data());
        return no_error;
    } catch (const std::exception &e) {
        std::fprintf(stderr, "PTX interpreter: %s\n", e.what());
        return launch_failed;
    }
}

bool refused() {
    counts.refused += captures;
    return captures;
}

int copied(void *to, const void *from, std::size_t bytes) {
    if (refused()) return not_while_capturing;
    counts.copies++;
    std::memcpy(to, from, bytes);
    return no_error;
}
int allocated(Pointer *p, std::size_t bytes) {
    if (refused()) return not_while_capturing;
    counts.allocations++, counts.last_context = current_context();
    *p = reinterpret_cast<Pointer>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    return no_error;
}
int released(Pointer p) {
    if (refused()) return not_while_capturing;
    std::free(reinterpret_cast<void *>(p));
    return no_error;
}
void *host(Pointer p) { return reinterpret_cast<void *>(p); }
}  // namespace

extern "C" {
const DriverCounts *attune_driver_counts() { return &counts; }
void attune_driver_capture(int begin) {
    captures = begin;
    if (begin) graph.clear();
}
int attune_driver_replay() {
    for (const Launch &launch : graph)
        if (const int error = run(launch)) return error;
    return no_error;
}

#define ATTUNE_ACCEPTED(name) \
    int name(...) { return no_error; }
ATTUNE_ACCEPTED(cuInit)
ATTUNE_ACCEPTED(cuCtxDestroy_v2)
ATTUNE_ACCEPTED(cuModuleUnload)
ATTUNE_ACCEPTED(cuProfilerStop)
ATTUNE_ACCEPTED(cuArrayCreate_v2)
ATTUNE_ACCEPTED(cuArray3DCreate_v2)
ATTUNE_ACCEPTED(cuArrayDestroy)
ATTUNE_ACCEPTED(cuMemcpy3D_v2)
ATTUNE_ACCEPTED(cuEventRecord)
ATTUNE_ACCEPTED(cuEventDestroy_v2)
ATTUNE_ACCEPTED(cuDevicePrimaryCtxRelease)
ATTUNE_ACCEPTED(cuPointerGetAttribute)
#undef ATTUNE_ACCEPTED

int cuCtxSynchronize() { return counts.waits++, refused() ? not_while_capturing : no_error; }
int cuStreamSynchronize(void *) { return cuCtxSynchronize(); }

int cuDeviceGetCount(int *n) { return *n = 1, no_error; }
int cuDeviceGet(int *device, int number) { return *device = 0, number == 0 ? no_error : no_device; }
int cuDeviceGetAttribute(int *value, int, int) { return *value = 64, no_error; }
int cuDeviceGetName(char *name, int length, int) {
    return std::snprintf(name, std::size_t(length), "PTX interpreter"), no_error;
}
int cuDeviceTotalMem_v2(std::size_t *bytes, int) { return *bytes = std::size_t(1) << 30, no_error; }
int cuDeviceTotalMem(std::size_t *bytes, int device) { return cuDeviceTotalMem_v2(bytes, device); }
int cuCtxCreate_v2(void **context, unsigned, int) { return *context = &something, no_error; }
int cuDevicePrimaryCtxRetain(void **context, int) { return *context = &primary, no_error; }
int cuCtxPushCurrent_v2(void *context) { return entered.push_back(context), no_error; }
int cuCtxPopCurrent_v2(void **context) {
    if (entered.empty()) return invalid_context;
    *context = entered.back();
    return entered.pop_back(), no_error;
}
int cuCtxGetCurrent(void **context) { return *context = current_context(), no_error; }
int cuCtxGetApiVersion(void *, unsigned *version) { return *version = 3020, no_error; }
int cuCtxGetDevice(int *device) { return *device = 0, no_error; }
int cuEventCreate(void **event, unsigned) { return *event = &something, no_error; }
int cuEventElapsedTime(float *ms, void *, void *) { return *ms = 0, no_error; }

int cuModuleLoadData(void **module, const void *image) {
    if (refused()) return not_while_capturing;
    try {
        *module = ptx::parse(static_cast<const char *>(image)).release();
        return no_error;
    } catch (const std::exception &e) {
        std::fprintf(stderr, "PTX interpreter: %s\n", e.what());
        return invalid;
    }
}
int cuModuleLoadDataEx(void **module, const void *image, unsigned, void *, void *) { return cuModuleLoadData(module, image); }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    auto &kernels = static_cast<ptx::Module *>(module)->kernels;
    const auto found = kernels.find(name);
    if (found == kernels.end()) return not_found;
    *function = &found->second;
    return no_error;
}
// Sets the most shared memory of a block (attribute 8), which is 48 KB by default.
int cuFuncSetAttribute(void *function, int attribute, int value) {
    if (attribute == 8) static_cast<ptx::Kernel *>(function)->most_shared_bytes = static_cast<unsigned>(value);
    return no_error;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **) {
    counts.launches++, counts.last_stream = stream;
    Launch launch{static_cast<ptx::Kernel *>(function), {gx, gy, gz}, {bx, by, bz}, shared, {}};
    if (shared > launch.kernel->most_shared_bytes) return invalid;
    for (std::size_t n = 0; n < launch.kernel->parameters.size(); n++) {
        const char *argument = static_cast<const char *>(arguments[n]);
        launch.arguments.emplace_back(argument, argument + launch.kernel->parameters[n].bytes);
    }
    if (!captures) return run(launch);
    graph.push_back(std::move(launch));
    return no_error;
}

int cuMemAlloc_v2(Pointer *p, std::size_t bytes) { return allocated(p, bytes); }
int cuMemAllocAsync(Pointer *p, std::size_t bytes, void *) { return allocated(p, bytes); }
int cuMemFree_v2(Pointer p) { return released(p); }
int cuMemFreeAsync(Pointer p, void *) { return released(p); }
int cuMemcpyHtoD_v2(Pointer to, const void *from, std::size_t n) { return copied(host(to), from, n); }
int cuMemcpyDtoH_v2(void *to, Pointer from, std::size_t n) { return copied(to, host(from), n); }
int cuMemcpyDtoD_v2(Pointer to, Pointer from, std::size_t n) { return copied(host(to), host(from), n); }
int cuMemcpyHtoDAsync_v2(Pointer to, const void *from, std::size_t n, void *) { return copied(host(to), from, n); }
int cuMemcpyDtoHAsync_v2(void *to, Pointer from, std::size_t n, void *) { return copied(to, host(from), n); }
int cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, std::size_t n, void *) { return copied(host(to), host(from), n); }
}
