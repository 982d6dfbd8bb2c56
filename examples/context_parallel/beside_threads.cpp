// SPDX-License-Identifier: MIT
// Ranks of one thread, pinned to a core each, beside one process with as many threads, over the same attention:
//
//   mpirun -n 2 --bind-to none beside_threads [POSITIONS [HEADS [CHUNK]]]
//
// f32, head size 64, no mask. Prints medians of seven rounds, the time in which ranks waited for messages, and a forecast from
// the rate of one rank and of a link, both measured in the same run.
#include "arguments.h"
#include "sleeping_wait.h"
#include <algorithm>
#include <array>
#include <attune/attune.h>
#include <attune/mpi_communicator.h>
#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <sched.h>
#include <thread>
#include <vector>

namespace {

using attune::ConstView, attune::View;
constexpr std::int64_t width = 64;
constexpr int rounds = 7;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The median of the seconds of f(), which returns them; all ranks call.
double median(const std::function<double()> &f) {
    std::array<double, rounds> seconds;
    for (double &s : seconds) {
        meet();
        s = of_all(f(), MPI_MAX);
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[rounds / 2];
}

struct Tensors {
    std::vector<float> query, key, value, out;
    attune::Dims sizes;
    Tensors(std::int64_t heads, std::int64_t rows, unsigned seed) : sizes{1, heads, rows, width} {
        std::mt19937 random(seed);
        std::uniform_real_distribution<float> of(-1, 1);
        for (auto *v : {&query, &key, &value, &out}) v->resize(static_cast<std::size_t>(heads * rows * width));
        for (auto *v : {&query, &key, &value})
            for (float &x : *v) x = of(random);
    }
};

int fail(const attune::Status &s) {
    std::fprintf(stderr, "%s\n", s.message().c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
}

// Seconds of ring_attention, and what the report says.
double ring_seconds(attune::Context &context, const attune::Communicator &communicator, const attune::ParallelPlan &plan,
                    Tensors &t, attune::ParallelReport &report) {
    attune::ParallelOptions options;
    options.report = &report;
    const attune::Status s =
        attune::ring_attention(context, communicator, plan, ConstView(t.query, t.sizes), ConstView(t.key, t.sizes),
                               ConstView(t.value, t.sizes), View(t.out, t.sizes), options);
    if (!s.ok()) fail(s);
    return report.seconds;
}

// Bytes a second of a link while all ranks send to their neighbours, as ring_attention sends: by the communicator.
double link_rate(const attune::Communicator &c, std::size_t bytes) {
    if (c.size == 1) return 1e12;
    std::vector<char> sent(bytes), received(bytes);
    double best = 0;
    for (int n = 0; n < 10; n++) {
        void *request = nullptr;
        const double start = now();
        c.start_send_receive(c.user, sent.data(), bytes, (c.rank + 1) % c.size, received.data(), bytes,
                             (c.rank + c.size - 1) % c.size, &request);
        c.wait(c.user, request, 60);
        best = std::max(best, static_cast<double>(bytes) / (now() - start));
    }
    return of_all(best, MPI_MIN);
}

int run(const attune::Communicator &c, std::int64_t positions, std::int64_t heads, std::int64_t chunk) {
    // One process with a thread for each rank: before this one is pinned.
    Tensors all(heads, c.rank == 0 ? positions : 1, 1);
    const double of_threads = median([&] {
        if (c.rank != 0) return 0.0;
        static attune::Context context({.threads = c.size});
        const double start = now();
        const attune::Status s =
            attune::scaled_dot_product_attention(context, ConstView(all.query, all.sizes), ConstView(all.key, all.sizes),
                                                 ConstView(all.value, all.sizes), View(all.out, all.sizes));
        if (!s.ok()) fail(s);
        return now() - start;
    });

    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(c.rank) % std::max(1u, std::thread::hardware_concurrency()), &one);
    sched_setaffinity(0, sizeof one, &one);
    attune::Context context({.threads = 1});
    attune::ParallelPlan plan, alone;
    if (attune::Status s = attune::plan_positions(positions, c.size, attune::ParallelLayout::contiguous, chunk, {}, plan);
        !s.ok())
        return fail(s);
    if (attune::Status s = attune::plan_positions(2 * chunk, 1, attune::ParallelLayout::contiguous, chunk, {}, alone); !s.ok())
        return fail(s);
    const attune::ParallelProblem problem{attune::DType::f32, 1, heads, heads, width, width};

    attune::ParallelReport report;
    Tensors some(heads, 2 * chunk, 2);
    const double of_four_pairs = median([&] { return ring_seconds(context, {}, alone, some, report); });
    attune::ParallelForecast unit, forecast;
    if (attune::Status s = attune::forecast_parallel(alone, problem, attune::ParallelScheme::ring, {1, 1, 0}, unit); !s.ok())
        return fail(s);
    const attune::ParallelMachine machine{unit.seconds / of_four_pairs,
                                          link_rate(c, static_cast<std::size_t>(chunk * heads * width * 8)), 0};
    if (attune::Status s = attune::forecast_parallel(plan, problem, attune::ParallelScheme::ring, machine, forecast); !s.ok())
        return fail(s);

    Tensors own(heads, plan.positions_of(c.rank), 3 + static_cast<unsigned>(c.rank));
    std::vector<double> waits;
    const double of_ranks = median([&] {
        const double seconds = ring_seconds(context, c, plan, own, report);
        waits.push_back(report.waiting_seconds);
        return seconds;
    });
    std::sort(waits.begin(), waits.end());
    const double waiting = of_all(waits[rounds / 2], MPI_MAX);
    if (c.rank == 0) {
        std::printf("%lld positions, %lld heads, f32, chunks of %lld\n", static_cast<long long>(positions),
                    static_cast<long long>(heads), static_cast<long long>(chunk));
        std::printf("one process of %d threads: %.4f seconds\n", c.size, of_threads);
        std::printf("%d ranks of one thread: %.4f seconds, waiting %.4f (%.1f %%)\n", c.size, of_ranks, waiting,
                    100 * waiting / of_ranks);
        std::printf("forecast: %.4f seconds, from %.1f G multiply-adds/s and %.2f GB/s\n", forecast.seconds,
                    machine.multiply_adds_per_second / 1e9, machine.bytes_per_second / 1e9);
    }
    return 0;
}

}  // namespace

int main(int argc, char **argv) {
    const std::int64_t positions = whole_number(argc, argv, 1, 16384), heads = whole_number(argc, argv, 2, 8),
                       chunk = whole_number(argc, argv, 3, 2048);
    int provided = 0, result = 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    {
        attune::MpiCommunicator mpi(MPI_COMM_WORLD);
        result = run(mpi.communicator(), positions, heads, chunk);
    }
    MPI_Finalize();
    return result;
}
