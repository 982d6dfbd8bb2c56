// The program `attune`: wiring of the command line. What a command does stands in its own file.
#include "commands.h"
#include "error.h"
#include "text.h"
#include <CLI/CLI.hpp>
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

// CLI11 takes an empty word for an option that was not given.
void refuse_empty(const CLI::App &command) {
    for (const CLI::Option *option : command.get_options())
        for (const std::string &word : option->results())
            if (word.empty()) throw InputError(option->get_name(), "is empty");
}

void add_run_sdpa(CLI::App &run, RunSdpaArguments &a) {
    CLI::App *sdpa = run.add_subcommand("sdpa", "Scaled dot-product attention: softmax(scale * query key^T) value");
    const auto file = [](CLI::Option *option) { return option->type_name("FILE"); };
    file(sdpa->add_option("--query", a.query, "(B, Hq, Sq, Dk), or (B, Sq, Dk) for one head; .npy, float32 or float64"))
        ->required();
    file(sdpa->add_option("--key", a.key, "(B, Hkv, Sk, Dk); Hq is a multiple of Hkv"))->required();
    file(sdpa->add_option("--value", a.value, "(B, Hkv, Sk, Dv)"))->required();
    file(sdpa->add_option("--out", a.out, "Output (B, Hq, Sq, Dv), in the type of the computation"))->required();
    file(sdpa->add_option("--lse", a.lse,
                          "Output (B, Hq, Sq): log of the sum of exponentials of the scores, -inf without keys"));
    file(sdpa->add_option("--weights", a.weights, "Output (B, Hq, Sq, Sk): softmax of the scores"));
    file(sdpa->add_option("--heatmap", a.heatmap, "Output: picture of the weights, SVG, at most 250000 cells"));
    file(sdpa->add_option("--labels-query", a.labels_query,
                          "Words of the queries, one a line, UTF-8; one file, or one a batch entry"));
    file(sdpa->add_option("--labels-key", a.labels_key, "Words of the keys, likewise"));
    sdpa->add_option("--scale", a.scale, "Factor of the scores (default 1 / sqrt(Dk))")->type_name("F");
    sdpa->add_option("--causal", a.causal, "Query i sees key j <= i + off: off is 0, Sk - Sq, or --offset")
        ->type_name("top-left|bottom-right|offset");
    sdpa->add_option("--offset", a.offset, "Position of query 0 among the keys: a number, or a file with (B,) int32 or int64")
        ->type_name("N|FILE");
    sdpa->add_option("--window", a.window, "Query i sees key i+off-LEFT to i+off+RIGHT; -1 leaves a side open")
        ->type_name("LEFT,RIGHT");
    file(sdpa->add_option("--valid-lens", a.valid_lens, "(B,) or (B, Sq) int32 or int64: only keys j < len take part"));
    sdpa->add_option("--dtype", a.dtype, "Convert the arrays on load (default: the type of --query)")->type_name("f32|f64");
    sdpa->add_option("--threads", a.threads, "Default: one a core; results do not depend on it")->type_name("N");
    sdpa->add_option("--variant", a.variant, "Run this one of `attune variants`, or fail")->type_name("NAME");
    sdpa->footer(
        "Memory: the arrays, and for --weights or --heatmap B * Hq * Sq * Sk elements more. The weights are computed\n"
        "by the library itself, as the output for values that are the identity matrix; a variant for one head size\n"
        "cannot do that, so then they come from the variant that dispatch picks.\n"
        "Files are written when everything has succeeded, and never in part.\n\n"
        "Example:\n  attune run sdpa --query q.npy --key k.npy --value v.npy --out o.npy --causal bottom-right --window 255,0");
    sdpa->final_callback([&a, sdpa] {
        refuse_empty(*sdpa);
        run_sdpa(a);
    });
}

// The first word that no command takes.
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
    app.set_version_flag("--version", std::string("attune ") + ATTUNE_VERSION);
    app.require_subcommand(1);
    app.footer("Examples:\n  attune run sdpa --query q.npy --key k.npy --value v.npy --out o.npy\n  attune variants\n  attune "
               "doctor\n\n"
               "Exit code: 0 done, 2 bad input, 1 any other failure; one line on stderr says what is wrong.");

    RunSdpaArguments arguments;
    CLI::App *run = app.add_subcommand("run", "Compute one function on arrays in files");
    run->require_subcommand(1);
    run->footer("Example:\n  attune run sdpa --query q.npy --key k.npy --value v.npy --out o.npy");
    add_run_sdpa(*run, arguments);

    bool json = false;
    CLI::App *variants = app.add_subcommand("variants", "List every variant: algorithm, schedule, numbers, target");
    variants->add_flag("--json", json, "For scripts");
    variants->footer("Examples:\n  attune variants\n  attune variants --json | python3 -m json.tool");
    variants->final_callback([&json] { print(json ? variants_json() : variants_text()); });

    CLI::App *doctor = app.add_subcommand("doctor", "What this machine has, which targets it can run, and what is missing");
    doctor->footer("Example:\n  attune doctor");
    doctor->final_callback([] { print(doctor_text()); });

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
