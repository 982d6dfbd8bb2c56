// SPDX-License-Identifier: MIT
// attune.Context of Python: C++ Contexts with the same options, one for each call that runs at a time. A C++ Context serves one
// call at a time; with one for each, threads neither wait for one another nor need a lock. Python's lock (GIL) guards the list.
#pragma once
#include <attune/context.h>
#include <memory>
#include <string>
#include <vector>

namespace attune_python {

class Contexts {
public:
    explicit Contexts(const attune::ContextOptions &);
    Contexts(const Contexts &) = delete;
    Contexts &operator=(const Contexts &) = delete;

    // A C++ Context for one call: taken from the list of idle Contexts, or made. After fork() the child process has the idle
    // Contexts; Contexts of calls that ran in other threads of the parent are lost to the child.
    class Lease {
    public:
        explicit Lease(Contexts &from) : from_(from), context_(from.take()) {}
        Lease(const Lease &) = delete;
        Lease &operator=(const Lease &) = delete;
        ~Lease() { from_.free_.push_back(std::move(context_)); }
        attune::Context &context() { return *context_; }

    private:
        Contexts &from_;
        std::unique_ptr<attune::Context> context_;
    };

    void remember(const std::string &variant) {
        if (last_variant_ != variant) last_variant_ = variant;
    }
    const attune::ContextOptions &options() const { return options_; }
    const std::string &last_variant() const { return last_variant_; }
    int threads() const { return threads_; }
    std::size_t scratch_bytes() const;
    void release_scratch();

private:
    std::unique_ptr<attune::Context> take();

    attune::ContextOptions options_;
    std::vector<std::unique_ptr<attune::Context>> free_;
    std::string last_variant_;
    int threads_ = 0;
};

// Contexts of calls that name none: all threads, made by the first call.
Contexts &default_contexts();

}  // namespace attune_python
