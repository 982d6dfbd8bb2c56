// SPDX-License-Identifier: MIT
#include "regret.h"
#include "problems.h"
#include "tools/error.h"
#include "tools/files/outputs.h"
#include "tools/text.h"
#include "tools/tune/machine.h"
#include "tools/tune/report.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

namespace attune::dispatch {
namespace {

constexpr Range regret_on_cpu = {.work = 1.5e9}, regret_on_device = {.work = 4e11, .most_rows = 4096, .most_keys = 32768};

struct Regret {
    ShapeTimes times;
    std::string chosen, best;
    double ratio = 1;
};

std::vector<bench::Shape> shapes_of(const RegretArguments &a) {
    std::vector<bench::Shape> shapes;
    if (a.shapes) {
        std::string error;
        shapes = bench::read_shapes(*a.shapes, "*", error);
        std::erase_if(shapes, [&](const bench::Shape &s) { return s.op != a.op; });
        if (!error.empty() || shapes.empty())
            throw program::InputError("--shapes", error.empty() ? *a.shapes + " has no shape of " + a.op : error);
        return shapes;
    }
    // Most calls have no options, and are not of f64.
    std::vector<Family> all = families(a.op, a.device ? Place::device : Place::host);
    std::erase_if(all, [](const Family &f) { return (!f.kind.empty() && f.kind != "plain") || f.dtype == DType::f64; });
    if (all.empty()) throw program::InputError(a.op, "has no tuned variants that this machine runs");
    std::mt19937_64 random(a.seed);
    for (int n = 0; n < a.count; n++)
        shapes.push_back(random_shape(all[random() % all.size()], random, a.device ? regret_on_device : regret_on_cpu));
    return shapes;
}

std::string text_of(const bench::Shape &s) { return std::string(name_of(s.dtype)) + " " + s.label(); }

Regret regret_of(TimedMachine &machine, const bench::Shape &shape, const Sampling &how) {
    std::vector<std::string> names = variants_for(shape, machine.place());
    names.emplace_back();
    Regret r{quiet_times(machine, shape, names, how), "", "", 1};
    for (const auto &[name, seconds] : r.times.seconds)
        if (!name.empty() && (r.best.empty() || seconds < r.times.seconds.at(r.best))) r.best = name;
    if (r.best.empty()) return r;
    r.ratio = r.times.seconds.at("") / std::min(r.times.seconds.at(r.best), r.times.seconds.at(""));
    return r;
}

std::string chosen_for(TimedMachine &machine, const bench::Shape &shape) {
    const Planned plan = planned(machine.context(), shape, machine.place());
    return plan.variant + (plan.last.empty() ? "" : " + " + plan.last);
}

std::string table_of(const std::vector<VariantWorth> &variants) {
    std::string text =
        "\nVariants that are worth least. Loss without one: the time of the quickest other variant over that of the "
        "quickest.\n\n"
        "| variant | shapes | within 3 % of the quickest | loss without it | worst |\n|---|---:|---:|---:|---:|\n";
    for (std::size_t n = 0; n < std::min<std::size_t>(variants.size(), 20); n++) {
        const VariantWorth &v = variants[n];
        text += "| " + v.variant + " | " + std::to_string(v.shapes) + " | " + std::to_string(v.near) + " | " +
                program::formatted("%.3f", v.loss) + " | " + program::formatted("%.2f", v.worst_loss) + " |\n";
    }
    return text;
}

// Regrets in order, on a logarithmic axis.
std::string picture_of(const std::vector<Regret> &sorted) {
    constexpr double width = 760, height = 320, left = 60, bottom = 280, top = 30;
    const double most = std::max(1.3, sorted.front().ratio), count = static_cast<double>(sorted.size());
    const auto y = [&](double ratio) { return bottom - (bottom - top) * std::log(ratio) / std::log(most); };
    std::string svg = "<text x=\"60\" y=\"20\">regret of dispatch, shapes from the best to the worst</text>\n";
    for (const double line : {1.0, 1.05, 1.2, 1.5, 2.0, 5.0})
        if (line <= most)
            svg += "<line x1=\"" + program::formatted("%.0f", left) + "\" x2=\"" + program::formatted("%.0f", width - 10) +
                   "\" y1=\"" + program::formatted("%.1f", y(line)) + "\" y2=\"" + program::formatted("%.1f", y(line)) +
                   "\" stroke=\"#ccc\"/>\n<text x=\"20\" y=\"" + program::formatted("%.1f", y(line) + 4) + "\">" +
                   program::formatted("%.2f", line) + "</text>\n";
    for (std::size_t n = 0; n < sorted.size(); n++)
        svg += "<circle cx=\"" +
               program::formatted("%.1f", left + (width - left - 10) * (1 - (static_cast<double>(n) + 0.5) / count)) +
               "\" cy=\"" + program::formatted("%.1f", y(sorted[n].ratio)) + "\" r=\"2\" fill=\"#1f77b4\"/>\n";
    return tune::svg_document(static_cast<int>(width), static_cast<int>(height), svg);
}

}  // namespace

Quantiles quantiles_of(std::vector<double> regrets) {
    if (regrets.empty()) return {};
    std::sort(regrets.begin(), regrets.end());
    const auto at = [&](double share) {
        return regrets[static_cast<std::size_t>(share * static_cast<double>(regrets.size() - 1))];
    };
    return {at(0.5), at(0.9), regrets.back()};
}

std::vector<VariantWorth> worth_of_variants(const std::vector<ShapeTimes> &shapes) {
    constexpr double near = 1.03;
    std::map<std::string, VariantWorth> worth;
    for (const ShapeTimes &times : shapes) {
        const double least = times.least();
        for (const auto &[variant, seconds] : times.seconds) {
            if (variant.empty()) continue;
            double least_of_others = std::numeric_limits<double>::infinity();
            for (const auto &[other, time] : times.seconds)
                if (!other.empty() && other != variant) least_of_others = std::min(least_of_others, time);
            const double loss = std::max(1.0, least_of_others / least);
            VariantWorth &v = worth[variant];
            v.variant = variant;
            v.shapes++;
            v.near += seconds <= near * least;
            v.loss += std::log(loss);
            v.worst_loss = std::max(v.worst_loss, loss);
        }
    }
    std::vector<VariantWorth> sorted;
    for (auto &[variant, v] : worth) {
        v.loss = std::exp(v.loss / v.shapes);
        sorted.push_back(v);
    }
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto &x, const auto &y) { return x.worst_loss < y.worst_loss; });
    return sorted;
}

