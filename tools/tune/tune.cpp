// SPDX-License-Identifier: MIT
// attune tune: cells and their baselines, tuned one by one; then the parameter files, the table and the picture.
#include "cell_tuner.h"
#include "cells.h"
#include "finalists.h"
#include "parameters_file.h"
#include "progress.h"
#include "report.h"
#include "subject.h"
#include "tools/error.h"
#include "tools/files/outputs.h"
#include "tools/text.h"
#include "tune_command.h"
#include "user_captures.h"
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <list>
#include <memory>
#include <thread>

namespace attune::tune {
namespace {
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Least time of a cell, even where that leaves none for others: in less a candidate is hardly compiled, checked and decided on.
// And the time in which nothing more is begun.
constexpr double least_seconds_of_cell = 30, least_seconds_to_begin = 5;

// Generator program, space and maker of the candidates of one cell.
struct Tools {
    Tools(const Cell &cell, const Generators &generators, const fs::path &cache, int threads)
        : program(generators.program(cell.op, cell.dtype, cell.target)),
          space(Space::read(generators.space_file(cell.op), cell.like, cell.schedule, cell.shape_class,
                            facts_of(program.target, cell.dtype, cell.head_dim, caches_here()))),
          maker(cell, program, cache / "kernels"), workers(cell, own_program(), (cache / "expected").string(), threads) {
        key.target = cell.target, key.hardware = hardware(), key.algorithm = program.algorithm, key.halide = program.halide;
        key.op = cell.op, key.dtype = cell.dtype, key.schedule = cell.schedule, key.shape_class = cell.shape_class;
        key.kind = cell.kind, key.head_dim = cell.head_dim, key.threads = threads;
        if (cell.user) captures = captures_key(cell.op, cell.user.captures);
    }

    GeneratorProgram program;
    Space space;
    CandidateMaker maker;
    Workers workers;
    RecordKey key;
    std::string captures;
};

// Files of measurements, of which the first is appended to.
std::vector<std::string> records_of(const TuneArguments &a) {
    return a.records.empty() ? std::vector<std::string>{(cache_folder() / "records.jsonl").string()} : a.records;
}

// Compilers at once on a host whose cores several ranks share.
int jobs_of(const TuneArguments &a, int ranks_on_host) {
    return a.jobs > 0 ? a.jobs : std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks_on_host);
}

// One run of attune tune.
class Tuner {
public:
    Tuner(const TuneArguments &arguments, const Ranks &ranks)
        : a_(arguments), builders_(ranks.builders()), generators_(Generators::find(arguments.op, arguments.build)),
          threads_(arguments.threads > 0 ? arguments.threads : static_cast<int>(std::thread::hardware_concurrency())),
          jobs_(jobs_of(arguments, ranks.on_host())), cache_(cache_folder()) {
        if (a_.picture) outputs_.add("--picture", *a_.picture);
        forget_environment();
        subject_ = find_subject(a_.op, generators_, a_.shapes, a_.captures, Lengths::grouped);
        files_ = records_of(a_);
        for (const std::string &file : files_) {
            const std::vector<Record> some = read_records(file);
            known_.insert(known_.end(), some.begin(), some.end());
        }
        log_ = std::make_unique<RecordLog>(files_.front());
    }

    std::string run() {
        const double seconds = a_.minutes * 60;
        Deadline end = after(seconds);
        Context context(ContextOptions{.threads = threads_});
        std::vector<Cell> cells = cells_of(subject_, a_.variant, context);
        if (a_.identical > 0) return try_identical(cells.front());
        // Missing files are reported now, before an hour is spent.
        for (const Cell &cell : cells) parameters_file(cell), parameters_from(cell);
        end += make_programs(cells);
        // Cells with most of the time are tuned first: there may be no time left for the rest.
        std::stable_sort(cells.begin(), cells.end(), [](const Cell &a, const Cell &b) { return weight_of(a) > weight_of(b); });
        std::vector<CellReport> reports;
        {
            Progress progress(cells.size(), end, seconds);
            progress_ = &progress;
            for (const std::string &line : subject_.left_out) progress.say("left out: " + line);
            if (subject_.given > subject_.shapes.size())
                progress.say(std::to_string(subject_.given) + " shapes are tuned for as " +
                             std::to_string(subject_.shapes.size()) + ": one for lengths within a factor of two");
            for (const std::string &capture : subject_.made_up)
                progress.say("captures made up: " + capture + "; yours: --capture NAME=FILE.npy or NAME=NUMBER");
            for (std::size_t n = 0; n < cells.size(); n++) {
                const double left = seconds_left(end), share = left / static_cast<double>(cells.size() - n);
                reports.push_back(tune_one(cells[n], std::min(left, std::max(share, least_seconds_of_cell))));
            }
            progress_ = nullptr;
        }
        if (a_.picture) write_picture(outputs_, picture_of(reports));
        std::string text = table_of(reports) + notes_;
        text += "records: " + files_.front() + "\n";
        if (builders_) text += "candidates built by other ranks: " + std::to_string(builders_->built_by_others()) + "\n";
        const bool wrong =
            std::any_of(reports.begin(), reports.end(), [](const CellReport &r) { return !r.result.failure.empty(); });
        if (wrong) {
            std::fputs(text.c_str(), stdout);
            throw program::MachineError(a_.op, "not tuned; the parameters stay as they were (see the table)");
        }
        return text;
    }

private:
    // Parameters of --from, at which the search begins.
    Parameters parameters_from(const Cell &cell) const {
        if (!a_.from) return {};
        const Parameters from = parameters_in(generators_.schedules(), cell, *a_.from);
        if (from.empty()) throw program::InputError("--from", *a_.from + " has no parameters for " + cell.variant);
        return from;
    }

