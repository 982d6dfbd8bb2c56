// SPDX-License-Identifier: MIT
// The files that a command writes: checked before the work, written all together after it.
#pragma once
#include "tools/files/atomic_file.h"
#include <filesystem>
#include <list>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace attune::program {

// Each file is written under a temporary name in its own folder; commit() renames them all. What fails before that leaves
// no trace, and a file that was there before stays as it was.
class Outputs {
public:
    Outputs() = default;
    Outputs(const Outputs &) = delete;
    Outputs &operator=(const Outputs &) = delete;

    // A file that is read, which no output may be.
    void add_input(const std::string &argument, const std::string &path);
    // Throws InputError if this cannot be written, or is an input or another output. Inputs are added before outputs.
    void add(const std::string &argument, const std::string &path);

    // Writes the parts one after another under the temporary name. Throws MachineError.
    void write(const std::string &argument, const Parts &);
    void commit();

private:
    struct Output {
        std::string argument;
        std::filesystem::path path;
        std::optional<AtomicFile> file;  // once it is written
    };
    [[noreturn]] static void cannot_write(const Output &, const std::system_error &);
    std::vector<std::pair<std::string, std::string>> inputs_;
    std::list<Output> outputs_;  // files stay where they are
};

}  // namespace attune::program
