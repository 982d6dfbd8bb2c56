// SPDX-License-Identifier: MIT
// A context of 1,000,000 tokens, one head of 64 channels in bf16, over the processes of MPI:
//
//   mpirun -n 4 million_tokens [POSITIONS [CHUNK [LAYOUT [SCHEME]]]]
//
// LAYOUT: contiguous, head_tail, striped or balanced; SCHEME: ring or gathered. Each process holds a share of the positions,
// computes causal attention of its queries over all keys before them (prefill), and then all decode one token together. One key
// somewhere is a needle that the last query looks for: both must find it. Times stand beside a forecast, which is made of the
// rate of one process and of one link as they are measured before.
#include "arguments.h"
#include "sleeping_wait.h"
#include <algorithm>
#include <attune/attune.h>
#include <attune/mpi_communicator.h>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <string_view>
#include <vector>

namespace {

using attune::ConstView, attune::View, attune::bfloat16;
constexpr std::int64_t width = 64;
constexpr const char *layouts[] = {"contiguous", "head_tail", "striped", "balanced"};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int fail(const attune::Status &status) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
}

// Numbers in [-1, 1] that depend on the position, the channel and the tensor alone, whichever process makes them (SplitMix64).
float number(std::uint64_t position, std::uint64_t channel, std::uint64_t tensor) {
    std::uint64_t x = (position * width + channel) * 3 + tensor + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return static_cast<float>(static_cast<double>(x >> 40) / (1 << 23) - 1);
}

struct Rows {
    std::vector<bfloat16> query, key, value, out;
    std::vector<float> lse;
};

// The rows of a process. The needle's key points where the last query points, and its values are 2.
Rows rows_of(const attune::ParallelPlan &plan, int rank, std::int64_t needle) {
    Rows r;
    for (const attune::PositionRange &range : plan.of_rank[static_cast<std::size_t>(rank)])
        for (std::int64_t p = range.begin; p < range.end; p++)
            for (std::int64_t d = 0; d < width; d++) {
                const auto at = static_cast<std::uint64_t>(p), channel = static_cast<std::uint64_t>(d);
                const float there = d % 2 == 0 ? 4 : -4;
                r.query.push_back(attune::to_bfloat16(p == plan.positions - 1 ? there : number(at, channel, 0)));
                r.key.push_back(attune::to_bfloat16(p == needle ? there : number(at, channel, 1)));
                r.value.push_back(attune::to_bfloat16(p == needle ? 2 : number(at, channel, 2)));
            }
    r.out.resize(r.query.size());
    r.lse.resize(r.query.size() / width);
    return r;
}

bool finds_needle(const bfloat16 *row) {
    return std::all_of(row, row + width, [](bfloat16 x) { return std::abs(attune::to_float(x) - 2) < 0.02f; });
}

// Multiply-adds a second of one process, while all compute: attention over four chunks that it holds alone.
double compute_rate(attune::Context &context, std::int64_t chunk) {
    attune::ParallelPlan alone;
    const attune::ParallelBand band{attune::Causal::top_left, {}, {}};
    if (!attune::plan_positions(4 * chunk, 1, attune::ParallelLayout::contiguous, chunk, band, alone).ok()) return 0;
    Rows r = rows_of(alone, 0, 0);
    const attune::Dims sizes{1, 1, 4 * chunk, width};
    attune::ParallelForecast unit;
    attune::ParallelReport report;
    attune::ParallelOptions options;
    options.attention.causal = attune::Causal::top_left, options.report = &report;
    if (!attune::forecast_parallel(alone, {attune::DType::bf16, 1, 1, 1, width, width}, attune::ParallelScheme::ring, {1, 1, 0},
                                   unit)
             .ok())
        return 0;
    double best = 0;
    for (int n = 0; n < 3; n++) {
        if (!attune::ring_attention(context, {}, alone, ConstView(r.query, sizes), ConstView(r.key, sizes),
                                    ConstView(r.value, sizes), View(r.out, sizes), options)
                 .ok())
            return 0;
        best = std::max(best, unit.seconds / report.seconds);
    }
    return best;
}

