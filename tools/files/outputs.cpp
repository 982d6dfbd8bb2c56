// SPDX-License-Identifier: MIT
// Output files, by temporary file and rename.
#include "tools/files/outputs.h"
#include "tools/error.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <unistd.h>

namespace attune::program {
namespace fs = std::filesystem;
namespace {

bool same_file(const fs::path &a, const fs::path &b) {
    std::error_code error;
    if (fs::equivalent(a, b, error)) return true;
    return a.filename() == b.filename() && fs::equivalent(folder_of(a), folder_of(b), error);
}

}  // namespace

void Outputs::add_input(const std::string &argument, const std::string &path) { inputs_.emplace_back(argument, path); }

void Outputs::add(const std::string &argument, const std::string &given) {
    const auto fail = [&](const std::string &what) { throw InputError(argument, given + ": " + what); };
    const fs::path path = without_links(given);
    std::error_code error;
    const fs::file_status folder = fs::status(folder_of(path), error);
    if (folder.type() == fs::file_type::not_found) fail("its folder does not exist");
    if (!fs::is_directory(folder)) fail("its folder is not a folder");
    error.clear();
    const fs::file_status status = fs::status(path, error);
    if (fs::is_directory(status) || !path.has_filename()) fail("is a directory");
    if (status.type() != fs::file_type::not_found) {
        if (error) fail("cannot be written: " + error.message());
        // Renaming onto a device or a pipe would replace it.
        if (!fs::is_regular_file(status)) fail("is not a regular file");
        if (::access(path.c_str(), W_OK) != 0) fail(std::string("cannot be written: ") + std::strerror(errno));
    }
    for (const auto &[other, other_path] : inputs_)
        if (same_file(path, without_links(other_path))) fail("is also the file of " + other);
    for (const Output &other : outputs_)
        if (same_file(path, other.path)) fail("is also the file of " + other.argument);
    // A file is created now, so that nobody waits for a result that cannot be stored.
    try {
        TemporaryFile probe(folder_of(path));
    } catch (const std::system_error &refused) {
        fail("cannot be written: " + refused.code().message());
    }
    Output &output = outputs_.emplace_back();
    output.argument = argument, output.path = path;
}

void Outputs::write(const std::string &argument, const Parts &parts) {
    const auto found = std::find_if(outputs_.begin(), outputs_.end(), [&](const Output &o) { return o.argument == argument; });
    if (found == outputs_.end()) throw MachineError(argument, "was not announced as an output");
    try {
        found->file.emplace(found->path);
        found->file->write(parts);
    } catch (const std::system_error &error) {
        cannot_write(*found, error);
    }
}

void Outputs::commit() {
    for (const Output &output : outputs_)
        if (!output.file) throw MachineError(output.argument, "was announced and not written");
    for (Output &output : outputs_) {
        try {
            output.file->commit();
        } catch (const std::system_error &error) {
            cannot_write(output, error);
        }
    }
}

void Outputs::cannot_write(const Output &output, const std::system_error &error) {
    throw MachineError(output.argument, output.path.string() + ": cannot be written: " + error.code().message());
}

}  // namespace attune::program
