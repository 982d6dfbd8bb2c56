// SPDX-License-Identifier: MIT
// Bytes as the words of `attune run`, one a line: the commands and all that they parse before they would open a file. No file
// is read or written, and nothing is computed: this harness has its own CommandFiles (tools/files/command_files.h), whose
// load() ends each command, and open_input(). CLI11 builds 500 options, so that all executions share them: an option that is
// not given has the word of an earlier execution.
#include "tools/command_line/run_command_line.h"
#include "tools/error.h"
#include "tools/files/command_files.h"
#include "tools/files/input_file.h"
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

namespace attune::program {

CommandFiles::CommandFiles(const CallArguments &) {}
void CommandFiles::input(const char *, const Given &, Array &, Ranks, Role) {}
void CommandFiles::other_input(const char *, const std::string &) {}
void CommandFiles::output(const char *, const Given &) {}
void CommandFiles::load() { throw InputError("files", "are not read here"); }
void CommandFiles::write(const char *, const Array &) { std::abort(); }
void CommandFiles::write(const char *, const std::string &) { std::abort(); }
Array output_array(const char *, ElementType, const Shape &) { std::abort(); }
Array zeroed_array(const char *, ElementType, const Shape &) { std::abort(); }
void clear(Array &) { std::abort(); }
std::ifstream open_input(const std::string &argument, const std::string &, std::uint64_t &) {
    throw InputError(argument, "is not opened here");
}

}  // namespace attune::program

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t count) {
    using namespace attune::program;
    static CLI::App &app = *[] {
        static CLI::App all("harness", "attune");
        all.require_subcommand(1);
        add_run(all);
        return &all;
    }();
    std::vector<std::string> words = {"run", ""};
    for (std::size_t n = 0; n < count; n++)
        if (bytes[n] == '\n')
            words.emplace_back();
        else
            words.back() += char(bytes[n]);
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    try {
        app.parse(words);
    } catch (const CLI::ParseError &) {
    } catch (const InputError &) {
    } catch (const MachineError &) {}
    return 0;
}
