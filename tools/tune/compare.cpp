// SPDX-License-Identifier: MIT
#include "compare.h"
#include "cells.h"
#include "decision.h"
#include "generators.h"
#include "machine.h"
#include "report.h"
#include "tools/error.h"
#include "tools/files/outputs.h"
#include "tools/text.h"
#include "workers.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <thread>

namespace attune::tune {
namespace {

struct Contender {
    std::string label;
    Cell cell;  // with a schedule of its own
    Candidate candidate;
    std::string failure;
    std::string limits;  // why it is right at the shape but not at every call
    double best = 0;
    std::vector<double> seconds, ratios;  // to the first
};

// A contender: "label=schedule [name=number...]", or "label=schedule@target" for the parameters that the files of `schedules`
// have for the target, of the cell or nearest to it. A schedule without either has those in use, or, where another schedule is
// in use, those of the cell's target.
Contender contender_of(const std::string &text, const Cell &cell, const std::string &schedules) {
    const std::size_t equals = text.find('='), space = std::min(text.find(' ', equals), text.size());
    const std::size_t at = std::min(text.find('@', equals), space);
    if (equals == 0 || equals == std::string::npos || equals + 1 == at || at + 1 == space ||
        (at < space && space < text.size()))
        throw program::InputError(
            "--contender", "must be \"label=schedule [name=number...]\" or \"label=schedule@target\", got \"" + text + "\"");
    Contender c{text.substr(0, equals), cell, {}, "", "", 0, {}, {}};
    c.cell.schedule = text.substr(equals + 1, at - equals - 1);
    const bool in_use = c.cell.schedule == cell.schedule;
    if (at == space && space < text.size()) {
        c.candidate.parameters = parse_parameters(text.substr(space + 1));
    } else if (at == space && in_use) {
        c.candidate.parameters = cell.shipped;
    } else {
        const std::string target = at < space ? text.substr(at + 1, space - at - 1) : cell.target;
        c.candidate.parameters = parameters_in(schedules, c.cell, target);
        // Schedule root takes none.
        if (c.candidate.parameters.empty() && (at < space || c.cell.schedule != "root"))
            throw program::InputError("--contender", target + " has no parameters of schedule " + c.cell.schedule + " for " +
                                                         cell.variant + ": \"" + text + "\"");
    }
    if (!in_use) c.cell.shape_class.clear();
    return c;
}

std::vector<Contender> contenders_of(const CompareArguments &a, const Cell &cell, const std::string &schedules) {
    std::vector<Contender> all;
    for (const std::string &given : a.contenders) all.push_back(contender_of(given, cell, schedules));
    if (all.empty())
        all = {contender_of("root=root", cell, schedules), contender_of("in use=" + cell.schedule, cell, schedules)};
    return all;
}

// Makes the kernels of the contenders and checks them at the shape; a failure of the first one, the baseline, is thrown.
void make_contenders(std::vector<Contender> &all, const bench::Shape &shape, const GeneratorProgram &program,
                     const Workers &workers) {
    for (Contender &c : all) {
        std::fprintf(stderr, "%s: %s\n", shape.label().c_str(), c.label.c_str());
        const CandidateMaker maker(c.cell, program, cache_folder() / "kernels");
        c.candidate = maker.make({c.candidate.parameters}, 1, 600).front();
        c.candidate.schedule = c.cell.schedule, c.candidate.shape_class = c.cell.shape_class;
        c.failure = c.candidate.reason;
        if (c.failure.empty()) c.limits = workers.check(c.candidate, {shape}, 600).reason;
        // An autoscheduler's schedule for one shape need not serve others.
        if (!c.limits.empty()) c.failure = workers.check(c.candidate, {shape}, 600, false).reason;
    }
    if (!all.front().failure.empty()) throw program::MachineError(all.front().label, all.front().failure);
}

// Times the contenders without a failure in turns, in so many fresh processes. Returns the highest peak that they measured.
PeakLimit time_contenders(std::vector<Contender> &all, const bench::Shape &shape, const Workers &workers, int processes) {
    std::vector<Candidate> right;
    std::vector<Contender *> of_right;
    for (Contender &c : all)
        if (c.failure.empty()) right.push_back(c.candidate), of_right.push_back(&c);
    PeakLimit limit;
    for (int process = 0; process < processes; process++) {
        const auto seed = static_cast<std::uint64_t>(process + 1);
        const Times times = workers.time(right, shape, {.rounds = 3, .seed = seed, .limit = 600, .peak = true});
        if (!times.failure.empty()) throw program::MachineError("worker", times.failure);
        if (times.limit.peak >= limit.peak) limit = times.limit;
        for (std::size_t n = 0; n < right.size(); n++) {
            Contender &c = *of_right[n];
            const double best = *std::min_element(times.seconds[n].begin(), times.seconds[n].end());
            const std::vector<double> ratios = times.ratios(n);
            c.best = process == 0 ? best : std::min(c.best, best);
            c.ratios.insert(c.ratios.end(), ratios.begin(), ratios.end());
        }
    }
    return limit;
}

std::string table_of(const std::string &title, const std::vector<Contender> &all, const PeakLimit &limit) {
    std::string text = title + "\n\n| | schedule | parameters | ms, best | times " + all.front().label + " | share of the " +
                       (limit.unit.empty() ? "peak" : limit.unit) + " |\n|---|---|---|---:|---:|---:|\n";
    for (const Contender &c : all) {
        text += "| " + c.label + " | " + c.cell.schedule + " | " + text_of(c.candidate.parameters) + " | ";
        if (!c.failure.empty()) {
            text += c.failure + " | | |\n";
            continue;
        }
        const auto [least, most] = std::minmax_element(c.ratios.begin(), c.ratios.end());
        text += program::formatted("%.4g", 1e3 * c.best) + " | " + program::formatted("%.3g", 1 / median(c.ratios)) + " (" +
                program::formatted("%.3g", 1 / *most) + " to " + program::formatted("%.3g", 1 / *least) + ") | " +
                (limit.peak <= 0           ? "-"
                 : limit.share(c.best) > 1 ? limit.share_text(c.best)
                                           : program::formatted("%.2g", limit.share(c.best))) +
                " |\n";
    }
    for (const Contender &c : all)
        if (c.failure.empty() && !c.limits.empty())
            text += "\n" + c.label + " is right at this shape and not everywhere: " + c.limits + "\n";
    return text + "\n";
}

// The contenders at each shape, under its title.
using Tables = std::vector<std::pair<std::string, std::vector<Contender>>>;

// Bar chart on a logarithmic scale, since root is hundreds of times slower.
std::string chart_of(const Tables &tables) {
    constexpr int width = 760, bar = 22, left = 170;
    std::string svg;
    int y = 10;
    for (const auto &[title, all] : tables) {
        double most = 0;
        for (const Contender &c : all) most = std::max(most, c.ratios.empty() ? 0 : 1 / median(c.ratios));
        svg += "<text x=\"10\" y=\"" + std::to_string(y + 16) + "\" font-weight=\"bold\">" +
               program::xml_escaped(program::shortened(title, 70)) + ": speed, times " +
               program::xml_escaped(all.front().label) + " (logarithmic)</text>\n";
        y += 28;
        for (const Contender &c : all) {
            const double speed = c.ratios.empty() ? 0 : 1 / median(c.ratios);
            const double length = speed > 0 ? std::max(2.0, (width - left - 120) * std::log1p(speed) / std::log1p(most)) : 0;
            svg += "<text x=\"" + std::to_string(left - 8) + "\" y=\"" + std::to_string(y + 15) + "\" text-anchor=\"end\">" +
                   program::xml_escaped(c.label) + "</text>\n<rect x=\"" + std::to_string(left) + "\" y=\"" +
                   std::to_string(y + 2) + "\" width=\"" + program::formatted("%.1f", length) + "\" height=\"" +
                   std::to_string(bar - 6) + "\" fill=\"#1f77b4\"/>\n<text x=\"" +
                   program::formatted("%.1f", left + length + 6) + "\" y=\"" + std::to_string(y + 15) + "\">" +
                   (speed > 0 ? program::formatted("%.3g", speed) : program::xml_escaped(program::shortened(c.failure, 60))) +
                   "</text>\n";
            y += bar;
        }
        y += 14;
    }
    return svg_document(width, y, svg);
}

// The first failure of a contender; empty if there is none.
std::string failure_in(const Tables &tables) {
    for (const auto &[title, all] : tables)
        for (const Contender &c : all)
            if (!c.failure.empty()) return c.label + ": " + c.failure;
    return "";
}

}  // namespace

std::string compare(const CompareArguments &a) {
    program::Outputs outputs;
    if (a.picture) outputs.add("--picture", *a.picture);
    forget_environment();
    const Generators generators = Generators::find(a.op, a.build);
    const int cores = static_cast<int>(std::thread::hardware_concurrency()), threads = a.threads > 0 ? a.threads : cores;
    Subject subject = find_subject(a.op, generators, a.shapes, a.captures, Lengths::single);
    Context context(ContextOptions{.threads = threads});
    const std::vector<Cell> cells = cells_of(subject, "*", context);
    for (const std::string &line : subject.left_out) std::fprintf(stderr, "left out: %s\n", line.c_str());
    for (const std::string &capture : subject.made_up) std::fprintf(stderr, "made up: %s\n", capture.c_str());
    std::string text;
    Tables tables;
    for (const Cell &cell : cells) {
        const GeneratorProgram program = generators.program(cell.op, cell.dtype, cell.target);
        for (const auto &[shape, weight] : cell.shapes) {
            std::vector<Contender> all = contenders_of(a, cell, generators.schedules());
            const Workers workers(cell, own_program(), (cache_folder() / "expected").string(), threads);
            make_contenders(all, shape, program, workers);
            const PeakLimit limit = time_contenders(all, shape, workers, a.processes);
            const std::string title = (cell.user ? cell.op : shape.op) + " " + name_of(shape.dtype) + " " + shape.label();
            text += table_of(title, all, limit);
            tables.emplace_back(title, std::move(all));
        }
    }
    if (a.picture) write_picture(outputs, chart_of(tables));
    text = hardware() + ", " + std::to_string(threads) + " threads, " + today() + "; best of " +
           std::to_string(3 * a.processes) + " rounds in " + std::to_string(a.processes) + " processes, in turns\n\n" + text;
    const std::string failed = failure_in(tables);
    if (failed.empty()) return text;
    std::fputs(text.c_str(), stdout);
    throw program::MachineError(a.op, "not all contenders were timed: " + failed);
}

}  // namespace attune::tune
