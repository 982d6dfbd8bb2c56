// SPDX-License-Identifier: MIT
// Samples of a cell: the calls, their number, and the reported counters.
#include "session.h"
#include <algorithm>
#include <chrono>

namespace bench {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

template<typename F> double timed(F &&f) {
    const double start = now();
    f();
    return now() - start;
}

double quantile(std::vector<double> x, double at) {
    std::sort(x.begin(), x.end());
    const double place = at * static_cast<double>(x.size() - 1);
    const auto n = static_cast<std::size_t>(place);
    return n + 1 < x.size() ? x[n] + (place - static_cast<double>(n)) * (x[n + 1] - x[n]) : x.back();
}

}  // namespace

double Session::measure_peak(attune::DType dtype) {
    const double peak = product_peak(team_, dtype);
    double &best = best_peak_[dtype];
    best = std::max(best, peak);
    return peak;
}

// Sets up a cell: data of a new shape, the present peak, and a checked call.
void Session::enter(const Shape &shape, const std::string &variant, const std::string &name) {
    if (cell_.name == name) return;
    cell_ = {};
    cell_.name = name;
    const std::string case_name = shape.set + "/" + shape.name;
    if (case_name_ != case_name) {
        case_.reset();
        case_ = make_case(shape);
        case_name_ = case_name;
    }
    cell_.peak = measure_peak(shape.dtype);
    case_->forget_output();
    cell_.start = now(), cell_.others = cpu_seconds_of_others();
    context_.release_scratch();
    meter_.start();
    attune::Status status;
    cell_.warm_up = timed([&] { status = case_->call(context_, variant); });
    if (!status.ok()) {
        cell_.error = status.message();
        return;
    }
    cell_.scratch = static_cast<double>(meter_.peak());
    cell_.ran = context_.last_variant();
    cell_.error = case_->check_output();
    // A forced kernel of the weights runs beside a dispatched kernel of the output, whose name is reported.
    if (cell_.error.empty() && !variant.empty() && !shape.options.weights && cell_.ran != variant)
        cell_.error = "ran " + cell_.ran + " instead";
    // A first call of well under a millisecond was mostly page faults and waking threads: a repeat sizes the batches.
    for (int n = 0; n < 10 && cell_.warm_up < 1e-3; n++)
        cell_.warm_up = std::min(cell_.warm_up, timed([&] { status = case_->call(context_, variant); }));
}

// Takes a sample: seconds per call, averaged over a batch of calls too short for the clock, into cell_.calls.
bool Session::sample(const std::string &variant, int batch) {
    const Shape &shape = case_->shape();
    if (shape.decode()) cell_.sums.push_back(timed([&] { plain_sum(team_, shape.dtype, case_->operands()); }));
    attune::Status status;
    // A call of over a second is made once: the checked call is the sample.
    const bool once = cell_.warm_up > 1.0 && cell_.calls.empty();
    const double seconds = once ? cell_.warm_up * batch : timed([&] {
        for (int n = 0; n < batch && status.ok(); n++) status = case_->call(context_, variant);
    });
    cell_.calls.push_back(seconds / batch);
    if (shape.decode()) cell_.ratios.push_back(cell_.sums.back() / cell_.calls.back());
    cell_.error = status.message();
    return status.ok();
}

void Session::report(benchmark::State &state, const Shape &shape, const std::string &variant) {
    using benchmark::Counter;
    const double best = quantile(cell_.calls, 0), median = quantile(cell_.calls, 0.5);
    const double others = (cpu_seconds_of_others() - cell_.others) / (now() - cell_.start);
    cell_.peak_after = measure_peak(shape.dtype);
    const double peak = best_peak_[shape.dtype];
    // FLOPs have a peak; other units are only counted.
    const std::string unit = shape.unit();
    if (unit == "FLOP") {
        state.counters["FLOPS"] = Counter(shape.work(), Counter::kIsIterationInvariantRate);
        state.counters["peak_fraction"] = shape.work() / best / peak;
    }
    state.counters[unit == "FLOP" ? "useful_flops" : unit == "tanh" ? "useful_tanh" : "useful_bytes"] = shape.work();
    state.counters["bytes_per_second"] = Counter(shape.bytes(), Counter::kIsIterationInvariantRate, Counter::kIs1024);
    state.counters["best_s"] = best;
    state.counters["median_s"] = median;
    state.counters["spread"] = (quantile(cell_.calls, 0.9) - quantile(cell_.calls, 0.1)) / median;
    state.counters["samples"] = static_cast<double>(cell_.calls.size());
    state.counters["scratch_bytes"] = cell_.scratch;
    state.counters["fma_peak"] = peak;
    state.counters["fma_peak_before"] = cell_.peak;
    state.counters["cores_of_others"] = others;
    state.counters["fma_peak_after"] = cell_.peak_after;
    if (!cell_.ratios.empty()) {
        state.counters["read_fraction"] = quantile(cell_.ratios, 0.5);
        state.counters["read_fraction_best"] = quantile(cell_.sums, 0) / best;
        state.counters["sum_best_s"] = quantile(cell_.sums, 0);
    }
    if (variant.empty()) state.SetLabel(cell_.ran);
}

void Session::run(benchmark::State &state, const Shape &shape, const std::string &variant, const std::string &name) {
    enter(shape, variant, name);
    if (!cell_.error.empty()) return state.SkipWithError(cell_.error.c_str());
    // In a decode shape a plain sum precedes every single call.
    const int batch = shape.decode() ? 1 : static_cast<int>(std::clamp(50e-6 / cell_.warm_up, 1.0, 1000.0));
    while (state.KeepRunningBatch(batch)) {
        if (!sample(variant, batch)) {
            state.SkipWithError(cell_.error.c_str());
            break;
        }
        state.SetIterationTime(cell_.calls.back() * batch);
    }
    // Long calls get a few more samples, for a median.
    const std::size_t enough = quick_ ? 5 : 9;
    const double longest = quick_ ? 0.6 : 2.5;
    const double start = now();
    while (cell_.error.empty() && cell_.warm_up < 1.0 && cell_.calls.size() < enough && now() - start < longest)
        sample(variant, batch);
    if (cell_.error.empty())
        report(state, shape, variant);
    else if (!state.error_occurred())
        state.SkipWithError(cell_.error.c_str());
}

}  // namespace bench