    Setting setting_of(const Cell &cell, const Tools &tools) const {
        Limits limits;
        limits.jobs = jobs_, limits.cold = a_.cold;
        if (a_.from) limits.decisions = 2;
        return {.cell = cell,
                .shapes = cell.shapes,
                .space = tools.space,
                .maker = tools.maker,
                .builders = builders_,
                .workers = tools.workers,
                .key = tools.key,
                .captures = tools.captures,
                .known = known_,
                .log = *log_,
                .strategy = a_.strategy,
                .seeds = {},
                .seed = a_.seed,
                .limits = limits,
                .progress = {}};
    }

    static Deadline after(double seconds) {
        return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    }

    static double weight_of(const Cell &cell) {
        double weight = 0;
        for (const WeightedShape &s : cell.shapes) weight += s.weight;
        return weight;
    }

    // Makes the generator programs before the time counts, since they take a minute, once. Returns the time taken.
    Clock::duration make_programs(const std::vector<Cell> &cells) const {
        const auto start = Clock::now();
        for (const Cell &cell : cells) generators_.program(cell.op, cell.dtype, cell.target);
        return Clock::now() - start;
    }

    CellReport tune_one(const Cell &cell, double seconds) {
        const Deadline deadline = after(seconds);
        const Tools tools(cell, generators_, cache_, threads_);
        CellReport report{cell, {}, tools.space.completed(cell.shipped), a_.from.value_or(""), {}};
        progress_->start_cell(cell);
        if (seconds < least_seconds_to_begin) {
            report.result.baseline = report.result.chosen = report.in_use;
            report.result.not_tried = "not tried, the time was up: give more --time, or name the variant with --variant";
        } else {
            Setting setting = setting_of(cell, tools);
            if (!a_.from) setting.seeds = seeds_of(generators_.schedules(), cell, known_, tools.key);
            setting.progress = [this](const CellResult &result, const std::string &phase) { progress_->show(result, phase); };
            report.result = tune_cell(setting, a_.from ? tools.space.nearest(parameters_from(cell)) : report.in_use, deadline);
            if (a_.from) compare_with_in_use(setting, report, deadline);
        }
        progress_->say(cell.variant + ": " + std::to_string(report.result.trials.size()) + " candidates" +
                       (report.result.complete ? ", the search had nothing more to ask" : ", time is up"));
        if (report.gain()) write_parameters(report, tools.program);
        return report;
    }

    // Compares the choice of a search that began elsewhere with the parameters in use: it has to be better than they are.
    void compare_with_in_use(const Setting &of_cell, CellReport &report, Deadline deadline) {
        CellResult &result = report.result;
        if (!result.failure.empty() || !result.not_tried.empty()) return;
        if (result.chosen == report.in_use || result.baseline == report.in_use) return;
        Setting setting = of_cell;
        setting.shapes = result.shapes;
        const std::vector<Candidate> both =
            setting.maker.make({report.in_use, result.chosen}, jobs_, setting.limits.compile_seconds);
        for (const Candidate &candidate : both)
            if (!candidate.verdict.empty()) result.not_tried = text_of(candidate.parameters) + ": " + candidate.reason;
        if (!result.not_tried.empty()) return;
        const auto finalists = decide(setting, both[0], {both[1]}, deadline, result);
        if (result.not_tried.empty()) report.over_in_use = finalists.front().gain;
    }

