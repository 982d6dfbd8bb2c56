// attune_bench: every variant on every shape of shapes/*.csv, beside what this machine can do at most, measured in the same
// run. A benchmark is named <variant>/<sizes>; dispatched_<dtype>/<sizes> is the call that a user writes, its label the
// variant that dispatch chose.
#include "attune/attune.h"
#include "check.h"
#include "machine.h"
#include <algorithm>
#include <benchmark/benchmark.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace bench {
namespace {

struct Flags {
    int threads = 0;
    std::string shapes = "*", shapes_dir = ATTUNE_BENCH_SHAPES;
    bool quick = false;
};

// A variant that is never dispatched is run where this rate, about that of root, makes a call of at most this length.
constexpr double slow_flops = 0.5e9, longest_call = 5.0;

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

// One variant on one shape. Google Benchmark enters it several times, with more iterations each time; all of them add up.
struct Cell {
    std::string name, error, ran;
    double warm_up = 0;                       // seconds of the checked first call
    double peak = 0;                          // FLOP/s of multiply-adds, measured just before
    double peak_after = 0;                    // and just after
    double start = 0, others = 0;             // when measuring began, and the CPU seconds of others by then
    std::vector<double> calls, sums, ratios;  // seconds a call; of a plain sum just before it; sum / call
};

class Session {
public:
    explicit Session(const Flags &flags)
        : flags_(flags), context_(attune::ContextOptions{.threads = flags.threads}), team_(std::max(1, context_.threads())) {}

    attune::Context &context() { return context_; }
    Team &team() { return team_; }

    void run(benchmark::State &state, const Shape &shape, const std::string &variant, const std::string &name);

private:
    void enter(const Shape &shape, const std::string &variant, const std::string &name);
    bool sample(const std::string &variant, int batch);
    double measure_peak(attune::DType);
    void report(benchmark::State &state, const Shape &shape, const std::string &variant);

