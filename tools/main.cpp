// SPDX-License-Identifier: MIT
// The program `attune`: wiring of the command line. Each command has its own file.
#include "attune/version.h"
#include "tools/command_line/run_command_line.h"
#include "tools/command_line/tune_command_line.h"
#include "tools/commands/commands.h"
#include "tools/error.h"
#include "tools/text.h"
#include <cstdio>
#include <new>

namespace {
using namespace attune::program;

enum ExitCode { done = 0, failed = 1, bad_input = 2 };

int report(ExitCode code, const std::string &message) {
    std::fprintf(stderr, "attune: %s\n", one_line(message).c_str());
    return code;
}

void print(const std::string &text) {
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
        throw MachineError("standard output", "cannot be written");
}

// The first word that belongs to no command.
std::string leftover(const CLI::App &app) {
    const std::vector<std::string> words = app.remaining(true);
    return words.empty() ? "" : words.front();
}

int usage_error(const CLI::App &app, const CLI::ParseError &error) {
    const std::string word = leftover(app), message = error.what();
    if (!word.empty()) return report(bad_input, word + ": is not an argument here; see attune --help");
    if (dynamic_cast<const CLI::RequiredError *>(&error) && !message.starts_with("--"))
        return report(bad_input, "command: none given; see attune --help");
    const std::size_t end = message.find_first_of(": ");
    if (!message.starts_with("-") || end == std::string::npos) return report(bad_input, "usage: " + message);
    return report(bad_input, message.substr(0, end) + ": " + message.substr(message.find_first_not_of(": ", end)));
}

int run(int argc, char **argv) {
    CLI::App app("Attention functions from the command line, over .npy files.", "attune");
    app.set_version_flag("--version", std::string("attune ") + attune::linked_version_string());
    app.require_subcommand(1);
    app.footer("Examples:\n  attune run sdpa --query q.npy --key k.npy --value v.npy --out o.npy\n  attune variants\n  attune "
               "doctor\n\n"
               "Exit code: 0 done, 2 bad input, 1 any other failure; one line on stderr says what is wrong.");

    add_run(app);
    add_tune(app);

    bool json = false;
    CLI::App *variants = app.add_subcommand("variants", "List every variant: algorithm, schedule, parameters, target");
    variants->add_flag("--json", json, "For scripts");
    variants->footer("Examples:\n  attune variants\n  attune variants --json | python3 -m json.tool");
    variants->final_callback([&json] { print(json ? variants_json() : variants_text()); });

    CLI::App *doctor = app.add_subcommand("doctor", "What this machine has, which targets it can run, and what is missing");
    bool measure = false;
    doctor->add_flag("--measure", measure, "Measure peaks too: multiply-adds, caches and memory, in a few seconds");
    doctor->footer("Examples:\n  attune doctor\n  attune doctor --measure");
    doctor->final_callback([&measure] { print(measure ? doctor_text() + doctor_measures() : doctor_text()); });

    try {
        app.parse(argc, argv);
    } catch (const CLI::Success &asked) {  // --help, --version
        return app.exit(asked);
    } catch (const CLI::ParseError &error) {
        return usage_error(app, error);
    }
    return done;
}

}  // namespace

int main(int argc, char **argv) {
    try {
        return run(argc, argv);
    } catch (const InputError &error) {
        return report(bad_input, error.what());
    } catch (const MachineError &error) {
        return report(failed, error.what());
    } catch (const std::bad_alloc &) {
        return report(failed, "memory: there is not enough for this problem");
    } catch (const std::exception &error) {
        return report(failed, std::string("internal: ") + error.what());
    }
}
