// SPDX-License-Identifier: MIT
#include "tune_dispatch.h"
#include "bench/cases/machine.h"
#include "costs_file.h"
#include "problems.h"
#include "regret.h"
#include "times.h"
#include "tools/error.h"
#include "tools/text.h"
#include "tools/tune/candidates.h"
#include "tools/tune/generators.h"
#include "tools/tune/hash.h"
#include "tools/tune/machine.h"
#include "validation.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

namespace attune::dispatch {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

// A call of so many FLOP takes a few milliseconds on one thread, in which times linear in the sizes show; and on a GPU, whose
// calls of less take as long to be begun.
constexpr Range fit_on_thread = {.work = 4e8, .single = true};
constexpr Range fit_on_device = {.work = 2e11, .single = false, .most_rows = 4096, .most_keys = 32768};
// Shapes of a family of attention without options; scored and training kernels differ from these in few coefficients.
constexpr int shapes_of_family = 40, shapes_of_options = 14, shapes_of_product = 120;
constexpr int weight_of_recorded = 4;

int count_for(const Family &f) {
    if (is_product(f.op)) return shapes_of_product;
    return f.kind == "plain" && f.op == "sdpa" ? shapes_of_family : shapes_of_options;
}

// The shapes of all families of an op, one of each family in turn, so that a run which is stopped early has some of each.
std::vector<bench::Shape> grid_of(const std::string &op, unsigned seed, Place place) {
    std::vector<std::vector<bench::Shape>> all;
    std::size_t most = 0;
    for (const Family &f : families(op, place)) {
        // Kernels for any head size serve several families: each has shapes of its own.
        std::seed_seq of_family{seed, static_cast<unsigned>(all.size())};
        std::mt19937_64 random(of_family);
        std::vector<bench::Shape> &some = all.emplace_back();
        for (int n = 0; n < count_for(f); n++)
            some.push_back(random_shape(f, random, place == Place::device ? fit_on_device : fit_on_thread));
        most = std::max(most, some.size());
    }
    std::vector<bench::Shape> shapes;
    for (std::size_t n = 0; n < most; n++)
        for (const std::vector<bench::Shape> &some : all)
            if (n < some.size()) shapes.push_back(some[n]);
    return shapes;
}

class Run {
public:
    explicit Run(const TuneDispatchArguments &a)
        : a_(a), generators_(tune::Generators::find("sdpa", a.build)), machine_(TimedMachine::of(a.device, 1)),
          end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(60 * a.minutes))) {}

    std::string run() {
        std::vector<std::string> all = a_.ops.empty() ? ops(machine_.place()) : a_.ops;
        std::string text =
            machine_.description() + ", " + tune::today() +
            "\n\n| op | shapes | variants | regret with these coefficients | as linked | |\n|---|---:|---:|---|---|---|\n";
        for (std::size_t n = 0; n < all.size(); n++) {
            const double left = std::chrono::duration<double>(end_ - Clock::now()).count();
            // sdpa has most of the kernels.
            const double share = all[n] == "sdpa" && all.size() > 1 ? 0.6 : 1.0 / static_cast<double>(all.size() - n);
            text += fit_op(all[n], Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                      std::chrono::duration<double>(std::max(5.0, left * share))));
        }
        return text +
               "\nregret: time of the chosen variant over that of the quickest, median / nine of ten / worst, at shapes\n"
               "that the fit has not seen\n" +
               notes_;
    }

