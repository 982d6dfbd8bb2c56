// SPDX-License-Identifier: MIT
#include "context_parallel/circulation.h"
#include "tensors/checks.h"
#include <algorithm>
#include <chrono>
#include <system_error>

namespace attune {

Circulation::Circulation(Channel &channel, const Geometry &geometry, bool of_keys, Payload payload)
    : channel_(channel), payload_(std::move(payload)) {
    const int own = channel.communicator().rank;
    if (channel.communicator().size == 1) return;
    for (std::int64_t c = 0; c < geometry.chunks(); c++) {
        const std::vector<int> needed = geometry.needed_by(c, of_keys);
        if (needed.empty()) continue;
        if (geometry.owner(c) == own) {
            messages_.push_back({c, -1, needed[0], false, true, {}});
            continue;
        }
        const auto here = std::find(needed.begin(), needed.end(), own);
        if (here == needed.end()) continue;
        const int before = here == needed.begin() ? geometry.owner(c) : *(here - 1);
        messages_.push_back({c, before, here + 1 == needed.end() ? -1 : *(here + 1), false, false, {}});
    }
}

Circulation::~Circulation() {
    if (thread_.joinable()) {
        {
            const std::lock_guard lock(mutex_);
            gives_up_ = true;
        }
        channel_.stop();
        changed_.notify_all();
        thread_.join();
    }
    for (Message &m : messages_) channel_.abandon(m.sent);
}

Status Circulation::start() {
    std::size_t most = 0;
    for (const Message &m : messages_) most = std::max(most, payload_.bytes(m.chunk));
    for (std::size_t n = 0; n < std::min(messages_.size(), slots_of(channel_.communicator().size)); n++) {
        slots_.push_back(channel_.allocate(most));
        if (!slots_.back()) return no_memory();
    }
    if (messages_.empty() || !channel_.communicator().any_thread) return {};
    has_thread_ = true;
    try {
        thread_ = std::thread([this] {
            Status s;
            try {
                s = steps();
                if (s.ok()) s = end_sends();
            } catch (const std::bad_alloc &) {
                s = no_memory();
            }
            const std::lock_guard lock(mutex_);
            status_ = std::move(s), ended_ = true;
            changed_.notify_all();
        });
    } catch (const std::system_error &) {
        has_thread_ = false;
        return {StatusCode::out_of_memory, "a thread for messages could not be started"};
    }
    return {};
}

// One message: it comes, or is packed, and goes on.
Status Circulation::step(Message &m, std::size_t n) {
    const std::size_t slots = slots_.size();
    char *memory = slots_[n % slots];
    if (n >= slots) {  // the message before in this slot has gone, and nobody computes with it
        Message &old = messages_[n - slots];
        if (Status s = channel_.wait(old.sent); !s.ok()) return s;
        std::unique_lock lock(mutex_);
        if (has_thread_) changed_.wait(lock, [&] { return old.released || gives_up_; });
        if (gives_up_) return {StatusCode::communication, "communicator: given up"};
    }
    const std::size_t bytes = payload_.bytes(m.chunk);
    if (m.before < 0) {
        payload_.pack(m.chunk, memory);
    } else {
        Channel::Request received;
        if (Status s = channel_.start(nullptr, 0, -1, memory, bytes, m.before, received); !s.ok()) return s;
        if (Status s = channel_.wait(received); !s.ok()) return s;
        const std::lock_guard lock(mutex_);
        m.arrived = true;
        changed_.notify_all();
    }
    if (m.next < 0) return {};
    return channel_.start(memory, bytes, m.next, nullptr, 0, -1, m.sent);
}

Status Circulation::steps() {
    while (next_step_ < messages_.size()) {
        if (Status s = step(messages_[next_step_], next_step_); !s.ok()) return s;
        next_step_++;
    }
    return {};
}

Status Circulation::end_sends() {
    for (Message &m : messages_)
        if (Status s = channel_.wait(m.sent); !s.ok()) return s;
    return {};
}

Status Circulation::get(std::int64_t chunk, const char *&message) {
    while (messages_[next_get_].chunk != chunk) next_get_++;
    Message &m = messages_[next_get_];
    const auto start = std::chrono::steady_clock::now();
    Status status;
    if (has_thread_) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return m.arrived || ended_; });
        if (!m.arrived) status = status_;
    } else {
        for (; status.ok() && next_step_ <= next_get_; next_step_ += status.ok())
            status = step(messages_[next_step_], next_step_);
    }
    waiting_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    message = slots_.empty() ? nullptr : slots_[next_get_ % slots_.size()];
    return status;
}

void Circulation::release() {
    const std::lock_guard lock(mutex_);
    messages_[next_get_].released = true;
    changed_.notify_all();
}

Status Circulation::finish() {
    const auto start = std::chrono::steady_clock::now();
    Status status;
    if (has_thread_) {
        thread_.join();
        status = status_;
    } else {
        status = steps();
        if (status.ok()) status = end_sends();
    }
    waiting_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return status;
}

}  // namespace attune