    std::string parameters_file(const Cell &cell) const {
        if (a_.dry) return "";
        return a_.out ? *a_.out + "/" + Generators::name_of_op(cell.op) + "/" + cell.target + ".json"
                      : generators_.parameters_file(cell.op, cell.target);
    }

    void write_parameters(const CellReport &report, const GeneratorProgram &program) {
        const Cell &cell = report.cell;
        const std::string file = parameters_file(cell);
        if (a_.dry) {
            notes_ += cell.variant + ": " + text_of(report.now()) + " (not written)\n";
            return;
        }
        ParametersFile parameters(file, Generators::name_of_op(cell.op), cell.target);
        nlohmann::ordered_json provenance = {
            {"hardware", hardware()}, {"halide", program.halide}, {"algorithm", program.algorithm}, {"date", today()}};
        provenance.update(figures_of(report));
        // Without the caller's file, whose shapes are in "how".
        provenance["command"] = "attune tune " + a_.op + " --variant " + cell.variant + (a_.shapes ? " --shapes FILE" : "") +
                                (a_.cold ? " --cold" : "");
        provenance["how"] =
            "attune tune " + a_.op + ", " + how_found(report) + (subject_.made_up.empty() ? "" : ", captures made up");
        parameters.set(cell, report.now(), provenance);
        parameters.write();
        notes_ += cell.variant + ": written to " + file + "\n";
    }

    // Measures how often the decision would replace parameters by themselves, and how small a gain it can see.
    std::string try_identical(const Cell &cell) {
        const Tools tools(cell, generators_, cache_, threads_);
        Setting setting = setting_of(cell, tools);
        const Limits &limits = setting.limits;
        const Candidate one = tools.maker.make({tools.space.completed(cell.shipped)}, 1, limits.compile_seconds).front();
        if (!one.verdict.empty()) throw program::MachineError(cell.variant, one.reason);
        // Each copy is a file of its own, as candidates are: one file loaded twice would be one code.
        std::list<program::TemporaryFile> files;
        std::vector<Candidate> copies;
        for (std::size_t n = 0; n <= limits.finalists; n++) {
            copies.push_back(one);
            copies.back().object = files.emplace_back(fs::temp_directory_path(), ".so").path().string();
            fs::copy_file(one.object, copies.back().object, fs::copy_options::overwrite_existing);
        }
        int replaced = 0;
        std::vector<double> widths;
        for (int trial = 0; trial < a_.identical; trial++) {
            setting.seed = a_.seed + static_cast<std::uint64_t>(trial);
            CellResult result;
            const auto finalists = decide(setting, copies.front(), {copies.begin() + 1, copies.end()},
                                          Clock::now() + std::chrono::hours(1), result);
            replaced += winner(finalists) != nullptr;
            for (const Finalist &f : finalists) widths.push_back(f.gain.high / f.gain.value - 1);
            std::fprintf(stderr, "trial %d of %d: %d replaced\n", trial + 1, a_.identical, replaced);
        }
        return std::to_string(replaced) + " of " + std::to_string(a_.identical) + " trials among identical candidates of " +
               cell.variant + " replaced the parameters; half the intervals are narrower than +-" +
               program::formatted("%.2f", 100 * median(widths)) + " %\n";
    }

    const TuneArguments &a_;
    Builders *builders_;
    program::Outputs outputs_;
    Generators generators_;
    int threads_, jobs_;
    fs::path cache_;
    Subject subject_;
    std::vector<std::string> files_;
    std::vector<Record> known_;
    std::unique_ptr<RecordLog> log_;
    Progress *progress_ = nullptr;
    std::string notes_;
};

}  // namespace

Ranks::Ranks(const TuneArguments &arguments) {
    const Rank rank = rank_of_environment();
    leads_ = rank.number == 0, on_host_ = rank.on_host;
    const fs::path folder = folder_of_ranks(records_of(arguments).front());
    if (!leads_) {
        const int built = build_for_rank_0(folder, rank, jobs_of(arguments, on_host_), arguments.silence);
        std::fprintf(stderr, "rank %d: %d candidates built\n", rank.number, built);
    } else if (rank.size > 1) {
        builders_ = std::make_unique<Builders>(folder, rank.size, arguments.silence);
    }
}

Ranks::~Ranks() = default;

void Ranks::end() {
    if (builders_) builders_->wait_for_all();
    builders_.reset();
}

std::string tune(const TuneArguments &arguments, const Ranks &ranks) { return Tuner(arguments, ranks).run(); }

}  // namespace attune::tune
