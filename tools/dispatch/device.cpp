// SPDX-License-Identifier: MIT
#include "device.h"
#include "tools/error.h"
#include <dlfcn.h>

namespace attune::dispatch {

template<typename F> void Device::find(void *library, const char *name, F *&function) {
    function = reinterpret_cast<F *>(dlsym(library, name));
    if (!function) throw program::MachineError("device", "the CUDA driver is too old: it has no " + std::string(name));
}

void Device::check(int error, const char *what) const {
    if (error) throw program::MachineError("device", std::string(what) + ": error " + std::to_string(error) + " of the driver");
}

Device::Device() {
    void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library) throw program::MachineError("device", "there is no CUDA driver (libcuda.so.1)");
    int (*init)(unsigned), (*device)(int *, int), (*device_name)(char *, int, int), (*retain)(void **, int), (*enter)(void *);
    find(library, "cuInit", init), find(library, "cuDeviceGet", device), find(library, "cuDeviceGetName", device_name);
    find(library, "cuDevicePrimaryCtxRetain", retain), find(library, "cuCtxPushCurrent_v2", enter);
    find(library, "cuCtxSynchronize", synchronize_), find(library, "cuMemAlloc_v2", allocate_);
    find(library, "cuMemFree_v2", release_), find(library, "cuMemcpyHtoD_v2", copy_);
    int number = 0;
    void *context = nullptr;
    char text[256] = "";
    check(init(0), "cuInit"), check(device(&number, 0), "cuDeviceGet");
    check(device_name(text, sizeof(text), number), "cuDeviceGetName");
    check(retain(&context, number), "cuDevicePrimaryCtxRetain"), check(enter(context), "cuCtxPushCurrent");
    name_ = text;
}

void Device::finish() const { check(synchronize_(), "cuCtxSynchronize"); }

Device::Memory Device::memory(std::size_t bytes, const void *values) const {
    std::uint64_t address = 0;
    check(allocate_(&address, bytes), "cuMemAlloc");
    Memory memory(reinterpret_cast<void *>(address), {this});
    if (values) check(copy_(address, values, bytes), "cuMemcpyHtoD");
    return memory;
}

}  // namespace attune::dispatch