// Bytes a second of a link, while all processes send to their neighbours.
double link_rate(int rank, int size, std::size_t bytes) {
    if (size == 1) return 1e9;
    std::vector<char> sent(bytes), received(bytes);
    const double start = now();
    constexpr int times = 20;
    for (int n = 0; n < times; n++)
        MPI_Sendrecv(sent.data(), static_cast<int>(bytes), MPI_BYTE, (rank + 1) % size, 0, received.data(),
                     static_cast<int>(bytes), MPI_BYTE, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return static_cast<double>(bytes) * times / (now() - start);
}

struct Arguments {
    std::int64_t positions = 1000000, chunk = 8192;
    attune::ParallelLayout layout = attune::ParallelLayout::striped;
    bool gathered = false;
};

int run(const attune::Communicator &communicator, const Arguments &a) {
    attune::Context context({.threads = 1});
    const int rank = communicator.rank, size = communicator.size;
    const attune::ParallelBand band{attune::Causal::top_left, {}, {}};
    attune::ParallelPlan plan;
    if (attune::Status s = attune::plan_positions(a.positions, size, a.layout, a.chunk, band, plan); !s.ok()) return fail(s);
    const std::int64_t own = plan.positions_of(rank), needle = a.positions / 3;
    Rows r = rows_of(plan, rank, needle);

    const attune::ParallelProblem problem{attune::DType::bf16, 1, 1, 1, width, width};
    const attune::ParallelMachine machine{of_all(compute_rate(context, a.chunk), MPI_MIN),
                                          of_all(link_rate(rank, size, static_cast<std::size_t>(a.chunk * width * 4)), MPI_MIN),
                                          1e-5};
    attune::ParallelForecast forecast;
    const auto scheme = a.gathered ? attune::ParallelScheme::gathered : attune::ParallelScheme::ring;
    if (attune::Status s = attune::forecast_parallel(plan, problem, scheme, machine, forecast); !s.ok()) return fail(s);

    const attune::Dims rows{1, 1, own, width};
    const ConstView key(r.key, rows), value(r.value, rows);
    attune::ParallelReport report;
    attune::ParallelOptions options;
    options.attention.causal = attune::Causal::top_left, options.attention.lse = View(r.lse, {1, 1, own});
    options.report = &report;
    meet();
    const auto attend = a.gathered ? attune::gathered_attention : attune::ring_attention;
    if (attune::Status s =
            attend(context, communicator, plan, ConstView(r.query, rows), key, value, View(r.out, rows), options);
        !s.ok())
        return fail(s);
    const double seconds = of_all(report.seconds, MPI_MAX), waiting = of_all(report.waiting_seconds, MPI_MAX);
    const bool as_forecast = report.bytes_sent == forecast.bytes_sent[static_cast<std::size_t>(rank)];
    const double bytes = of_all(static_cast<double>(report.bytes_sent), MPI_MAX);
    // The rank with the last position looks at its row.
    const std::vector<attune::PositionRange> &ranges = plan.of_rank[static_cast<std::size_t>(rank)];
    const bool last = !ranges.empty() && ranges.back().end == a.positions;
    const double found = of_all(last && finds_needle(&r.out[r.out.size() - width]), MPI_MAX);
    const double exact = of_all(as_forecast, MPI_MIN);
    if (rank == 0) {
        std::printf("prefill of %lld positions in chunks of %lld, %s, over %d processes: needle %s\n",
                    static_cast<long long>(a.positions), static_cast<long long>(a.chunk), layouts[static_cast<int>(a.layout)],
                    size, found > 0 ? "found" : "not found");
        std::printf("bytes sent are those of the forecast: %s; most of a process %.0f\n", exact > 0 ? "yes" : "no", bytes);
        std::printf("seconds %.3f, waiting at most %.3f; forecast %.3f, from %.2f G multiply-adds/s and %.2f GB/s\n", seconds,
                    waiting, forecast.seconds, machine.multiply_adds_per_second / 1e9, machine.bytes_per_second / 1e9);
    }

    // One step: the last query again, over the caches of all processes.
    std::vector<bfloat16> query, out(width);
    for (std::int64_t d = 0; d < width; d++) query.push_back(attune::to_bfloat16(d % 2 == 0 ? 4 : -4));
    const attune::Dims one{1, 1, 1, width};
    options.attention = {};
    if (attune::Status s =
            attune::sharded_decode(context, communicator, plan, ConstView(query, one), key, value, View(out, one), options);
        !s.ok())
        return fail(s);
    const bool decoded = of_all(finds_needle(out.data()), MPI_MIN) > 0;
    const double decode_seconds = of_all(report.seconds, MPI_MAX);
    if (rank == 0) std::printf("decode: needle %s, %.4f seconds\n", decoded ? "found" : "not found", decode_seconds);
    return found > 0 && decoded && exact > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char **argv) {
    Arguments a;
    a.positions = whole_number(argc, argv, 1, a.positions), a.chunk = whole_number(argc, argv, 2, a.chunk);
    if (argc > 3) {
        const auto *const layout = std::find(std::begin(layouts), std::end(layouts), std::string_view(argv[3]));
        if (layout == std::end(layouts)) return std::fprintf(stderr, "argument 3: there is no layout '%s'\n", argv[3]), 2;
        a.layout = static_cast<attune::ParallelLayout>(layout - std::begin(layouts));
    }
    if (argc > 4) {
        a.gathered = argv[4] == std::string_view("gathered");
        if (!a.gathered && argv[4] != std::string_view("ring"))
            return std::fprintf(stderr, "argument 4: '%s' is neither ring nor gathered\n", argv[4]), 2;
    }
    int provided = 0, result = 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    {
        // A process may wait as long as another one computes with a chunk.
        attune::MpiCommunicator mpi(MPI_COMM_WORLD, 600);
        result = run(mpi.communicator(), a);
    }
    MPI_Finalize();
    return result;
}
