// SPDX-License-Identifier: MIT
#include "tools/command_line/tune_command_line.h"
#include "tools/dispatch/explain.h"
#include "tools/dispatch/problems.h"
#include "tools/dispatch/regret.h"
#include "tools/dispatch/tune_dispatch.h"
#include "tools/error.h"
#include "tools/text.h"
#include "tools/tune/builders.h"
#include "tools/tune/compare.h"
#include "tools/tune/generators.h"
#include "tools/tune/replay.h"
#include "tools/tune/tune_command.h"
#include "tools/tune/worker.h"
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <unistd.h>

namespace attune::program {
namespace {

void print(const std::string &text) {
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
        throw MachineError("standard output", "cannot be written");
}

constexpr const char *op_words = "sdpa, sdpa_backward, additive, linear..., or an attention of the project of --build",
                     *build_words =
                         "Folder of a build that has the programs which make kernels: attune's, or of a project with "
                         "attune_add_attention()",
                     *capture_words = "Of an attention that captures: NAME=FILE.npy or NAME=NUMBER [made up]";

CLI::Validator positive() {
    return {[](const std::string &text) {
                const std::optional<double> number = number_in(text);
                const bool right = number && *number > 0 && *number <= 1e6;
                return right ? std::string() : "must be a number above 0, at most 1000000, got " + text;
            },
            "POSITIVE"};
}

CLI::Validator whole_or_all() {
    return {[](const std::string &text) {
                const std::optional<std::int64_t> number = integer_in(text);
                const bool right = number && *number >= 0 && *number <= 1000000;
                return right ? std::string() : "must be a whole number, or 0 for one a core, got " + text;
            },
            "N"};
}

// Refuses options that have no effect beside the option `mode`, which asks a command for other work.
void refuse(const CLI::App &command, std::initializer_list<const char *> options, const std::string &mode) {
    for (const char *option : options)
        if (command.count(option) > 0) throw InputError(option, "cannot be given with " + mode);
}

// `attune compare --dispatch`: its options beside those of comparing contenders, and what the command then does.
void add_regret(CLI::App &command, const std::shared_ptr<tune::CompareArguments> &given) {
    auto regret = std::make_shared<dispatch::RegretArguments>();
    auto wanted = std::make_shared<bool>(false);
    command.add_flag("--dispatch", *wanted, "Regret of dispatch: the time of the chosen variant over that of the quickest one");
    command.add_option("--count", regret->count, "Random shapes of --dispatch [300]")->check(positive());
    command.add_option("--seed", regret->seed, "Of the random shapes [1]");
    command.add_flag("--device", regret->device, "Of tensors on a GPU");
    command.final_callback([&command, given, regret, wanted] {
        if (!*wanted) {
            for (const char *option : {"--count", "--seed", "--device"})
                if (command.count(option) > 0) throw InputError(option, "needs --dispatch");
            return print(tune::compare(*given));
        }
        refuse(command, {"--contender", "--build", "--capture", "--processes"}, "--dispatch");
        if (regret->device) refuse(command, {"--threads"}, "--device");
        regret->op = given->op, regret->shapes = given->shapes, regret->picture = given->picture,
        regret->threads = given->threads;
        print(dispatch::compare_dispatch(*regret));
    });
}

void add_compare(CLI::App &app) {
    auto given = std::make_shared<tune::CompareArguments>();
    CLI::App *command =
        app.add_subcommand("compare", "Schedules and parameters of one function side by side: a table, and a chart");
    command->add_option("op", given->op, op_words)->required();
    add_regret(*command, given);
    command->add_option("--contender", given->contenders,
                        "\"label=schedule [name=number...]\", without numbers those in use or recorded for this machine, or "
                        "\"label=schedule@target\", what is recorded for that target; the first is what the others are "
                        "compared with [root, and what is in use]");
    command->add_option("--shapes", given->shapes, "CSV of shapes [some of each class]");
    command->add_option("--picture", given->picture, "SVG");
    command->add_option("--build", given->build, build_words);
    command->add_option("--capture", given->captures, capture_words);
    command->add_option("--threads", given->threads, "Threads of the calls [all cores]")->check(whole_or_all());
    command->add_option("--processes", given->processes, "Fresh processes that time all of them in turns [3]")
        ->check(positive());
    command->footer(
        "Example:\n  attune compare sdpa --contender root=root --contender \"wide=prefill kv_block=128 tile_q=64 key_tile=4 "
        "channel_tile=4\" --picture schedules.svg");
}

struct WhatToTune {
    bool dispatch = false, all = false, then_build = false, device = false;
};

// Brings the program of the build tree up to date; empty where its user builds otherwise, or into other folders.
std::string built_program(const tune::TuneArguments &given) {
    if (given.out || given.dry) return "";
    std::fprintf(stderr, "building attune with what was found\n");
    return tune::Generators::find("sdpa", given.build).program_of_build();
}

// Parameters of every op in half of the time; then the coefficients, by a program whose kernels have these parameters.
void tune_all(tune::TuneArguments given, double minutes) {
    tune::Ranks ranks(given);
    if (!ranks.leads()) return;
    const std::vector<std::string> &ops = dispatch::ops();
    given.minutes = minutes / 2 / static_cast<double>(ops.size());
    for (const std::string &op : ops) {
        given.op = op;
        std::fprintf(stderr, "%s: parameters\n", op.c_str());
        print(tune::tune(given, ranks));
    }
    ranks.end();
    const std::string program = built_program(given);
    if (program.empty())
        return print("build attune with these parameters, then fit its coefficients: attune tune --dispatch\n");
    std::vector<std::string> words = {program, "tune", "--dispatch", "--then-build", "--time", std::to_string(minutes / 2)};
    words.insert(words.end(), {"--seed", std::to_string(given.seed)});
    if (given.build) words.insert(words.end(), {"--build", *given.build});
    if (given.shapes) words.insert(words.end(), {"--shapes", *given.shapes});
    std::vector<char *> arguments;
    for (std::string &word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv(program.c_str(), arguments.data());
    throw MachineError(program, "cannot be run");
}

// Refuses options that --dispatch or --all leave without effect. With --all, the other options are those of every op's search.
void refuse_unused(const CLI::App &command, const tune::TuneArguments &given, const WhatToTune &wanted) {
    if (wanted.all) {
        if (!given.op.empty()) throw InputError("--all", "is for every op, not for " + given.op);
        // Variants, captures and a picture are those of one op, and --identical tunes nothing.
        refuse(command, {"--dispatch", "--device", "--variant", "--capture", "--picture", "--identical"}, "--all");
    } else if (wanted.dispatch) {
        refuse(command,
               {"--variant", "--picture", "--from", "--capture", "--threads", "--jobs", "--strategy", "--cold", "--identical",
                "--silence"},
               "--dispatch");
        if (given.records.size() > 1) throw InputError("--records", "takes one file with --dispatch");
    } else if (wanted.device) {
        throw InputError("--device", "needs --dispatch: parameters of kernels for a device are swept by hand");
    }
}

void tune_dispatch_or_all(const tune::TuneArguments &given, const WhatToTune &wanted, bool timed) {
    if (wanted.all) return tune_all(given, timed ? given.minutes : 60);
    if (tune::rank_of_environment().number > 0)
        return static_cast<void>(std::fputs("--dispatch measures on rank 0 alone\n", stderr));
    dispatch::TuneDispatchArguments dispatched;
    if (!given.op.empty()) dispatched.ops = {given.op};
    dispatched.build = given.build, dispatched.out = given.out, dispatched.shapes = given.shapes;
    dispatched.minutes = timed ? given.minutes : 5;
    dispatched.seed = static_cast<unsigned>(given.seed), dispatched.dry = given.dry;
    dispatched.device = wanted.device;
    if (!given.records.empty()) dispatched.log = given.records.front();
    print(dispatch::tune_dispatch(dispatched));
    if (wanted.then_build) built_program(given);
}

void add_explain(CLI::App &app) {
    auto given = std::make_shared<dispatch::ExplainArguments>();
    CLI::App *command =
        app.add_subcommand("explain", "Which variant dispatch chooses for a shape, and the predicted times of all candidates");
    command->add_option("op", given->op, "sdpa, cosine, gaussian, linear, linear_packed or batch_dot; additive with --device")
        ->required();
    command->add_option(
        "size", given->sizes,
        "Columns of bench/shapes: b (batch), h, kv (heads), q, k, d, dv, causal, dtype, options; of products q rows, "
        "dv columns, and k (batch_dot) or d deep");
    command->add_flag("--measure", given->measure, "Time the candidates in turns, too");
    CLI::Option *threads =
        command->add_option("--threads", given->threads, "Threads of the timed calls [all cores]")->check(whole_or_all());
    command->add_flag("--device", given->device, "For tensors on a GPU")->excludes(threads);
    command->footer("Examples:\n  attune explain sdpa dtype=bf16 h=32 kv=8 q=1 k=49 d=128\n  attune explain linear q=16 d=1024 "
                    "dv=4096 --measure");
    command->final_callback([given] { print(dispatch::explain(*given)); });
}

void add_tune_command(CLI::App &app) {
    auto given = std::make_shared<tune::TuneArguments>();
    CLI::App *command = app.add_subcommand("tune", "Find better parameters for this machine, prove them right, and write them");
    auto wanted = std::make_shared<WhatToTune>();
    command->add_option("op", given->op, op_words);
    command->add_flag("--dispatch", wanted->dispatch, "Fit the coefficients of predicted times, of the op or of all");
    command->add_flag("--device", wanted->device, "Those of kernels for a GPU, timed on it, with --dispatch");
    command->add_flag("--all", wanted->all, "Parameters of every op, then the coefficients of all, building in between");
    command->add_flag("--then-build", wanted->then_build)->group("");  // of --all
    CLI::Option *minutes =
        command->add_option("--time", given->minutes, "Minutes for all of it [10; 5 with --dispatch, 60 with --all]")
            ->check(positive());
    command->add_option("--shapes", given->shapes,
                        "CSV of shapes, such as ATTUNE_RECORD_SHAPES=FILE records [some of each class]");
    command->add_option("--variant", given->variant,
                        "Only variants whose names match this glob; those that dispatch chooses for no shape are forced");
    command->add_option("--out", given->out, "Folder for <op>/<target>.json [of a build tree: its schedules/<op>/tuned]");
    command->add_option("--records", given->records,
                        "Files of measurements; the first is appended to [records.jsonl in the cache folder]");
    command->add_option("--picture", given->picture, "SVG of all candidates");
    command->add_option("--from", given->from, "Start from the parameters of this target (generic...) instead of those in use");
    command->add_option("--build", given->build, build_words);
    command->add_option("--capture", given->captures, capture_words);
    command->add_option("--threads", given->threads, "Threads of the calls [all cores]")->check(whole_or_all());
    command->add_option("--jobs", given->jobs, "Compilers at once [all cores]")->check(whole_or_all());
    command
        ->add_option("--silence", given->silence,
                     "Under mpirun: seconds after which a rank that gives no sign of life is given up [60]")
        ->check(positive());
    command->add_option("--strategy", given->strategy, "factored, descent, random or exhaustive [factored]");
    command->add_option("--seed", given->seed, "Of what is random [1]");
    command->add_flag("--cold", given->cold, "Time with operands that no cache holds");
    command->add_flag("--dry-run", given->dry, "Write no parameters");
    command
        ->add_option("--identical", given->identical,
                     "No search: so many trials of the decision among identical candidates, to see this machine's noise")
        ->check(positive());
    command->footer("Examples:\n  attune tune sdpa --time 10\n  attune tune sdpa --shapes recorded.csv --out my-parameters "
                    "--picture tune.svg\n\n"
                    "A run that was stopped goes on where it was: what the records hold is not measured again.\n"
                    "docs/retune-for-your-machine.md explains it.");
    command->final_callback([command, given, wanted, minutes] {
        refuse_unused(*command, *given, *wanted);
        if (wanted->dispatch || wanted->all) return tune_dispatch_or_all(*given, *wanted, !minutes->empty());
        if (given->op.empty()) throw InputError("op", "must be given, or --dispatch or --all");
        tune::Ranks ranks(*given);
        if (!ranks.leads()) return;
        print(tune::tune(*given, ranks));
        ranks.end();
    });
}

// Commands that `--help` does not list: a search of recorded measurements, for work on the search itself
// (tools/tune/compare_strategies.py), and a job of the tuner, which calls it.
void add_hidden(CLI::App &app) {
    auto replayed = std::make_shared<tune::ReplayArguments>();
    CLI::App *replay = app.add_subcommand("tune-replay", "Search a recorded space: JSON lines of regret")->group("");
    replay->add_option("records", replayed->records, "JSON lines")->required();
    replay->add_option("--schedules", replayed->schedules, "Folder of <op>/space.json and targets.json")->required();
    replay->add_option("--strategy", replayed->strategy, "Its name");
    replay->add_option("--budget", replayed->budget, "Candidates");
    replay->add_option("--seed", replayed->seed, "Of what is random");
    replay->add_flag("--random-start", replayed->random_start, "Start from any recorded point");
    replay->final_callback([replayed] { print(tune::replay(*replayed)); });

    CLI::App *worker = app.add_subcommand("tune-worker", "One job of the tuner, on standard input")->group("");
    worker->final_callback([] {
        if (const int code = tune::run_worker(); code != 0) std::exit(code);
    });
}

}  // namespace

void add_tune(CLI::App &app) {
    add_tune_command(app);
    add_compare(app);
    add_explain(app);
    add_hidden(app);
}

}  // namespace attune::program
