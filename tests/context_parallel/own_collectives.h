// SPDX-License-Identifier: MIT
// A communicator with collective operations of its own, as that of MPI has them.
#pragma once
#include <attune/communicator.h>
#include <cstring>
#include <vector>

namespace attune_test {

// Makes the collectives of another communicator's messages. They are done when they have been started: their request is null.
class OwnCollectives {
public:
    explicit OwnCollectives(const attune::Communicator &by_messages) : by_messages_(by_messages) {}

    attune::Communicator communicator() {
        attune::Communicator c = by_messages_;
        c.user = this;
        c.start_send_receive = [](void *user, const void *send, std::size_t send_bytes, int to, void *receive,
                                  std::size_t receive_bytes, int from, void **request) {
            const attune::Communicator &of = messages_of(user);
            return of.start_send_receive(of.user, send, send_bytes, to, receive, receive_bytes, from, request);
        };
        c.wait = [](void *user, void *request, double seconds) {
            const attune::Communicator &of = messages_of(user);
            return request ? of.wait(of.user, request, seconds) : 0;
        };
        c.abandon = [](void *user, void *request) {
            const attune::Communicator &of = messages_of(user);
            return request ? of.abandon(of.user, request) : 0;
        };
        c.start_all_gather = [](void *user, const void *send, void *receive, const std::size_t *bytes, void **request) {
            const attune::Communicator &of = messages_of(user);
            const std::vector<std::size_t> sent(std::size_t(of.size), bytes[of.rank]), nowhere(std::size_t(of.size), 0);
            *request = nullptr;
            return exchange(of, send, sent.data(), nowhere, receive, bytes);
        };
        c.start_all_to_all = [](void *user, const void *send, const std::size_t *send_bytes, void *receive,
                                const std::size_t *receive_bytes, void **request) {
            const attune::Communicator &of = messages_of(user);
            *request = nullptr;
            return exchange(of, send, send_bytes, begins(of, send_bytes), receive, receive_bytes);
        };
        return c;
    }

private:
    static const attune::Communicator &messages_of(void *user) { return static_cast<OwnCollectives *>(user)->by_messages_; }

    static std::vector<std::size_t> begins(const attune::Communicator &of, const std::size_t *bytes) {
        std::vector<std::size_t> begin(std::size_t(of.size), 0);
        for (std::size_t n = 1; n < begin.size(); n++) begin[n] = begin[n - 1] + bytes[n - 1];
        return begin;
    }

    // Sends send_bytes[n] bytes from send_begins[n] on to rank n, and receives what the ranks send one after another.
    static int exchange(const attune::Communicator &of, const void *send, const std::size_t *send_bytes,
                        const std::vector<std::size_t> &send_begins, void *receive, const std::size_t *receive_bytes) {
        const auto *from = static_cast<const char *>(send);
        auto *to = static_cast<char *>(receive);
        const std::vector<std::size_t> receive_begins = begins(of, receive_bytes);
        const auto own = std::size_t(of.rank), ranks = std::size_t(of.size);
        if (send_bytes[own]) std::memcpy(to + receive_begins[own], from + send_begins[own], send_bytes[own]);
        for (std::size_t n = 1; n < ranks; n++) {
            const std::size_t next = (own + n) % ranks, before = (own + ranks - n) % ranks;
            void *request = nullptr;
            if (int failed = of.start_send_receive(of.user, from + send_begins[next], send_bytes[next], int(next),
                                                   to + receive_begins[before], receive_bytes[before], int(before), &request))
                return failed;
            if (int failed = of.wait(of.user, request, of.time_limit)) return failed;
        }
        return 0;
    }

    const attune::Communicator by_messages_;
};

}  // namespace attune_test
