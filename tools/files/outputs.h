// SPDX-License-Identifier: MIT
// Files that a command writes: checked before the work, written all together after it.
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

// Outputs of a command. Each file is written under a temporary name in its own folder; commit() renames all. A failure before
// that leaves no trace, and a file that was there before stays as it was.
class Outputs {
public:
    Outputs() = default;
    Outputs(const Outputs &) = delete;
    Outputs &operator=(const Outputs &) = delete;

    // Adds a file that is read, which no output may be.
    void add_input(const std::string &argument, const std::string &path);
    // Adds an output, after all inputs. Throws InputError if it cannot be written, or is an input or another output.
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
    std::list<Output> outputs_;  // elements must not move
};

}  // namespace attune::program