std::string compare_dispatch(const RegretArguments &a) {
    program::Outputs outputs;
    if (a.picture) outputs.add("--picture", *a.picture);
    TimedMachine machine = TimedMachine::of(a.device, a.threads);
    std::vector<Regret> all;
    std::size_t busy = 0;
    const std::vector<bench::Shape> shapes = shapes_of(a);
    const Sampling first{.seconds = 0.001, .rounds = 4, .seed = a.seed};
    for (std::size_t n = 0; n < shapes.size(); n++) {
        if (n % 20 == 0) std::fprintf(stderr, "%zu of %zu shapes\n", n, shapes.size());
        Regret r = regret_of(machine, shapes[n], first);
        // Small differences of short samples are noise as often as not: longer ones decide.
        if (r.ratio > 1.02) r = regret_of(machine, shapes[n], {.seconds = 0.003, .rounds = 6, .seed = a.seed + 1});
        busy += r.times.foreign_load > quiet_load;
        if (r.best.empty()) continue;
        r.chosen = chosen_for(machine, shapes[n]);
        all.push_back(std::move(r));
    }
    if (all.empty()) throw program::InputError(a.op, "no shape has two variants to choose from");
    std::sort(all.begin(), all.end(), [](const Regret &x, const Regret &y) { return x.ratio > y.ratio; });
    std::vector<double> ratios;
    for (const Regret &r : all) ratios.push_back(r.ratio);
    const Quantiles q = quantiles_of(ratios);
    if (a.picture) tune::write_picture(outputs, picture_of(all));
    std::string text = machine.description() + ", " + tune::today() + "; " + a.op + ", " + std::to_string(all.size()) +
                       " shapes" + (a.shapes ? "" : ", seed " + std::to_string(a.seed)) + ", variants timed in turns";
    if (busy > 0) text += "; other processes loaded the machine during " + std::to_string(busy) + " of them";
    text += "\n\nregret: median " + program::formatted("%.3f", q.median) + ", nine of ten at most " +
            program::formatted("%.3f", q.ninth_decile) + ", worst " + program::formatted("%.2f", q.worst) +
            "\n\n| regret | shape | us | chosen | quickest | us |\n|---:|---|---:|---|---|---:|\n";
    for (std::size_t n = 0; n < std::min<std::size_t>(all.size(), 20); n++) {
        const Regret &r = all[n];
        text += "| " + program::formatted("%.2f", r.ratio) + " | " + text_of(r.times.shape) + " | " +
                program::formatted("%.1f", 1e6 * r.times.seconds.at("")) + " | " + r.chosen + " | " + r.best + " | " +
                program::formatted("%.1f", 1e6 * r.times.seconds.at(r.best)) + " |\n";
    }
    std::vector<ShapeTimes> times;
    for (Regret &r : all) times.push_back(std::move(r.times));
    return text + table_of(worth_of_variants(times));
}

}  // namespace attune::dispatch
