// SPDX-License-Identifier: MIT
// Calls of a shape that are timed, on the CPU or on a device.
#pragma once
#include "bench/cases/shapes.h"
#include "device.h"
#include <attune/context.h>
#include <chrono>
#include <memory>
#include <string>

namespace attune::dispatch {

inline double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The call of a shape, with tensors of random elements.
class TimedCall {
public:
    virtual ~TimedCall() = default;
    virtual Status call(const std::string &variant) = 0;  // empty: dispatch
    // Seconds of a call: of so many in a row that they take as long as `least_seconds`.
    virtual double sample(const std::string &variant, double least_seconds) = 0;
};

// The CPU or the GPU that calls are timed on.
class TimedMachine {
public:
    explicit TimedMachine(int threads) : context_(ContextOptions{.threads = threads}) {}
    // The GPU. Throws MachineError where there is none, or no kernels for it.
    static TimedMachine device();
    // The GPU, or the CPU with a number of threads, 0 for all cores.
    static TimedMachine of(bool device, int threads);

    Place place() const { return device_ ? Place::device : Place::host; }
    Context &context() { return context_; }
    std::string hardware() const;     // "AMD EPYC, 2 cores", "NVIDIA H200"
    std::string description() const;  // with the threads: "AMD EPYC, 2 cores, 1 thread"
    std::unique_ptr<TimedCall> call_of(const bench::Shape &);
    // CPU seconds that other processes have taken; 0 on a device, which waits for none of them.
    double seconds_of_others() const;

private:
    std::unique_ptr<Device> device_;  // its memory refers to it
    Context context_;
};

}  // namespace attune::dispatch
