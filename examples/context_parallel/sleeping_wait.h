// SPDX-License-Identifier: MIT
// Collectives of MPI whose waiting ranks sleep. MPI_Barrier() and MPI_Allreduce() spin, and so take a core from the rank whose
// computing is timed.
#pragma once
#include <chrono>
#include <mpi.h>
#include <thread>

inline void wait_asleep(MPI_Request request) {
    int done = 0;
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done; MPI_Test(&request, &done, MPI_STATUS_IGNORE))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Waits for all ranks: asleep, then by a barrier, so that ranks leave together and not up to 1 ms apart.
inline void meet() {
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    wait_asleep(request);
    MPI_Barrier(MPI_COMM_WORLD);
}

// The sum, or the least or largest number, of all ranks.
inline double of_all(double x, MPI_Op op) {
    double all = 0;
    MPI_Request request;
    MPI_Iallreduce(&x, &all, 1, MPI_DOUBLE, op, MPI_COMM_WORLD, &request);
    wait_asleep(request);
    return all;
}
