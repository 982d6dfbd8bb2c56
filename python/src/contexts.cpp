// SPDX-License-Identifier: MIT
#include "contexts.h"
#include "call.h"

namespace attune_python {

Contexts::Contexts(const attune::ContextOptions &options) : options_(options) {
    auto first = std::make_unique<attune::Context>(options);
    check(first->status());
    threads_ = first->threads();
    free_.push_back(std::move(first));
}

std::unique_ptr<attune::Context> Contexts::take() {
    if (free_.empty()) return std::make_unique<attune::Context>(options_);  // a status that is not ok is the call's status
    auto context = std::move(free_.back());
    free_.pop_back();
    return context;
}

std::size_t Contexts::scratch_bytes() const {
    std::size_t bytes = 0;
    for (const auto &context : free_) bytes += context->scratch_bytes();
    return bytes;
}

void Contexts::release_scratch() {
    for (const auto &context : free_) context->release_scratch();
}

Contexts &default_contexts() {
    // Never destroyed: calls may run in threads while the process exits.
    static Contexts *const contexts = new Contexts({});
    return *contexts;
}

}  // namespace attune_python
