// SPDX-License-Identifier: MIT
// main() of the programs that make kernels for CPUs: Halide's, without one of its warnings. Each object calls the library's own
// copy of Halide's runtime (halide_patches/private_runtime.h) and takes the arguments that the runtime passes
// (check_arguments.h).
#include "generators/arguments/check_arguments.h"
#include "lowering/halide_patches/private_runtime.h"
#include <Halide.h>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

namespace {

// Reporter without the warning that 16-bit conversions are emulated: 16-bit tensors are stored as such and computed in f32 on
// purpose, and the warning would be repeated for each function of each kernel.
class Reporter : public Halide::CompileTimeErrorReporter {
public:
    void warning(const char *message) override {
        if (!std::strstr(message, "(b)float16 type operation is emulated")) std::fputs(message, stderr);
    }
    [[noreturn]] void error(const char *message) override { throw Halide::CompileError(message); }  // as without a reporter
};

// The word behind an option, or an empty one.
std::string operand(int argc, char **argv, const char *option) {
    char **end = argv + argc, **at = std::find_if(argv, end, [&](const char *word) { return !std::strcmp(word, option); });
    return std::distance(at, end) > 1 ? at[1] : "";
}

// Removes the target's feature large_buffers where tiles of AMX are scheduled: Halide 21 recognises their products by places of
// 32 bits alone (ExtractTileOperations.cpp), and refuses other ones ("Store to AMX tile allocation of a non-tile value").
void keep_places_of_amx_in_32_bits(int argc, char **argv) {
    const auto schedules_tiles = [](const char *word) { return std::string_view(word).starts_with("schedule=amx"); };
    constexpr std::string_view feature = "-large_buffers";
    if (std::none_of(argv, argv + argc, schedules_tiles)) return;
    static std::string target;
    for (char **word = argv; word != argv + argc; word++)
        if (const std::string_view text = *word; text.starts_with("target=") && text.ends_with(feature)) {
            target = text.substr(0, text.size() - feature.size());
            *word = target.data();
        }
}

}  // namespace

int main(int argc, char **argv) {
    static Reporter reporter;
    Halide::set_custom_compile_time_error_reporter(&reporter);
    keep_places_of_amx_in_32_bits(argc, argv);
    const int failed = Halide::Internal::generate_filter_main(argc, argv);
    const std::string folder = operand(argc, argv, "-o"), name = operand(argc, argv, "-n");
    const bool makes_object = ("," + operand(argc, argv, "-e") + ",").find(",object,") != std::string::npos;
    if (failed || !makes_object || folder.empty() || name.empty()) return failed;
    const bool callable =
        attune::make_runtime_private(folder + "/" + name + ".o") && attune::arguments_match({argv, argv + argc});
    return callable ? 0 : 1;
}
