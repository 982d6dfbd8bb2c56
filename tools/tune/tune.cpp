// attune tune: what is tuned and against what, cell by cell; then the files of numbers, the table and the picture.
#include "cell_tuner.h"
#include "cells.h"
#include "finalists.h"
#include "numbers_file.h"
#include "progress.h"
#include "report.h"
#include "subject.h"
#include "tools/error.h"
#include "tools/text.h"
#include "tune_command.h"
#include "user_captures.h"
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>
#include <unistd.h>

namespace attune::tune {
namespace {
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// What the candidates of one cell are made and tried with.
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

// All that one run shares.
class Tuner {
public:
    explicit Tuner(const TuneArguments &arguments)
        : a_(arguments), generators_(Generators::find(arguments.op, arguments.build)),
          threads_(arguments.threads > 0 ? arguments.threads : static_cast<int>(std::thread::hardware_concurrency())),
          jobs_(arguments.jobs > 0 ? arguments.jobs : static_cast<int>(std::thread::hardware_concurrency())),
          cache_(cache_folder()) {
        forget_environment();
        subject_ = find_subject(a_.op, generators_, a_.shapes, a_.captures);
        files_ = a_.records.empty() ? std::vector<std::string>{(cache_ / "records.jsonl").string()} : a_.records;
        for (const std::string &file : files_) {
            const std::vector<Record> some = read_records(file);
            known_.insert(known_.end(), some.begin(), some.end());
        }
        log_ = std::make_unique<RecordLog>(files_.front());
    }

    std::string run() {
        Context context(ContextOptions{.threads = threads_});
        const std::vector<Cell> cells = cells_of(subject_, a_.variant, context);
        if (a_.identical > 0) return try_identical(cells.front());
        const double seconds = a_.minutes * 60;
        const Deadline end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
        std::vector<CellReport> reports;
        {
            Progress progress(cells.size(), end, seconds);
            progress_ = &progress;
            for (const std::string &line : subject_.left_out) progress.say("left out: " + line);
            for (const std::string &capture : subject_.made_up)
                progress.say("captures made up: " + capture + "; yours: --capture NAME=FILE.npy or NAME=NUMBER");
            for (const Cell &cell : cells) numbers_file(cell);  // said before an hour is spent, if there is none
            for (std::size_t n = 0; n < cells.size(); n++) {
                const auto share = (end - Clock::now()) / static_cast<int>(cells.size() - n);
                reports.push_back(tune_one(cells[n], Clock::now() + share));
            }
            progress_ = nullptr;
        }
        if (a_.picture) write_picture(*a_.picture, picture_of(reports));
        std::string text = table_of(reports) + notes_;
        text += "records: " + files_.front() + "\n";
        const bool wrong =
            std::any_of(reports.begin(), reports.end(), [](const CellReport &r) { return !r.result.failure.empty(); });
        if (wrong) {
            std::fputs(text.c_str(), stdout);
            throw program::MachineError(a_.op, "not tuned; the numbers stay as they were (see the table)");
        }
        return text;
    }

private:
    Numbers baseline_of(const Cell &cell, const Space &space) const {
        if (!a_.from) return space.nearest(cell.shipped);
        const Numbers from = numbers_in(generators_.schedules(), cell, *a_.from);
        if (from.empty()) throw program::InputError("--from", *a_.from + " has no numbers for " + cell.variant);
        return space.nearest(from);
    }

