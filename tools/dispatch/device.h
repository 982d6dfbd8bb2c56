// SPDX-License-Identifier: MIT
// A GPU through the CUDA driver, for calls that are timed on it: its memory, and waiting until it has computed them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace attune::dispatch {

class Device {
public:
    // Device 0, whose primary context becomes current in this thread. Throws MachineError where there is none.
    Device();
    Device(const Device &) = delete;

    const std::string &name() const { return name_; }  // "NVIDIA H200"
    void finish() const;                               // waits for all calls that are queued

    struct Release {
        const Device *device;
        void operator()(void *address) const { device->release(address); }
    };
    using Memory = std::unique_ptr<void, Release>;
    // Memory of the device; with `values`, a copy of host memory. Throws MachineError where there is none left.
    Memory memory(std::size_t bytes, const void *values = nullptr) const;

private:
    template<typename F> void find(void *library, const char *name, F *&function);
    void check(int error, const char *what) const;
    void release(void *address) const { release_(reinterpret_cast<std::uint64_t>(address)); }

    int (*synchronize_)() = nullptr;
    int (*allocate_)(std::uint64_t *, std::size_t) = nullptr;
    int (*release_)(std::uint64_t) = nullptr;
    int (*copy_)(std::uint64_t, const void *, std::size_t) = nullptr;
    std::string name_;
};

}  // namespace attune::dispatch
