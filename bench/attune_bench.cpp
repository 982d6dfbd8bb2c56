// SPDX-License-Identifier: MIT
// attune_bench: every variant on every shape of shapes/*.csv, beside peaks of this machine that are measured in the same run. A
// benchmark is named <variant>/<sizes>; dispatched_<dtype>/<sizes>, for ops other than sdpa dispatched_<op>_<dtype>, is the
// call that a user writes, with the variant that dispatch chose as its label.
#include "attune/attune.h"
#include "session.h"
#include <algorithm>
#include <benchmark/benchmark.h>
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

// Rate, about that of root, at which a call of a variant that is never dispatched must take at most this many seconds.
constexpr double slow_flops = 0.5e9, longest_call = 5.0;

void register_cell(Session &session, const Shape &shape, const std::string &variant, const std::string &not_run = {}) {
    const std::string op = shape.op == "sdpa" ? "" : shape.op + "_";
    const std::string name =
        (variant.empty() ? "dispatched_" + op + attune::name_of(shape.dtype) : variant) + "/" + shape.label();
    benchmark::RegisterBenchmark(name.c_str(),
                                 [&session, shape, variant, name, not_run](benchmark::State &state) {
                                     if (!not_run.empty()) return state.SkipWithError(not_run.c_str());
                                     session.run(state, shape, variant, name);
                                 })
        ->UseManualTime()
        ->Unit(shape.work() < 1e8 ? benchmark::kMicrosecond : benchmark::kMillisecond);
}

// Registers the dispatched call first, then the op's variants, and last the baselines.
void register_shape(Session &session, const Shape &shape, const std::vector<attune::VariantInfo> &variants, bool quick) {
    register_cell(session, shape, {});
    std::string_view target;
    for (const bool compared : {false, true})
        for (const attune::VariantInfo &v : variants) {
            const bool baseline = !v.dispatched || v.schedule == "root";
            if (baseline != compared || !shape.takes(v, variants)) continue;
            // A short run has this machine's target only, and no decode schedule for a prefill.
            if (target.empty()) target = v.target;
            if (quick && !baseline && (v.target != target || (v.schedule == "decode" && shape.q > 16))) continue;
            const double estimate = shape.work_unmasked() / slow_flops;
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
    Session session(flags.threads, flags.quick);
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
