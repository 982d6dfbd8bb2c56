// SPDX-License-Identifier: MIT
// Lines of bytes as the arguments of `attune run`, in an empty folder: an error of the command line or of the input, or done.
// Arguments with a slash are left out, so that nothing outside the folder is read or written.
#include "tools/command_line/run_command_line.h"
#include "tools/error.h"
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
    char folder[] = "/tmp/attune_command_line_XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0) std::abort();
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t count) {
    std::istringstream lines(std::string(reinterpret_cast<const char *>(bytes), count));
    std::vector<std::string> words = {"attune", "run"};
    for (std::string line; std::getline(lines, line);) {
        if (line.find('/') != line.npos || line.find('\0') != line.npos) return -1;
        words.push_back(line);
    }
    std::vector<const char *> argv;
    for (const std::string &word : words) argv.push_back(word.c_str());
    CLI::App app("Attention functions from the command line, over .npy files.", "attune");
    app.require_subcommand(1);
    attune::program::add_run(app);
    try {
        app.parse(int(argv.size()), argv.data());
    } catch (const CLI::Error &) {
    } catch (const attune::program::InputError &) {
    } catch (const attune::program::MachineError &) {
    }
    return 0;
}
