// SPDX-License-Identifier: MIT
#include "contexts.h"
#include "call.h"
#include <algorithm>

namespace attune_python {

namespace {
constexpr std::ptrdiff_t most_idle_of_streams = 64;  // streams come and go
}  // namespace

Contexts::Contexts(const attune::ContextOptions &options, std::optional<void *> cuda_stream)
    : options_(options), cuda_stream_(cuda_stream) {
    auto first = std::make_unique<attune::Context>(options);
    check(first->status());
    threads_ = first->threads();
    idle_.push_back({{}, std::move(first)});
}

std::unique_ptr<attune::Context> Contexts::take(const Queue &queue) {
    for (std::size_t n = idle_.size(); n-- > 0;) {
        if (idle_[n].queue != queue) continue;
        auto context = std::move(idle_[n].context);
        idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(n));
        return context;
    }
    attune::ContextOptions options = options_;
    options.device.cuda_device = queue.device, options.device.cuda_stream = queue.stream;
    return std::make_unique<attune::Context>(options);  // a status that is not ok is the call's status
}

void Contexts::give_back(const Queue &queue, std::unique_ptr<attune::Context> context) {
    idle_.push_back({queue, std::move(context)});
    const auto is_of_stream = [](const Idle &idle) { return idle.queue.device >= 0; };
    if (std::count_if(idle_.begin(), idle_.end(), is_of_stream) > most_idle_of_streams)
        idle_.erase(std::find_if(idle_.begin(), idle_.end(), is_of_stream));
}

std::size_t Contexts::scratch_bytes() const {
    std::size_t bytes = 0;
    for (const Idle &idle : idle_) bytes += idle.context->scratch_bytes();
    return bytes;
}

void Contexts::release_scratch() {
    for (const Idle &idle : idle_) idle.context->release_scratch();
}

Contexts &default_contexts() {
    // Never destroyed: calls may run in threads while the process exits.
    static Contexts *const contexts = new Contexts({});
    return *contexts;
}

}  // namespace attune_python
