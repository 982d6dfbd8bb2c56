// SPDX-License-Identifier: MIT
// Calls of kernels: arguments in Halide's order, and Halide's process-wide handlers for errors, threads and memory. They act
// for our calls only and pass every other call on to the handler before them.
#pragma once
#include "attune/tensor.h"
#include "execution/argument_list.h"
#include "execution/context_state.h"
#include "execution/halide_runtime.h"
#include <cstdint>
#include <functional>
#include <string>

namespace attune {

// A halide_buffer_t of a view; the only place where dimensions are reversed to innermost first.
class HalideBuffer {
public:
    explicit HalideBuffer(const ConstView &);
    // The same memory with one more, innermost dimension of stride 0.
    HalideBuffer(const ConstView &, std::int64_t innermost_extent);
    HalideBuffer(const HalideBuffer &) = delete;
    halide_buffer_t *get() { return &buffer_; }

private:
    void append(std::int64_t extent, std::int64_t stride);
    halide_dimension_t dims_[max_rank + 1];
    halide_buffer_t buffer_{};
};

using Kernel = int (*)(void **);
// Runs kernel(args) with at most `threads` threads; sets args[0]. Halide's error codes become a Status.
Status call_kernel(Context::State &, Kernel, void **args, int threads);
// The threads that a kernel called here may have of so many: one within a task of run_tasks().
int threads_of_kernel(int threads);

// Runs a kernel with a struct of kernel_arguments.h; `form` says which of its members the kernel has, where kernels differ.
template<typename Arguments>
requires requires(const Arguments &arguments, ArgumentList &list) { arguments.append_to(list); }
Status call_kernel(Context::State &context, Kernel kernel, const Arguments &arguments, int threads) {
    ArgumentList list;
    arguments.append_to(list);
    return call_kernel(context, kernel, list.data(), threads);
}
template<typename Arguments>
Status call_kernel(Context::State &context, Kernel kernel, const Arguments &arguments, const typename Arguments::Form &form,
                   int threads) {
    ArgumentList list;
    arguments.append_to(list, form);
    return call_kernel(context, kernel, list.data(), threads);
}

// Runs task(n, worker) for every n in [0, count), begun in that order by at most `threads` workers, numbered from 0. A kernel
// that a task calls has the task's thread alone. Returns the status of the first task that failed, for any number of threads;
// later tasks may then not have run.
using Task = std::function<Status(std::int64_t n, int worker)>;
Status run_tasks(Context::State &, std::int64_t count, int threads, const Task &);

}  // namespace attune
