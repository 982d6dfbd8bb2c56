// SPDX-License-Identifier: MIT
#include "context_parallel/channel.h"
#include "tensors/checks.h"
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

namespace attune {
namespace {

constexpr std::align_val_t message_alignment{128};
// Seconds between looks at stop().
constexpr double longest_wait = 0.05;

constexpr int done = 0, not_yet = 1;

// Memory that requests may use until their communicator ends, which the library does not see: it stays for good.
struct KeptMemory {
    std::vector<char *> blocks;
    KeptMemory *next;
};
std::atomic<KeptMemory *> kept_memory{nullptr};

}  // namespace

Status check_communicator(const Communicator &c) {
    if (c.size < 1) return invalid("communicator.size", "must be at least 1, got " + text(c.size));
    if (c.rank < 0 || c.rank >= c.size)
        return invalid("communicator.rank", "must be from 0 to " + text(c.size - 1) + ", got " + text(c.rank));
    if (c.size == 1) return {};
    if (!(c.time_limit > 0)) return invalid("communicator.time_limit", "must be above 0, got " + text(c.time_limit));
    if (!c.start_send_receive) return invalid("communicator.start_send_receive", "is null");
    if (!c.wait) return invalid("communicator.wait", "is null");
    if (!c.abandon) return invalid("communicator.abandon", "is null");
    return {};
}

Channel::~Channel() {
    if (memory_in_use_) {
        auto *kept = new (std::nothrow) KeptMemory{std::move(memory_), kept_memory.load()};
        while (kept && !kept_memory.compare_exchange_weak(kept->next, kept)) {}
        return;
    }
    for (char *block : memory_) ::operator delete(block, message_alignment);
}

char *Channel::allocate(std::size_t bytes) {
    memory_.reserve(memory_.size() + 1);
    auto *block = static_cast<char *>(::operator new(std::max<std::size_t>(bytes, 1), message_alignment, std::nothrow));
    if (block) memory_.push_back(block);
    return block;
}

Status Channel::failure(const Request &r, const std::string &what) {
    std::string message = "communicator: ";
    if (r.from >= 0) message += "a message from rank " + std::to_string(r.from);
    if (r.from >= 0 && r.to >= 0) message += ", or ";
    if (r.to >= 0) message += "a message to rank " + std::to_string(r.to);
    if (r.from < 0 && r.to < 0) message += "a message of all ranks";
    return {StatusCode::communication, message + " " + what};
}

Status Channel::start(const void *send, std::size_t send_bytes, int to, void *receive, std::size_t receive_bytes, int from,
                      Request &r) {
    r = {nullptr, false, from, to};
    if (c_.start_send_receive(c_.user, send, send_bytes, to, receive, receive_bytes, from, &r.handle) != 0) {
        memory_in_use_ = true;  // one half may have begun
        return failure(r, "could not be started");
    }
    r.pending = true;
    if (to >= 0) count(send_bytes);
    return {};
}

Status Channel::wait(Request &r) {
    if (!r.pending) return {};
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    for (;;) {
        const double spent = std::chrono::duration<double>(Clock::now() - start).count();
        const double left = c_.time_limit - spent;
        const int answer = c_.wait(c_.user, r.handle, std::min(longest_wait, std::max(left, 0.0)));
        if (answer == done) {
            r.pending = false;
            return {};
        }
        if (answer != not_yet) {
            r.pending = false, memory_in_use_ = true;
            return failure(r, "failed");
        }
        if (left > 0 && !stopped_) continue;
        abandon(r);
        return failure(r, stopped_ ? "was given up" : "did not come within " + text(c_.time_limit) + " seconds");
    }
}

void Channel::abandon(Request &r) {
    if (!r.pending) return;
    r.pending = false;
    if (c_.abandon(c_.user, r.handle) != 0) memory_in_use_ = true;
}

Status Channel::wait_all(std::vector<Request> &requests) {
    Status first;
    for (Request &r : requests) {
        if (!first.ok()) {
            abandon(r);
            continue;
        }
        first = wait(r);
    }
    return first;
}

Status Channel::all_gather(const void *send, void *receive, const std::vector<std::size_t> &bytes) {
    const auto own = static_cast<std::size_t>(c_.rank), ranks = bytes.size();
    auto *to = static_cast<char *>(receive);
    std::vector<std::size_t> begin(ranks);
    for (std::size_t n = 1; n < ranks; n++) begin[n] = begin[n - 1] + bytes[n - 1];
    if (ranks == 1) {
        std::memcpy(to, send, bytes[0]);
        return {};
    }
    if (c_.start_all_gather) {
        Request r;
        if (c_.start_all_gather(c_.user, send, receive, bytes.data(), &r.handle) != 0) {
            memory_in_use_ = true;
            return failure(r, "could not be started");
        }
        r.pending = true;
        count(bytes[own] * (ranks - 1));
        return wait(r);
    }
    std::memcpy(to + begin[own], send, bytes[own]);
    std::vector<Request> requests(ranks - 1);
    for (std::size_t n = 1; n < ranks; n++) {
        const std::size_t next = (own + n) % ranks, before = (own + ranks - n) % ranks;
        const Status s = start(send, bytes[own], static_cast<int>(next), to + begin[before], bytes[before],
                               static_cast<int>(before), requests[n - 1]);
        if (s.ok()) continue;
        for (Request &r : requests) abandon(r);
        return s;
    }
    return wait_all(requests);
}

Status Channel::all_to_all(const void *send, const std::vector<std::size_t> &send_bytes, void *receive,
                           const std::vector<std::size_t> &receive_bytes) {
    const auto own = static_cast<std::size_t>(c_.rank), ranks = send_bytes.size();
    if (c_.start_all_to_all && ranks > 1) {
        Request r;
        if (c_.start_all_to_all(c_.user, send, send_bytes.data(), receive, receive_bytes.data(), &r.handle) != 0) {
            memory_in_use_ = true;
            return failure(r, "could not be started");
        }
        r.pending = true;
        for (std::size_t n = 0; n < ranks; n++) count(n == own ? 0 : send_bytes[n]);
        return wait(r);
    }
    std::vector<const char *> from(ranks);
    std::vector<char *> to(ranks);
    for (std::size_t n = 0, sent = 0, received = 0; n < ranks; n++) {
        from[n] = static_cast<const char *>(send) + sent, to[n] = static_cast<char *>(receive) + received;
        sent += send_bytes[n], received += receive_bytes[n];
    }
    std::memcpy(to[own], from[own], send_bytes[own]);
    std::vector<Request> requests(ranks - 1);
    for (std::size_t n = 1; n < ranks; n++) {
        const std::size_t next = (own + n) % ranks, before = (own + ranks - n) % ranks;
        const Status s = start(from[next], send_bytes[next], static_cast<int>(next), to[before], receive_bytes[before],
                               static_cast<int>(before), requests[n - 1]);
        if (s.ok()) continue;
        for (Request &r : requests) abandon(r);
        return s;
    }
    return wait_all(requests);
}

}  // namespace attune
