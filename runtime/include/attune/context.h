// SPDX-License-Identifier: MIT
// Resources of a call: threads, memory, device; and the variant that ran last.
#pragma once
#include "attune/detail/api.h"
#include "attune/status.h"
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace attune {

// Source of scratch memory. Both functions may be called from several threads at once.
struct Allocator {
    // At least `bytes` bytes, aligned to `alignment` (a power of two); null if there is no memory.
    void *(*allocate)(void *user, std::size_t bytes, std::size_t alignment) = nullptr;
    void (*release)(void *user, void *block, std::size_t bytes) = nullptr;
    void *user = nullptr;
};

// Device settings of calls whose tensors are there (Place::device): kernels are queued on the stream, and a call returns before
// they are done. The library neither waits for kernels nor copies tensors.
struct DeviceOptions {
    void *cuda_context = nullptr;  // a CUcontext; null: that of cuda_device, else the one current in the thread of the call
    void *cuda_stream = nullptr;   // a CUstream of that context; null: its default stream
    // Compute on the CPU where no kernel can run because the build has none, or the machine no driver; the CPU must then be
    // able to reach the tensors. Otherwise such a call is refused.
    bool cpu_instead = false;
    // Memory of the device for the scratch of calls, from a multiple of 256 bytes on. With it calls allocate nothing, so that
    // they can be captured in a CUDA graph (once each has run, which loads its kernels); one that takes more is refused with
    // the number of bytes, which Context::device_scratch_bytes() gives beforehand. Contexts may share a workspace if their
    // stream is one. Null: the driver's memory, taken and given back in the order of the stream.
    void *workspace = nullptr;
    std::size_t workspace_bytes = 0;
    // Number of the CUDA device whose primary context, that of the CUDA runtime and of PyTorch, is taken where cuda_context is
    // null; -1: none.
    std::int64_t cuda_device = -1;
};

struct ContextOptions {
    // Most threads that take part in a call, the caller's included, up to 1024; 0 means default_threads(). Results do not
    // depend on the number. Threads beside the caller's belong to the process, one per other core, and serve all Contexts;
    // without work for 0.1 ms they sleep.
    int threads = 0;
    // Bytes of scratch that are kept for the next call, per thread. Scratch beyond them is given back after the call.
    std::size_t scratch_bytes_per_thread = std::size_t(64) << 20;
    // Default: the C++ runtime's aligned allocation.
    Allocator allocator = {};
    DeviceOptions device = {};
};

// Number of threads of a Context whose options say 0: the least of the processors that the affinity of the calling thread
// allows, the CPU quota of the process's control groups (cgroups, versions 1 and 2; read once) rounded up, and 1024.
struct DefaultThreads {
    int threads;
    const char *limited_by;  // "affinity", "cgroup CPU quota" or "library"
    int processors;
    double cpu_quota;  // in processors, such as 1.5; 0: none
};
ATTUNE_API DefaultThreads default_threads();

// A Context holds the resources of calls. Contexts are independent: different threads may use different Contexts at the same
// time. One Context serves one call at a time. Environment variables, read by the constructor: ATTUNE_FORCE_VARIANT=name runs
// that variant for every call of its op, or fails if it can't (a name that no variant has makes status() say so);
// ATTUNE_VERBOSE=1 writes a line to stderr for each call, with variant, reason and microseconds, and first the line of
// missing_variants() (variants.h); ATTUNE_RECORD_SHAPES=file appends to a file, when the Context is destroyed, a line for each
// called shape with its calls and seconds (a file that cannot be written makes status() say so).
//
// Each call computes in the default floating-point state, on every thread: rounding to nearest, subnormal numbers kept, no
// traps. The caller's rounding mode, flush-to-zero, denormals-are-zero, trap masks and exception flags are back when it
// returns. Calls may be made in a child after fork(), in a Context that no other thread was using, and while the process
// exits: exit() waits for none.
//
// A Context can be moved between calls, with all that it holds. A moved-from Context may be assigned to or destroyed; its
// status() is not ok, and every call with it returns that status.
class ATTUNE_API Context {
public:
    Context();
    explicit Context(const ContextOptions &);
    ~Context();
    Context(Context &&) noexcept;
    Context &operator=(Context &&) noexcept;

    // Not ok if an option is wrong, for instance "threads: must be from 1 to 1024, or 0 for default_threads(), got -2", or
    // memory ran out; every call with the Context then returns the same status.
    const Status &status() const;
    int threads() const;
    // Name of the variant that the last successful call ran; empty before the first call, and where no kernel was needed. Where
    // another variant computed the last queries (Plan::variant_of_last_queries), the variant of all other queries.
    const std::string &last_variant() const;
    // Bytes of the device's memory that the last call with tensors there took for scratch, with or without a workspace.
    std::size_t device_scratch_bytes() const;
    // Bytes of scratch that are kept for the next call; release_scratch() gives them back.
    std::size_t scratch_bytes() const;
    void release_scratch();

    struct State;

private:
    friend State &state_of(const Context &) noexcept;
    Status read(const ContextOptions &);
    Status status_;
    std::unique_ptr<State> state_;  // null where memory ran out, or the Context was moved from
    std::string no_variant_;
};

}  // namespace attune
