// SPDX-License-Identifier: MIT
// Circulation of chunks: each chunk travels from its owner along the ranks that need it, in the order of the chunks, while the
// ranks compute with chunks that came before.
//
// A rank handles its messages in the order of the chunks, in a few slots of memory. A message of chunk c waits for messages of
// earlier chunks alone, here and on other ranks, and so some rank can always go on: there is no deadlock.
#pragma once
#include "context_parallel/channel.h"
#include "context_parallel/geometry.h"
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace attune {

class Circulation {
public:
    // bytes(chunk): those of its message; pack(chunk, memory) writes the message of a chunk of this rank.
    struct Payload {
        std::function<std::size_t(std::int64_t chunk)> bytes;
        std::function<void(std::int64_t chunk, char *)> pack;
    };
    // of_keys: chunks are needed by ranks that hold queries which see them, else by ranks that hold keys which they see.
    Circulation(Channel &, const Geometry &, bool of_keys, Payload);
    ~Circulation();
    Circulation(const Circulation &) = delete;

    Status start();
    // Waits for a chunk of another rank that this rank needs, in the order of the chunks. The message stays until release().
    Status get(std::int64_t chunk, const char *&message);
    void release();
    // Waits until all messages have gone.
    Status finish();
    double waiting_seconds() const { return waiting_seconds_; }

private:
    struct Message {
        std::int64_t chunk;
        int before, next;  // ranks from which it comes and to which it goes; -1: this rank's own, and the last
        bool arrived = false, released = false;
        Channel::Request sent;
    };
    Status step(Message &, std::size_t n);
    Status steps();
    Status end_sends();

    Channel &channel_;
    const Payload payload_;
    std::vector<Message> messages_;
    std::vector<char *> slots_;
    std::size_t next_step_ = 0, next_get_ = 0;
    // The thread that communicates, and its status once it ended.
    bool has_thread_ = false;
    std::thread thread_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ended_ = false, gives_up_ = false;
    Status status_;
    double waiting_seconds_ = 0;
};

}  // namespace attune
