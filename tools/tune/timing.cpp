// SPDX-License-Identifier: MIT
// Samples in turns, and the machine's peak and foreign load beside them.
#include "timing.h"
#include "attune/context.h"
#include "attune/detail/registration.h"
#include "bench/cases/case.h"
#include "bench/cases/machine.h"
#include "tools/error.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <random>
#include <unistd.h>

namespace attune::tune {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Bytes of the last level of cache; where the system does not tell, more than most machines have.
double cache_bytes() {
    const long known =
        std::max({sysconf(_SC_LEVEL2_CACHE_SIZE), sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL4_CACHE_SIZE)});
    return known > 0 ? static_cast<double>(known) : 64e6;
}

// Number of sets of operands: three, or enough for twice the last level of cache. Tensors of a few bytes still fill pages of
// their own, of which a process may map only so many.
std::size_t sets_of(const TimingJob &job) {
    if (!job.cold) return 1;
    return static_cast<std::size_t>(std::clamp(std::ceil(2 * cache_bytes() / job.shape.bytes()), 3.0, 1000.0));
}

class Measurement {
public:
    explicit Measurement(const TimingJob &job) : context_({.threads = job.threads}), random_(job.seed) {
        for (std::size_t n = 0; n < sets_of(job); n++) cases_.push_back(make_case(job.op, job.shape, job.user));
    }
    int threads() const { return context_.threads(); }
    std::mt19937 &random() { return random_; }

    // Seconds of one call out of `calls`.
    double sample(const std::string &variant, int calls) {
        call(variant);
        const double start = now();
        for (int n = 0; n < calls; n++) call(variant);
        return (now() - start) / calls;
    }

private:
    void call(const std::string &variant) {
        const attune::Status status = cases_[next_++ % cases_.size()]->call(context_, variant);
        if (!status.ok()) throw program::MachineError(variant, status.message());
    }

    attune::Context context_;
    std::mt19937 random_;
    std::vector<std::unique_ptr<bench::Case>> cases_;
    std::size_t next_ = 0;
};

// Whether the shape gives the amount of work: a user's mask leaves out pairs that no shape knows.
bool work_is_known(const TimingJob &job) { return !job.user || !detail::find_attention(job.op)->has_mask; }

// Whether the products of the shape are bounded by a measured peak: not those of other work, nor of AMX tiles.
bool products_are_known(const TimingJob &job) {
    if (job.shape.unit() != std::string_view("FLOP") || !work_is_known(job)) return false;
    const auto all = attune::targets();
    const bool has_amx_tiles = std::any_of(
        all.begin(), all.end(), [](const attune::TargetInfo &t) { return t.name == "sapphirerapids" && t.missing.empty(); });
    return job.shape.dtype == attune::DType::f64 || !has_amx_tiles;
}

double least_of(const std::vector<double> &seconds) {
    return seconds.empty() ? std::numeric_limits<double>::infinity() : *std::min_element(seconds.begin(), seconds.end());
}

// Peak of the machine, in products per second. A single measurement may fall into a moment of other load: it is repeated while
// a candidate would exceed it, and the best counts.
double products_in_a_second(const TimingJob &job, int threads, double seconds) {
    constexpr int most_measurements = 5;
    bench::Team team(threads);
    double peak = 0;
    for (int n = 0; n < most_measurements && peak * seconds < job.shape.work(); n++)
        peak = std::max(peak, bench::product_peak(team, job.shape.dtype));
    return peak;
}

}  // namespace

Timings time_variants(const TimingJob &job, const std::vector<std::string> &variants) {
    Measurement measurement(job);
    // First calls fault pages in and wake threads; the fastest then gives the number of calls of a sample.
    double fastest = std::numeric_limits<double>::infinity();
    for (int trial = 0; trial < 3; trial++)
        for (const std::string &variant : variants) fastest = std::min(fastest, measurement.sample(variant, 1));
    const int calls = static_cast<int>(std::clamp(std::ceil(job.sample_seconds / fastest), 1.0, 1e6));

    std::optional<Peak> peak;
    if (job.peak_of && work_is_known(job)) peak.emplace(*job.peak_of, job.shape, measurement.threads());
    Timings timings;
    timings.seconds.resize(variants.size());
    std::vector<std::size_t> order(variants.size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    const double start = now(), others = bench::cpu_seconds_of_others();
    for (int round = 0; round < job.rounds; round++) {
        std::shuffle(order.begin(), order.end(), measurement.random());
        for (const std::size_t n : order) timings.seconds[n].push_back(measurement.sample(variants[n], calls));
        if (peak) peak->measure();
    }
    if (peak) timings.limit = peak->limit();
    if (products_are_known(job)) {
        double quickest = std::numeric_limits<double>::infinity();
        for (const std::vector<double> &seconds : timings.seconds) quickest = std::min(quickest, least_of(seconds));
        const double peak = products_in_a_second(job, measurement.threads(), quickest);
        for (const std::vector<double> &seconds : timings.seconds)
            timings.products.push_back(job.shape.work() / least_of(seconds) / peak);
    }
    // The load includes that of the peak's measurement, which comes out low on a busy machine.
    timings.foreign_load = std::max(0.0, bench::cpu_seconds_of_others() - others) / std::max(1e-9, now() - start);
    return timings;
}

}  // namespace attune::tune
