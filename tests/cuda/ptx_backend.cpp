// SPDX-License-Identifier: MIT
// The library's own backend with kernels in PTX. LD_LIBRARY_PATH selects the driver: the interpreter, whose device is this CPU,
// or that of a GPU. With a GPU, tests allocate managed memory, which host and device reach, and calls are waited for.
#include "device/cuda_backend.h"
#include <array>
#include <bit>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <new>

namespace {

struct Gpu {
    static constexpr std::size_t bytes = std::size_t(8) << 30, smallest = 256;

    char *begin = nullptr, *next = nullptr;  // managed memory
    int (*synchronize)() = nullptr;
    std::array<void *, 64> released{};  // lists of blocks of 2^n bytes
    std::mutex mutex;

    Gpu() {
        void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
        if (!library || dlsym(library, "attune_driver_counts")) return;  // no driver, or the interpreter
        const auto call = [&](const char *name, auto... arguments) {
            auto *function = reinterpret_cast<int (*)(decltype(arguments)...)>(dlsym(library, name));
            return function && function(arguments...) == 0;
        };
        constexpr unsigned global = 1;
        void *context = nullptr;
        unsigned long long pointer = 0;
        synchronize = reinterpret_cast<int (*)()>(dlsym(library, "cuCtxSynchronize"));
        if (synchronize && call("cuInit", 0u) && call("cuDevicePrimaryCtxRetain", &context, 0) &&
            call("cuCtxSetCurrent", context) && call("cuMemAllocManaged", &pointer, bytes, global))
            begin = next = reinterpret_cast<char *>(pointer);
    }
    bool has(const void *block) const { return begin && block >= begin && block < begin + bytes; }

    void *allocate(std::size_t size) {
        const std::size_t whole = std::bit_ceil(size < smallest ? smallest : size);
        void *&list = released[std::size_t(std::countr_zero(whole))];
        const std::lock_guard lock(mutex);
        if (void *block = list) {
            list = *static_cast<void **>(block);
            return block;
        }
        if (std::size_t(begin + bytes - next) < whole + smallest) return nullptr;
        // The 64 bytes before a block hold its size.
        *reinterpret_cast<std::size_t *>(next) = whole;
        char *block = next + smallest;
        next = block + whole;
        return block;
    }
    void release(void *block) {
        const std::size_t whole = *reinterpret_cast<std::size_t *>(static_cast<char *>(block) - smallest);
        void *&list = released[std::size_t(std::countr_zero(whole))];
        const std::lock_guard lock(mutex);
        *static_cast<void **>(block) = list;
        list = block;
    }
};

// Null before main() and where there is no GPU.
Gpu *gpu = nullptr;

attune::Status run(attune::Context::State &context, attune::DeviceCall &call) {
    const attune::Status status = attune::cuda_backend().run(context, call);
    if (gpu && gpu->synchronize()) return {attune::StatusCode::internal, "the GPU reports a failure"};
    return status;
}

const attune::DeviceBackend backend{"cuda80_as_ptx", attune::cuda_backend().missing, run, attune::cuda_backend().allocate,
                                    attune::cuda_backend().release};
const bool used = [] {
    attune::use_device_backend(&backend);
    static Gpu found;
    if (found.begin) gpu = &found;
    return true;
}();

}  // namespace

void *operator new(std::size_t size) {
    if (void *block = gpu ? gpu->allocate(size) : std::malloc(size ? size : 1)) return block;
    throw std::bad_alloc();
}
void operator delete(void *block) noexcept { gpu && gpu->has(block) ? gpu->release(block) : std::free(block); }
void operator delete(void *block, std::size_t) noexcept { operator delete(block); }
