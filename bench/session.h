// SPDX-License-Identifier: MIT
// Measurement of one variant on one shape at a time, with samples kept over the runs of Google Benchmark.
#pragma once
#include "cases/case.h"
#include "cases/machine.h"
#include "scratch_meter.h"
#include <benchmark/benchmark.h>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace bench {

// One variant on one shape. Google Benchmark enters it several times, with more iterations each time; the samples add up.
struct Cell {
    std::string name, error, ran;
    double warm_up = 0;                       // seconds of the checked first call
    double peak = 0;                          // FLOP/s of multiply-adds, measured just before
    double peak_after = 0;                    // the same, measured just after
    double scratch = 0;                       // peak bytes of the checked call
    double start = 0, others = 0;             // start of the measurement, and CPU seconds of others by then
    std::vector<double> calls, sums, ratios;  // seconds of calls; of plain sums just before them; sum / call
};

class Session {
public:
    Session(int threads, bool quick)
        : quick_(quick), context_(attune::ContextOptions{.threads = threads, .allocator = meter_.hook()}),
          team_(context_.threads() > 0 ? context_.threads() : 1) {}

    attune::Context &context() { return context_; }
    Team &team() { return team_; }

    void run(benchmark::State &state, const Shape &shape, const std::string &variant, const std::string &name);

private:
    void enter(const Shape &shape, const std::string &variant, const std::string &name);
    bool sample(const std::string &variant, int batch);
    double measure_peak(attune::DType);
    void report(benchmark::State &state, const Shape &shape, const std::string &variant);

    bool quick_;
    ScratchMeter meter_;
    attune::Context context_;
    Team team_;
    std::string case_name_;
    std::unique_ptr<Case> case_;
    Cell cell_;
    std::map<attune::DType, double> best_peak_;
};

}  // namespace bench