    Flags flags_;
    attune::Context context_;
    Team team_;
    std::string case_name_;
    std::unique_ptr<Case> case_;
    Cell cell_;
    double best_peak_[2] = {0, 0};  // f32, f64
};

double Session::measure_peak(attune::DType dtype) {
    const double peak = fma_peak(team_, dtype);
    double &best = best_peak_[dtype == attune::DType::f64];
    best = std::max(best, peak);
    return peak;
}

// Data of a new shape, the peak of the moment, and a checked call.
void Session::enter(const Shape &shape, const std::string &variant, const std::string &name) {
    if (cell_.name == name) return;
    cell_ = {};
    cell_.name = name;
    const std::string case_name = shape.set + "/" + shape.name;
    if (case_name_ != case_name) {
        case_.reset();
        case_ = std::make_unique<Case>(shape);
        case_name_ = case_name;
    }
    cell_.peak = measure_peak(shape.dtype);
    case_->forget_output();
    cell_.start = now(), cell_.others = cpu_seconds_of_others();
    attune::Status status;
    cell_.warm_up = timed([&] { status = case_->call(context_, variant); });
    if (!status.ok()) {
        cell_.error = status.message();
        return;
    }
    cell_.ran = context_.last_variant();
    cell_.error = case_->check_output();
    if (cell_.error.empty() && !variant.empty() && cell_.ran != variant) cell_.error = "ran " + cell_.ran + " instead";
    // A first call of well under a millisecond was mostly page faults and threads that slept: its length sizes the batches.
    for (int n = 0; n < 10 && cell_.warm_up < 1e-3; n++)
        cell_.warm_up = std::min(cell_.warm_up, timed([&] { status = case_->call(context_, variant); }));
}

// Seconds a call, averaged over a batch of calls that are too short for the clock, into cell_.calls.
bool Session::sample(const std::string &variant, int batch) {
    const Shape &shape = case_->shape();
    if (shape.decode())
        cell_.sums.push_back(timed([&] {
            plain_sum(team_, shape.dtype,
                      {{case_->key().as<void>(), case_->key().bytes()}, {case_->value().as<void>(), case_->value().bytes()}});
        }));
    attune::Status status;
    // What takes over a second is called once: the checked call is the sample.
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
    const double peak = best_peak_[shape.dtype == attune::DType::f64];
    state.counters["FLOPS"] = Counter(shape.flops(), Counter::kIsIterationInvariantRate);
    state.counters["bytes_per_second"] = Counter(shape.bytes(), Counter::kIsIterationInvariantRate, Counter::kIs1024);
    state.counters["peak_fraction"] = shape.flops() / best / peak;
    state.counters["best_s"] = best;
    state.counters["median_s"] = median;
    state.counters["spread"] = (quantile(cell_.calls, 0.9) - quantile(cell_.calls, 0.1)) / median;
    state.counters["samples"] = static_cast<double>(cell_.calls.size());
    state.counters["useful_flops"] = shape.flops();
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
    // A plain sum stands before every single call of a decode shape.
    const int batch = shape.decode() ? 1 : static_cast<int>(std::clamp(50e-6 / cell_.warm_up, 1.0, 1000.0));
    while (state.KeepRunningBatch(batch)) {
        if (!sample(variant, batch)) {
            state.SkipWithError(cell_.error.c_str());
            break;
        }
        state.SetIterationTime(cell_.calls.back() * batch);
    }
    // Long calls: some more of them, so that there is a median.
    const std::size_t enough = flags_.quick ? 5 : 9;
    const double longest = flags_.quick ? 0.6 : 2.5;
    const double start = now();
    while (cell_.error.empty() && cell_.warm_up < 1.0 && cell_.calls.size() < enough && now() - start < longest)
        sample(variant, batch);
    if (cell_.error.empty())
        report(state, shape, variant);
    else if (!state.error_occurred())
        state.SkipWithError(cell_.error.c_str());
}

void register_cell(Session &session, const Shape &shape, const std::string &variant, const std::string &not_run = {}) {
    const std::string prefix = variant.empty() ? std::string("dispatched_") + attune::name_of(shape.dtype) : variant;
    const std::string name = prefix + "/" + shape.label();
    benchmark::RegisterBenchmark(name.c_str(),
                                 [&session, shape, variant, name, not_run](benchmark::State &state) {
                                     if (!not_run.empty()) return state.SkipWithError(not_run.c_str());
                                     session.run(state, shape, variant, name);
                                 })
        ->UseManualTime()
        ->Unit(shape.flops() < 1e8 ? benchmark::kMicrosecond : benchmark::kMillisecond);
}

// Dispatch first, then its variants, and last what is only there to compare with.
void register_shape(Session &session, const Shape &shape, const std::vector<attune::VariantInfo> &variants, bool quick) {
    register_cell(session, shape, {});
    std::string_view target;
    for (const bool compared : {false, true})
        for (const attune::VariantInfo &v : variants) {
            const bool baseline = !v.dispatched || v.schedule == "root";
            const bool fits = v.head_dim == 0 || (v.head_dim == shape.d && v.head_dim == shape.dv);
            if (baseline != compared || v.op != "sdpa" || v.dtype != shape.dtype || !fits || !v.runs_here) continue;
            // A short run takes this machine's target only, and no decode schedule for a prefill.
            if (target.empty()) target = v.target;
            if (quick && !baseline && (v.target != target || (v.schedule == "decode" && shape.q > 16))) continue;
            const double estimate = shape.flops_unmasked() / slow_flops;
            char text[100] = "";
            if (baseline && estimate > longest_call)
                std::snprintf(text, sizeof(text), "not run: estimated %.1f s a call at 0.5 GFLOP/s, the limit is %.1f s",
                              estimate, longest_call);
            register_cell(session, shape, std::string(v.name), text);
        }
}

void print_help() {
    benchmark::PrintDefaultHelp();
    std::puts("          [--attune_threads=<n>]        threads of a call; 0, the default: all cores\n"
              "          [--attune_shapes=<glob>]      shapes by <set> or <set>/<name>, such as llm_* or llm_prefill/1024x64\n"
              "          [--attune_shapes_dir=<path>]  folder of *.csv\n"
              "          [--attune_quick]              the shapes marked quick, one target, no decode schedule for a prefill");
}

bool parse(int argc, char **argv, Flags &flags) {
    for (int n = 1; n < argc; n++) {
        const std::string arg = argv[n], value = arg.substr(arg.find('=') + 1);
        char *end = nullptr;
        if (arg.rfind("--attune_threads=", 0) == 0) {
            flags.threads = static_cast<int>(std::strtol(value.c_str(), &end, 10));
            if (!value.empty() && *end == 0) continue;
        } else if (arg.rfind("--attune_shapes=", 0) == 0) {
            flags.shapes = value;
            continue;
        } else if (arg.rfind("--attune_shapes_dir=", 0) == 0) {
            flags.shapes_dir = value;
            continue;
        } else if (arg == "--attune_quick") {
            flags.quick = true;
            continue;
        }
        std::fprintf(stderr, "attune_bench: unknown argument %s (see --help)\n", arg.c_str());
        return false;
    }
    return true;
}

void describe_run(Session &session, const std::vector<attune::VariantInfo> &variants) {
    for (const auto &[key, value] : describe_machine()) benchmark::AddCustomContext(key, value);
    std::string target, lacking;
    for (const auto &t : attune::targets())
        if (target.empty() && t.missing.empty()) target = t.name;
    for (const auto &v : variants)
        if (!v.runs_here) lacking += (lacking.empty() ? "" : "; ") + std::string(v.name) + ": " + v.why_not;
    benchmark::AddCustomContext("target", target);
    benchmark::AddCustomContext("threads", std::to_string(session.context().threads()));
    benchmark::AddCustomContext("variants_not_run_here", lacking.empty() ? "none" : lacking);
    benchmark::AddCustomContext("read_bandwidth", std::to_string(read_bandwidth(session.team())));
    benchmark::AddCustomContext("halide", ATTUNE_BENCH_HALIDE);
    const char *forced = std::getenv("ATTUNE_FORCE_VARIANT");
    benchmark::AddCustomContext("forced_variant", forced ? forced : "none");
}

int run(int argc, char **argv) {
    benchmark::Initialize(&argc, argv, print_help);
    Flags flags;
    if (!parse(argc, argv, flags)) return 2;
    Session session(flags);
    std::string error = session.context().status().message();
    std::vector<Shape> shapes;
    if (error.empty()) shapes = read_shapes(flags.shapes_dir, flags.shapes, error);
    if (flags.quick)
        shapes.erase(std::remove_if(shapes.begin(), shapes.end(), [](const Shape &s) { return !s.quick; }), shapes.end());
    if (error.empty() && shapes.empty()) error = "no shape matches " + flags.shapes;
    if (!error.empty()) {
        std::fprintf(stderr, "attune_bench: %s\n", error.c_str());
        return 2;
    }
    const auto variants = attune::variants();
    describe_run(session, variants);
    for (const Shape &shape : shapes) register_shape(session, shape, variants, flags.quick);
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char **argv) { return bench::run(argc, argv); }
