// SPDX-License-Identifier: MIT
// Communicator of context parallelism: callbacks between the ranks of a group, so that the library depends on no transport.
// Adapters: attune/mpi_communicator.h, attune/thread_communicator.h.
#pragma once
#include <cstddef>

namespace attune {

// A group of `size` ranks, processes or threads, each with a number from 0. Callbacks are those of MPI's nonblocking
// operations. Each returns 0, or any other number where it failed; none may throw. One thread at a time calls them.
//
// Memory of a send and a receive belongs to the operation until wait() answers 0. Messages from one rank to
// another arrive in the order in which they were started. Elements travel as they lie in memory: all ranks have one byte order.
struct Communicator {
    int rank = 0, size = 1;
    // Seconds that a rank waits for one message. Beyond them the call fails, and so, by the same limit, do the calls of the
    // other ranks. It must cover the longest computation of a rank between two of its messages.
    double time_limit = 60;
    // False: callbacks must be called by the thread that called the library, and communication then progresses only between
    // kernels (MPI_THREAD_FUNNELED).
    bool any_thread = true;
    void *user = nullptr;

    // Begins to send to rank `to` and to receive from rank `from`, exactly these numbers of bytes; a rank of -1: no such half.
    int (*start_send_receive)(void *user, const void *send, std::size_t send_bytes, int to, void *receive,
                              std::size_t receive_bytes, int from, void **request) = nullptr;
    // Waits for a request for at most so many seconds. 0: done; 1: not done, and the request remains; any other number: failed.
    int (*wait)(void *user, void *request, double seconds) = nullptr;
    // Gives up a request that was not done. 0: its memory is no longer used; any other number: it may be used until the
    // communicator ends, and the library then leaves the memory allocated.
    int (*abandon)(void *user, void *request) = nullptr;

    // Collective operations; where null, the library makes them of start_send_receive. all_gather: rank r gives bytes[r] bytes,
    // and all receive those of rank 0, 1, ... one after another. all_to_all: parts of the sent memory, one after another, go to
    // rank 0, 1, ..., and parts come from rank 0, 1, ...
    int (*start_all_gather)(void *user, const void *send, void *receive, const std::size_t *bytes, void **request) = nullptr;
    int (*start_all_to_all)(void *user, const void *send, const std::size_t *send_bytes, void *receive,
                            const std::size_t *receive_bytes, void **request) = nullptr;
};

}  // namespace attune
