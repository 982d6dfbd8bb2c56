// SPDX-License-Identifier: MIT
// Communicator over MPI, of version 3 or later. The library does not depend on MPI: a program that includes this header is
// compiled and linked with its MPI (mpicxx).
#pragma once
#include "attune/communicator.h"
#include <chrono>
#include <climits>
#include <mpi.h>
#include <new>
#include <thread>
#include <vector>

namespace attune {

// A duplicate of a communicator of MPI, so that messages meet no others. Made by all ranks together, and destroyed by all
// before MPI_Finalize(). With MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE (MPI_Init_thread) messages travel while kernels
// run; with less, between kernels. Errors of MPI are returned, not fatal.
class MpiCommunicator {
public:
    explicit MpiCommunicator(MPI_Comm all, double time_limit = 60) : time_limit_(time_limit) {
        if (MPI_Comm_dup(all, &all_) != MPI_SUCCESS) all_ = MPI_COMM_NULL;
        if (all_ == MPI_COMM_NULL) return;
        MPI_Comm_set_errhandler(all_, MPI_ERRORS_RETURN);
        MPI_Comm_rank(all_, &rank_), MPI_Comm_size(all_, &size_), MPI_Query_thread(&threads_);
    }
    // A communicator with messages that never came is left to the end of the program: MPI_Comm_free() would wait for them.
    ~MpiCommunicator() {
        int finalized = 0;
        MPI_Finalized(&finalized);
        if (!finalized && !abandoned_ && all_ != MPI_COMM_NULL) MPI_Comm_free(&all_);
    }
    MpiCommunicator(const MpiCommunicator &) = delete;

    // Valid as long as this object. Its size is 0, which every call refuses, if MPI gave no communicator.
    Communicator communicator() {
        Communicator c;
        c.rank = rank_, c.size = size_, c.time_limit = time_limit_, c.any_thread = threads_ >= MPI_THREAD_SERIALIZED;
        c.user = this;
        c.start_send_receive = start_send_receive, c.wait = wait, c.abandon = abandon;
        c.start_all_gather = start_all_gather, c.start_all_to_all = start_all_to_all;
        return c;
    }

private:
    // Operations of one request, and the numbers that MPI reads until they are done.
    struct Request {
        std::vector<MPI_Request> parts;
        std::vector<int> sends, send_begins, receives, receive_begins;
        bool collective = false;
    };
    static constexpr int tag = 1;
    static constexpr std::size_t largest_part = std::size_t(1) << 30;  // counts of MPI are int

    static int start_send_receive(void *user, const void *send, std::size_t send_bytes, int to, void *receive,
                                  std::size_t receive_bytes, int from, void **request) {
        auto &self = *static_cast<MpiCommunicator *>(user);
        try {
            auto *r = new Request;
            *request = r;
            for (std::size_t at = 0; from >= 0 && (at == 0 || at < receive_bytes); at += largest_part) {
                const std::size_t bytes = receive_bytes - at < largest_part ? receive_bytes - at : largest_part;
                r->parts.push_back(MPI_REQUEST_NULL);
                if (MPI_Irecv(static_cast<char *>(receive) + at, static_cast<int>(bytes), MPI_BYTE, from, tag, self.all_,
                              &r->parts.back()) != MPI_SUCCESS)
                    return -1;
            }
            for (std::size_t at = 0; to >= 0 && (at == 0 || at < send_bytes); at += largest_part) {
                const std::size_t bytes = send_bytes - at < largest_part ? send_bytes - at : largest_part;
                r->parts.push_back(MPI_REQUEST_NULL);
                if (MPI_Isend(static_cast<const char *>(send) + at, static_cast<int>(bytes), MPI_BYTE, to, tag, self.all_,
                              &r->parts.back()) != MPI_SUCCESS)
                    return -1;
            }
        } catch (const std::bad_alloc &) {
            return -1;
        }
        return 0;
    }

    static bool counts(const std::size_t *bytes, int size, std::vector<int> &count, std::vector<int> &begin) {
        std::size_t all = 0;
        for (int n = 0; n < size; n++) {
            if (all + bytes[n] > INT_MAX) return false;
            count.push_back(static_cast<int>(bytes[n])), begin.push_back(static_cast<int>(all));
            all += bytes[n];
        }
        return true;
    }

    static int start_all_gather(void *user, const void *send, void *receive, const std::size_t *bytes, void **request) {
        auto &self = *static_cast<MpiCommunicator *>(user);
        try {
            auto *r = new Request;
            *request = r;
            r->collective = true;
            if (!counts(bytes, self.size_, r->receives, r->receive_begins)) return -1;
            r->parts.push_back(MPI_REQUEST_NULL);
            return MPI_Iallgatherv(send, r->receives[static_cast<std::size_t>(self.rank_)], MPI_BYTE, receive,
                                   r->receives.data(), r->receive_begins.data(), MPI_BYTE, self.all_, &r->parts[0]);
        } catch (const std::bad_alloc &) {
            return -1;
        }
    }

    static int start_all_to_all(void *user, const void *send, const std::size_t *send_bytes, void *receive,
                                const std::size_t *receive_bytes, void **request) {
        auto &self = *static_cast<MpiCommunicator *>(user);
        try {
            auto *r = new Request;
            *request = r;
            r->collective = true;
            if (!counts(send_bytes, self.size_, r->sends, r->send_begins)) return -1;
            if (!counts(receive_bytes, self.size_, r->receives, r->receive_begins)) return -1;
            r->parts.push_back(MPI_REQUEST_NULL);
            return MPI_Ialltoallv(send, r->sends.data(), r->send_begins.data(), MPI_BYTE, receive, r->receives.data(),
                                  r->receive_begins.data(), MPI_BYTE, self.all_, &r->parts[0]);
        } catch (const std::bad_alloc &) {
            return -1;
        }
    }

    // One by one: an error of MPI_Testall() is that of no communicator, and MPICH then ends the program.
    static bool test(Request &r, bool &done) {
        done = true;
        for (MPI_Request &part : r.parts) {
            int of_part = 0;
            if (MPI_Test(&part, &of_part, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
            done = done && of_part;
        }
        return true;
    }

    // Looks again and again: MPI_Wait() has no time limit. It sleeps in between, so that a core that computes loses little.
    static int wait(void *, void *request, double seconds) {
        using Clock = std::chrono::steady_clock;
        auto *r = static_cast<Request *>(request);
        const auto start = Clock::now();
        for (int looks = 0;; looks++) {
            bool done = false;
            if (!test(*r, done)) return -1;
            if (done) {
                delete r;
                return 0;
            }
            if (std::chrono::duration<double>(Clock::now() - start).count() >= seconds) return 1;
            if (looks < 16)
                std::this_thread::yield();
            else
                std::this_thread::sleep_for(std::chrono::microseconds(looks < 256 ? 20 : 200));
        }
    }

    // MPI can take back a receive that has not begun, and neither a send nor a collective operation. The request stays, too,
    // as its numbers may be read.
    static int abandon(void *user, void *request) {
        auto &self = *static_cast<MpiCommunicator *>(user);
        auto *r = static_cast<Request *>(request);
        bool done = false;
        if (test(*r, done) && done) {
            delete r;
            return 0;
        }
        self.abandoned_ = true;
        return 1;
    }

    MPI_Comm all_ = MPI_COMM_NULL;
    const double time_limit_;
    int rank_ = 0, size_ = 0, threads_ = 0;
    bool abandoned_ = false;
};

}  // namespace attune