private:
    std::string log_file() const {
        return a_.log ? *a_.log : (fs::path(tune::cache_folder()) / "dispatch-times.jsonl").string();
    }

    // Times are true for a machine, and for kernels with these parameters.
    std::string key_of(const std::string &op) const {
        std::string all;
        for (const VariantInfo &v : variants())
            if (v.op.starts_with(op)) all += std::string(v.name) + " " + std::string(v.parameters) + "\n";
        return machine_.hardware() + ", " + tune::hex(tune::hash_of(all));
    }

    std::vector<Measured> measure(const std::string &op, Clock::time_point end) {
        std::vector<std::pair<bench::Shape, int>> shapes;
        if (a_.shapes) {
            std::string error;
            for (const bench::Shape &s : bench::read_shapes(*a_.shapes, "*", error))
                if (s.op == op) shapes.emplace_back(s, weight_of_recorded);
            if (!error.empty()) throw program::InputError("--shapes", error);
        }
        for (const bench::Shape &s : grid_of(op, a_.seed, machine_.place())) shapes.emplace_back(s, 1);
        TimesLog log(log_file(), key_of(op));
        std::vector<Measured> measured;
        std::vector<std::pair<bench::Shape, int>> left;
        for (const auto &[shape, weight] : shapes) {
            const ShapeTimes *known = log.find(shape);
            if (!known) {
                left.emplace_back(shape, weight);
                continue;
            }
            measured.push_back({*known, weight});
            measured.back().times.shape = shape;
        }
        // The load of a moment shows in no count of ticks: where a group of shapes was loaded, all of it is left out.
        constexpr std::size_t group = 8;
        constexpr double loaded = 0.2;
        std::size_t busy = 0;
        for (std::size_t first = 0; first < left.size() && Clock::now() < end; first += group) {
            if (first % (8 * group) == 0)
                std::fprintf(stderr, "%s: %zu of %zu shapes\n", op.c_str(), shapes.size() - left.size() + first, shapes.size());
            std::vector<Measured> some;
            const double start = seconds_now(), others = machine_.seconds_of_others();
            for (std::size_t n = first; n < std::min(first + group, left.size()); n++)
                some.push_back(
                    {quiet_times(machine_, left[n].first, variants_for(left[n].first, machine_.place()), {.seed = a_.seed}),
                     left[n].second});
            const bool all = (machine_.seconds_of_others() - others) / (seconds_now() - start) > loaded;
            for (const Measured &m : some) {
                if (all || m.times.foreign_load > quiet_load) {
                    busy++;
                    continue;
                }
                log.append(m.times), measured.push_back(m);
            }
        }
        if (busy > measured.size())
            throw program::MachineError(op, "other processes loaded the machine during " + std::to_string(busy) + " of " +
                                                std::to_string(shapes.size()) + " shapes: nothing is written");
        if (busy > 0)
            notes_ += op + ": " + std::to_string(busy) + " shapes left out, during which other processes loaded the machine\n";
        if (measured.size() + busy < shapes.size())
            notes_ += op + ": the time was over after " + std::to_string(measured.size()) + " of " +
                      std::to_string(shapes.size()) + " shapes; another run goes on from there\n";
        return measured;
    }

    std::string fit_op(const std::string &op, Clock::time_point end) {
        if (families(op, machine_.place()).empty()) {
            notes_ += op + ": no tuned variants are linked in that " + (a_.device ? "this device" : "this machine") + " runs\n";
            return "";
        }
        const std::vector<Measured> measured = measure(op, end);
        const Fits fits = fits_of(measured, machine_.place());
        const Regrets regrets = validate(measured, machine_.place());
        const auto words = [](const std::vector<double> &all) {
            const Quantiles q = quantiles_of(all);
            return all.empty() ? std::string("-")
                               : program::formatted("%.3f", q.median) + " / " + program::formatted("%.3f", q.ninth_decile) +
                                     " / " + program::formatted("%.2f", q.worst);
        };
        std::string what = "kept: no better by more than 0.3 %";
        if (is_better(regrets) || !all_measured(fits)) what = a_.dry ? "not written" : write(op, measured, fits);
        return "| " + op + " | " + std::to_string(measured.size()) + " | " + std::to_string(fits.size()) + " | " +
               words(regrets.fitted) + " | " + words(regrets.now) + " | " + what + " |\n";
    }

    // Whether the linked library has measured coefficients of every variant already, with the parameters that it has now.
    bool all_measured(const Fits &fits) {
        return std::all_of(fits.begin(), fits.end(), [&](const auto &f) {
            const VariantInfo &v = info_of(f.first);
            const CostsFile linked(file_of(generators_.schedules(), v), std::string(v.op), std::string(v.target));
            return v.cost_measured && !linked.is_of_others(CostsFile::key_of(v), hash_of(v));
        });
    }

    static std::string file_of(const std::string &folder, const VariantInfo &v) {
        return folder + "/" + std::string(v.op) + "/costs/" + std::string(v.target) + ".json";
    }
    static std::string hash_of(const VariantInfo &v) { return tune::hex(tune::hash_of(std::string(v.parameters))); }

    std::string write(const std::string &op, const std::vector<Measured> &measured, const Fits &fits) {
        std::map<std::pair<std::string, std::string>, CostsFile> files;  // additive has variants of two ops
        for (const auto &[variant, f] : fits) {
            const VariantInfo &v = info_of(variant);
            const std::pair<std::string, std::string> at{v.op, v.target};
            auto file = files.find(at);
            if (file == files.end()) {
                if (!a_.out) generators_.parameters_file(op, at.second);  // refuses where this user must not write
                const std::string name = file_of(a_.out ? *a_.out : generators_.schedules(), v);
                file = files.emplace(at, CostsFile(name, at.first, at.second)).first;
                file->second.set_provenance(
                    {{"hardware", machine_.hardware()},
                     {"date", tune::today()},
                     {"threads", 1},
                     {"command", std::string("attune tune --dispatch") + (a_.device ? " --device" : "")}});
            }
            file->second.set(CostsFile::key_of(v), record_of(variant, f, measured));
        }
        std::string names;
        for (auto &[at, file] : files)
            file.write(), names += (names.empty() ? "" : ", ") + at.first + "/costs/" + at.second + ".json";
        return "written to " + names;
    }

    // With the shape at which the variant comes nearest to the quickest one; of equals the one with most work.
    CostRecord record_of(const std::string &variant, const Fit &f, const std::vector<Measured> &measured) {
        CostRecord r{f.cost, f.error, 0, "", 0, 0, hash_of(info_of(variant))};
        double best = -1;
        for (const Measured &m : measured) {
            const auto at = m.times.seconds.find(variant);
            if (at == m.times.seconds.end()) continue;
            r.shapes++;
            const double near = m.times.least() / at->second,
                         score = (near > 0.98 ? 1e12 : 1e6 * near) + m.times.shape.work() / 1e3;
            if (score <= best) continue;
            best = score, r.shape = m.times.shape.label(), r.us = 1e6 * at->second;
            const double peak = a_.device ? 0 : peak_of(m.times.shape.dtype);
            const bool flops = m.times.shape.unit() == std::string_view("FLOP");
            r.percent_of_peak = flops && peak > 0 ? 100 * m.times.shape.work() / at->second / peak : 0;
        }
        return r;
    }

    // FLOP/s of products, on one thread.
    double peak_of(DType dtype) {
        auto found = peaks_.find(dtype);
        if (found == peaks_.end()) {
            bench::Team team(1);
            found = peaks_.emplace(dtype, bench::product_peak(team, dtype)).first;
        }
        return found->second;
    }

    const TuneDispatchArguments &a_;
    tune::Generators generators_;
    TimedMachine machine_;
    Clock::time_point end_;
    std::string notes_;
    std::map<DType, double> peaks_;
};

}  // namespace

std::string tune_dispatch(const TuneDispatchArguments &arguments) {
    const std::vector<std::string> &known = ops(arguments.device ? Place::device : Place::host);
    for (const std::string &op : arguments.ops)
        if (std::find(known.begin(), known.end(), op) == known.end())
            throw program::InputError(op, "dispatch has no choice among variants of it; it has for " + program::listed(known));
    tune::forget_environment();
    return Run(arguments).run();
}

}  // namespace attune::dispatch
