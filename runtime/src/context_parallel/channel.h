// SPDX-License-Identifier: MIT
// Messages of one call: the callbacks of a communicator with statuses, time limits, memory that outlives requests that cannot
// be given up, and counts of bytes.
#pragma once
#include "attune/communicator.h"
#include "attune/status.h"
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace attune {

// Checks what every use of a communicator needs.
Status check_communicator(const Communicator &);

class Channel {
public:
    struct Request {
        void *handle = nullptr;
        bool pending = false;
        int from = -1, to = -1;  // for messages
    };

    explicit Channel(const Communicator &c) : c_(c) {}
    ~Channel();
    Channel(const Channel &) = delete;

    const Communicator &communicator() const { return c_; }
    // Memory of messages, until the end of the Channel, or for good if a request that was given up may still use it. Null if
    // there is none.
    char *allocate(std::size_t bytes);

    Status start(const void *send, std::size_t send_bytes, int to, void *receive, std::size_t receive_bytes, int from,
                 Request &);
    // Waits until a request is done. A request that is not done within the time limit, or once stop() was called, is given up.
    Status wait(Request &);
    // Gives up a request that is pending.
    void abandon(Request &);
    // Ends waits, from another thread, with a status that says nothing.
    void stop() { stopped_ = true; }

    // Collective operations, completed. Sizes are those of ranks 0, 1, ...
    Status all_gather(const void *send, void *receive, const std::vector<std::size_t> &bytes);
    Status all_to_all(const void *send, const std::vector<std::size_t> &send_bytes, void *receive,
                      const std::vector<std::size_t> &receive_bytes);

    // Whether bytes of the next messages count.
    bool counts = true;
    std::int64_t bytes_sent() const { return bytes_sent_; }

private:
    Status failure(const Request &, const std::string &what);
    void count(std::size_t bytes) { bytes_sent_ += counts ? static_cast<std::int64_t>(bytes) : 0; }
    Status wait_all(std::vector<Request> &);

    const Communicator &c_;
    std::vector<char *> memory_;
    std::atomic<bool> stopped_{false};
    bool memory_in_use_ = false;
    std::int64_t bytes_sent_ = 0;
};

}  // namespace attune
