// SPDX-License-Identifier: MIT
#include "tools/command_line/tune_command_line.h"
#include "tools/error.h"
#include "tools/text.h"
#include "tools/tune/compare.h"
#include "tools/tune/replay.h"
#include "tools/tune/tune_command.h"
#include "tools/tune/worker.h"
#include <cstdio>
#include <cstdlib>
#include <memory>

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

void add_compare(CLI::App &app) {
    auto given = std::make_shared<tune::CompareArguments>();
    CLI::App *command =
        app.add_subcommand("compare", "Schedules and parameters of one function side by side: a table, and a chart");
    command->add_option("op", given->op, op_words)->required();
    command->add_option(
        "--contender", given->contenders,
        "\"label=schedule [name=number...]\", parameters in use where there are none, or \"label=schedule@target\", what is "
        "recorded for that target; the first is what the others are compared with [root, and what is in use]");
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
    command->final_callback([given] { print(tune::compare(*given)); });
}

}  // namespace

void add_tune(CLI::App &app) {
    auto given = std::make_shared<tune::TuneArguments>();
    CLI::App *command = app.add_subcommand("tune", "Find better parameters for this machine, prove them right, and write them");
    command->add_option("op", given->op, op_words)->required();
    command->add_option("--time", given->minutes, "Minutes for all of it [10]")->check(positive());
    command->add_option("--shapes", given->shapes,
                        "CSV of shapes, such as ATTUNE_RECORD_SHAPES=FILE records [some of each class]");
    command->add_option("--variant", given->variant, "Only variants whose names match this glob");
    command->add_option("--out", given->out, "Folder for <op>/<target>.json [of a build tree: its schedules/<op>/tuned]");
    command->add_option("--records", given->records,
                        "Files of measurements; the first is appended to [records.jsonl in the cache folder]");
    command->add_option("--picture", given->picture, "SVG of all candidates");
    command->add_option("--from", given->from, "Start from the parameters of this target (generic...) instead of those in use");
    command->add_option("--build", given->build, build_words);
    command->add_option("--capture", given->captures, capture_words);
    command->add_option("--threads", given->threads, "Threads of the calls [all cores]")->check(whole_or_all());
    command->add_option("--jobs", given->jobs, "Compilers at once [all cores]")->check(whole_or_all());
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
    command->final_callback([given] { print(tune::tune(*given)); });
    add_compare(app);

    // For work on the search itself (tools/tune/compare_strategies.py).
    auto replayed = std::make_shared<tune::ReplayArguments>();
    CLI::App *replay = app.add_subcommand("tune-replay", "Search a recorded space: JSON lines of regret")->group("");
    replay->add_option("records", replayed->records, "JSON lines")->required();
    replay->add_option("--schedules", replayed->schedules, "Folder of <op>/space.json and targets.json")->required();
    replay->add_option("--strategy", replayed->strategy, "Its name");
    replay->add_option("--budget", replayed->budget, "Candidates");
    replay->add_option("--seed", replayed->seed, "Of what is random");
    replay->add_flag("--random-start", replayed->random_start, "Start from any recorded point");
    replay->final_callback([replayed] { print(tune::replay(*replayed)); });

    CLI::App *worker = app.add_subcommand("tune-worker", "One job of the tuner, on standard input");
    worker->group("");  // hidden: called by the tuner
    worker->final_callback([] {
        if (const int code = tune::run_worker(); code != 0) std::exit(code);
    });
}

}  // namespace attune::program
