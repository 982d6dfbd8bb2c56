// SPDX-License-Identifier: MIT
// Ranks of context parallelism that are processes of MPI: mpi_ranks random FIRST_SEED COUNT, mpi_ranks disagree, or
// mpi_ranks stopped. Every rank makes the tensors of all positions, computes all results alone, and compares its rows.
#include "attune/attune.h"
#include "attune/mpi_communicator.h"
#include "tests/context_parallel/parallel_case.h"
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

using namespace attune_test;
using attune::Status, attune::StatusCode;

namespace {

// Number of cases in which this rank's rows differ from those of one rank.
template<typename T> int compare(attune::Context &context, attune::MpiCommunicator &mpi, const ParallelCase &c) {
    const attune::Communicator communicator = mpi.communicator();
    const ParallelArrays<T> arrays(c);
    ParallelResults<T> one(c), several(c);
    attune::ParallelPlan plan, alone;
    Status s = plan_of(c, communicator.size, plan);
    if (s.ok()) s = plan_of(c, 1, alone);
    if (s.ok()) s = run_rank(context, {}, c, alone, arrays, one);
    if (s.ok()) s = run_rank(context, communicator, c, plan, arrays, several);
    const std::string wrong = s.ok() ? difference(c, plan, communicator.rank, one, several) : s.message();
    if (wrong.empty()) return 0;
    std::printf("rank %d of %d: %s: %s\n", communicator.rank, communicator.size, describe(c).c_str(), wrong.c_str());
    return 1;
}

int random_cases(attune::Context &context, attune::MpiCommunicator &mpi, unsigned first, unsigned count) {
    const int size = mpi.communicator().size;
    int wrong = 0;
    for (unsigned n = 0; n < count; n++) {
        ParallelCase c = random_case(first + n);
        if (c.scheme == Scheme::heads && c.key_heads % size != 0) c.scheme = Scheme::ring;
        switch (c.seed % 8) {
        case 0: wrong += compare<BFloat16>(context, mpi, c); break;
        case 1: wrong += compare<double>(context, mpi, c); break;
        default: wrong += compare<float>(context, mpi, c);
        }
    }
    return wrong;
}

// Rank 1 has another chunk size: every rank must be told.
int disagreement(attune::Context &context, attune::MpiCommunicator &mpi) {
    const attune::Communicator communicator = mpi.communicator();
    ParallelCase c;
    if (communicator.rank == 1) c.chunk = 8;
    const ParallelArrays<float> arrays(c);
    ParallelResults<float> results(c);
    attune::ParallelPlan plan;
    if (!plan_of(c, communicator.size, plan).ok()) return 1;
    const Status s = run_rank(context, communicator, c, plan, arrays, results);
    return s.code() == StatusCode::invalid_argument && s.message().find("plan.chunk: ranks disagree") == 0 ? 0 : 1;
}

// A communicator of a process that stops for good after some messages, asleep: launchers end all processes with one of them
// (killed_rank.cpp has no launcher).
struct Stopping {
    attune::Communicator inner;
    int messages;
};
Stopping stopping;

attune::Communicator stops_after(int messages, const attune::Communicator &inner) {
    stopping = {inner, messages};
    attune::Communicator c = inner;
    c.start_send_receive = [](void *user, const void *send, std::size_t sent, int to, void *receive, std::size_t received,
                              int from, void **request) {
        if (stopping.messages-- == 0) {
            ::sleep(8);
            std::_Exit(0);
        }
        return stopping.inner.start_send_receive(user, send, sent, to, receive, received, from, request);
    };
    return c;
}

// Rank 1 stops in the middle of a call: the others must end within their time limit of 2 seconds.
int stopped_rank(attune::Context &context, attune::MpiCommunicator &mpi) {
    attune::Communicator communicator = mpi.communicator();
    const ParallelCase c{.positions = 400, .chunk = 8};
    const ParallelArrays<float> arrays(c);
    ParallelResults<float> results(c);
    attune::ParallelPlan plan;
    if (!plan_of(c, communicator.size, plan).ok()) return 1;
    if (communicator.rank == 1) communicator = stops_after(20, communicator);
    const Status s = run_rank(context, communicator, c, plan, arrays, results);
    const bool told = s.code() == StatusCode::communication;
    std::printf("rank %d: %s\n", communicator.rank, s.message().c_str());
    std::fflush(stdout);
    // MPI_Finalize() would wait for the rank that does not answer; and the launcher ends all processes with the first.
    ::sleep(2);
    std::_Exit(told ? 0 : 1);
}

}  // namespace

int main(int argc, char **argv) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    const std::string what = argc > 1 ? argv[1] : "";
    int wrong = 0;
    {
        attune::Context context({.threads = 1});
        attune::MpiCommunicator mpi(MPI_COMM_WORLD, what == "stopped" ? 2 : 60);
        if (what == "random" && argc == 4)
            wrong = random_cases(context, mpi, unsigned(std::strtoul(argv[2], nullptr, 10)),
                                 unsigned(std::strtoul(argv[3], nullptr, 10)));
        else if (what == "disagree")
            wrong = disagreement(context, mpi);
        else if (what == "stopped")
            wrong = stopped_rank(context, mpi);
        else
            wrong = 1;
    }
    int of_all = 0;
    MPI_Allreduce(&wrong, &of_all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return of_all ? 1 : 0;
}