    Setting setting_of(const Cell &cell, const Tools &tools) const {
        Limits limits;
        limits.jobs = jobs_, limits.cold = a_.cold;
        return {.cell = cell,
                .space = tools.space,
                .maker = tools.maker,
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

    CellReport tune_one(const Cell &cell, Deadline deadline) {
        CellReport report{cell, {}};
        const Tools tools(cell, generators_, cache_, threads_);
        const Numbers baseline = baseline_of(cell, tools.space), shipped = tools.space.nearest(cell.shipped);
        Setting setting = setting_of(cell, tools);
        if (!a_.from) setting.seeds = seeds_of(generators_.schedules(), cell, known_, tools.key);
        setting.progress = [this](const CellResult &result, const std::string &phase) { progress_->show(result, phase); };
        progress_->start_cell(cell);
        report.result = tune_cell(setting, baseline, deadline);
        progress_->say(cell.variant + ": " + std::to_string(report.result.trials.size()) + " candidates" +
                       (report.result.complete ? ", the search had nothing more to ask" : ", time is up"));
        Numbers best = report.result.chosen;
        if (a_.from && best != shipped) best = against_shipped(setting, best, report);
        if (report.result.failure.empty() && best != shipped) write_numbers(report, best, tools.program);
        return report;
    }

    // The search began elsewhere: the shipped numbers are left only for what is at least as quick.
    Numbers against_shipped(const Setting &setting, const Numbers &best, CellReport &report) {
        const std::vector<Candidate> both =
            setting.maker.make({setting.cell.shipped, best}, jobs_, setting.limits.compile_seconds);
        for (const Candidate &candidate : both)
            if (!candidate.verdict.empty()) return best;
        const auto finalists = decide(setting, both[0], {both[1]}, Clock::now(), report.result);
        const Gain &gain = finalists.front().gain;
        notes_ += setting.cell.variant + ": " + text_of(best) + " is " + program::formatted("%.3f", gain.value) + " (" +
                  program::formatted("%.3f", gain.low) + " to " + program::formatted("%.3f", gain.high) +
                  ") of the speed of the shipped " + text_of(setting.cell.shipped) + "\n";
        return replaces(gain) ? best : setting.cell.shipped;
    }

    std::string how(const CellReport &report) const {
        const CellResult &r = report.result;
        std::size_t timed = 0;
        for (const Trial &t : r.trials) timed += t.verdict == "timed";
        std::string text = "attune tune " + a_.op + ", best of " + std::to_string(timed) + " candidates";
        if (r.gain)
            text += ", " + program::formatted("%.3f", r.gain->value) + " (" + program::formatted("%.3f", r.gain->low) + " to " +
                    program::formatted("%.3f", r.gain->high) + ") of the speed of " + text_of(r.baseline);
        if (const double share = r.limit.share(r.chosen_seconds); share > 0)
            text += ", " + program::formatted("%.2f", share) + " of the " + r.limit.unit;
        for (const WeightedShape &s : report.cell.shapes) text += ", " + s.shape.label();
        if (!subject_.made_up.empty()) text += ", captures made up";
        return text;
    }

    std::string numbers_file(const Cell &cell) const {
        if (a_.dry) return "";
        return a_.out ? *a_.out + "/" + Generators::name_of_op(cell.op) + "/" + cell.target + ".json"
                      : generators_.numbers_file(cell.op, cell.target);
    }

    void write_numbers(const CellReport &report, const Numbers &best, const GeneratorProgram &program) {
        const Cell &cell = report.cell;
        const std::string file = numbers_file(cell);
        if (a_.dry) {
            notes_ += cell.variant + ": " + text_of(best) + " (not written)\n";
            return;
        }
        NumbersFile numbers(file, Generators::name_of_op(cell.op), cell.target);
        numbers.set(cell, best,
                    {{"hardware", hardware()},
                     {"halide", program.halide},
                     {"algorithm", program.algorithm},
                     {"date", today()},
                     {"how", how(report)}});
        numbers.write();
        notes_ += cell.variant + ": written to " + file + "\n";
    }

    // How often the decision would replace numbers by themselves, and how small a gain it can see.
    std::string try_identical(const Cell &cell) {
        const Tools tools(cell, generators_, cache_, threads_);
        Setting setting = setting_of(cell, tools);
        const Limits &limits = setting.limits;
        const Candidate one = tools.maker.make({tools.space.nearest(cell.shipped)}, 1, limits.compile_seconds).front();
        if (!one.verdict.empty()) throw program::MachineError(cell.variant, one.reason);
        // Each is a file of its own, as different candidates are: loaded twice, one file would be one code.
        const fs::path folder = fs::temp_directory_path() / ("attune-identical-" + std::to_string(::getpid()));
        fs::create_directories(folder);
        std::vector<Candidate> copies;
        for (std::size_t n = 0; n <= limits.finalists; n++) {
            copies.push_back(one);
            copies.back().object = (folder / (std::to_string(n) + ".so")).string();
            fs::copy_file(one.object, copies.back().object);
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
        fs::remove_all(folder);
        return std::to_string(replaced) + " of " + std::to_string(a_.identical) + " trials among identical candidates of " +
               cell.variant + " replaced the numbers; half the intervals are narrower than +-" +
               program::formatted("%.2f", 100 * median(widths)) + " %\n";
    }

    const TuneArguments &a_;
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

std::string tune(const TuneArguments &arguments) { return Tuner(arguments).run(); }

}  // namespace attune::tune
