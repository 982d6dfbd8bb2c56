// SPDX-License-Identifier: MIT
// attune.Context of Python: C++ Contexts with the same options, one for each call that runs at a time. A C++ Context serves one
// call at a time; with one for each, threads neither wait for one another nor need a lock. Python's lock (GIL) guards the list.
#pragma once
#include <attune/context.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attune_python {

// Where a call runs: a CUDA device and a stream of it, or the host.
struct Queue {
    std::int64_t device = -1;
    void *stream = nullptr;
    bool operator==(const Queue &) const = default;
};

class Contexts {
public:
    explicit Contexts(const attune::ContextOptions &, std::optional<void *> cuda_stream = {});
    Contexts(const Contexts &) = delete;
    Contexts &operator=(const Contexts &) = delete;

    // A C++ Context for one call on a queue: taken from the list of idle Contexts, or made. After fork() the child process has
    // the idle Contexts; Contexts of calls that ran in other threads of the parent are lost to the child.
    class Lease {
    public:
        Lease(Contexts &from, const Queue &queue) : from_(from), queue_(queue), context_(from.take(queue)) {}
        Lease(const Lease &) = delete;
        Lease &operator=(const Lease &) = delete;
        ~Lease() { from_.give_back(queue_, std::move(context_)); }
        attune::Context &context() { return *context_; }

    private:
        Contexts &from_;
        Queue queue_;
        std::unique_ptr<attune::Context> context_;
    };

    void remember(const std::string &variant) {
        if (last_variant_ != variant) last_variant_ = variant;
    }
    const attune::ContextOptions &options() const { return options_; }
    // The stream of all calls on a device; none: that of the arrays' library.
    const std::optional<void *> &cuda_stream() const { return cuda_stream_; }
    const std::string &last_variant() const { return last_variant_; }
    int threads() const { return threads_; }
    std::size_t scratch_bytes() const;
    void release_scratch();

private:
    struct Idle {
        Queue queue;
        std::unique_ptr<attune::Context> context;
    };
    std::unique_ptr<attune::Context> take(const Queue &);
    void give_back(const Queue &, std::unique_ptr<attune::Context>);

    attune::ContextOptions options_;
    std::vector<Idle> idle_;  // the last used at the end
    std::optional<void *> cuda_stream_;
    std::string last_variant_;
    int threads_ = 0;
};

// Contexts of calls that name none: all threads, made by the first call.
Contexts &default_contexts();

}  // namespace attune_python
