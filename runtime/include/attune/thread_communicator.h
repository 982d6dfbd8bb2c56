// SPDX-License-Identifier: MIT
// Communicators of threads of one process: for tests, and for a group of threads per NUMA node with a Context each.
#pragma once
#include "attune/communicator.h"
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <vector>

namespace attune {

// A group of `size` ranks. Each thread takes the communicator of its rank; the group must outlive their calls. A message is
// copied when it is sent, and so a send is done at once.
class ThreadGroup {
public:
    explicit ThreadGroup(int size)
        : size_(size), ranks_(static_cast<std::size_t>(size)), queues_(ranks_.size() * ranks_.size()) {
        for (int n = 0; n < size; n++) ranks_[static_cast<std::size_t>(n)] = {this, n};
    }
    ThreadGroup(const ThreadGroup &) = delete;

    Communicator communicator(int rank, double time_limit = 60) {
        Communicator c;
        c.rank = rank, c.size = size_, c.time_limit = time_limit;
        c.user = &ranks_[static_cast<std::size_t>(rank)];
        c.start_send_receive = start_send_receive, c.wait = wait, c.abandon = abandon;
        return c;
    }

private:
    struct Rank {
        ThreadGroup *group = nullptr;
        int number = 0;
    };
    struct Receive {
        void *memory;
        std::size_t bytes;
        int from;
    };

    std::deque<std::vector<char>> &queue(int from, int to) {
        return queues_[static_cast<std::size_t>(from) * ranks_.size() + static_cast<std::size_t>(to)];
    }

    static int start_send_receive(void *user, const void *send, std::size_t send_bytes, int to, void *receive,
                                  std::size_t receive_bytes, int from, void **request) {
        auto &self = *static_cast<Rank *>(user);
        try {
            if (to >= 0) {
                std::vector<char> message(send_bytes);
                if (send_bytes > 0) std::memcpy(message.data(), send, send_bytes);
                const std::lock_guard<std::mutex> lock(self.group->mutex_);
                self.group->queue(self.number, to).push_back(std::move(message));
                self.group->came_.notify_all();
            }
            *request = from >= 0 ? new Receive{receive, receive_bytes, from} : nullptr;
        } catch (const std::bad_alloc &) {
            return -1;
        }
        return 0;
    }

    static int wait(void *user, void *request, double seconds) {
        auto &self = *static_cast<Rank *>(user);
        auto *receive = static_cast<Receive *>(request);
        if (!receive) return 0;
        std::unique_lock<std::mutex> lock(self.group->mutex_);
        auto &queue = self.group->queue(receive->from, self.number);
        if (!self.group->came_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return !queue.empty(); })) return 1;
        const std::vector<char> message = std::move(queue.front());
        queue.pop_front();
        const bool fits = message.size() == receive->bytes;
        if (fits && !message.empty()) std::memcpy(receive->memory, message.data(), message.size());
        delete receive;
        return fits ? 0 : -1;
    }

    static int abandon(void *, void *request) {
        delete static_cast<Receive *>(request);
        return 0;
    }

    const int size_;
    std::vector<Rank> ranks_;
    std::mutex mutex_;
    std::condition_variable came_;
    std::vector<std::deque<std::vector<char>>> queues_;
};

}  // namespace attune
