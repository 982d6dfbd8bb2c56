// Output files by temporary file and rename.
#include "outputs.h"
#include "error.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace attune::program {
namespace fs = std::filesystem;
namespace {

// A rename would replace a link, not the file that it stands for.
fs::path without_links(fs::path path) {
    std::error_code error;
    for (int n = 0; n < 40 && fs::is_symlink(path, error); n++) {
        const fs::path target = fs::read_symlink(path, error);
        if (error) break;
        path = target.is_absolute() ? target : path.parent_path() / target;
    }
    return path;
}

fs::path folder_of(const fs::path &path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

int create(const fs::path &path) { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }

// Short, so that it is legal wherever the output's own name is.
fs::path temporary_name(const fs::path &path, std::size_t n) {
    return folder_of(path) / (".attune-" + std::to_string(::getpid()) + "-" + std::to_string(n));
}

bool same_file(const fs::path &a, const fs::path &b) {
    std::error_code error;
    if (fs::equivalent(a, b, error)) return true;
    return a.filename() == b.filename() && fs::equivalent(folder_of(a), folder_of(b), error);
}

}  // namespace

Outputs::~Outputs() {
    std::error_code ignored;
    for (const Output &output : outputs_)
        if (!output.temporary.empty()) fs::remove(output.temporary, ignored);
}

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
    // Tried now, so that nobody waits for a result that cannot be stored.
    const fs::path probe = temporary_name(path, outputs_.size());
    const int file = create(probe);
    if (file < 0) fail(std::string("cannot be written: ") + std::strerror(errno));
    ::close(file);
    ::unlink(probe.c_str());
    outputs_.push_back({argument, path, {}});
}

void Outputs::write(const std::string &argument, const std::vector<std::pair<const void *, std::size_t>> &parts) {
    const auto found = std::find_if(outputs_.begin(), outputs_.end(), [&](const Output &o) { return o.argument == argument; });
    if (found == outputs_.end()) throw MachineError(argument, "was not announced as an output");
    Output &output = *found;
    const auto fail = [&](int reason) {
        throw MachineError(argument, output.path.string() + ": cannot be written: " + std::strerror(reason));
    };
    const fs::path name = temporary_name(output.path, static_cast<std::size_t>(found - outputs_.begin()));
    const int file = create(name);
    if (file < 0) fail(errno);
    output.temporary = name;
    for (auto [data, bytes] : parts) {
        for (std::size_t done = 0; done < bytes;) {
            const ssize_t n = ::write(file, static_cast<const char *>(data) + done, bytes - done);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) {
                const int reason = errno;
                ::close(file);
                fail(reason);
            }
            done += static_cast<std::size_t>(n);
        }
    }
    if (::close(file) != 0) fail(errno);
}

void Outputs::commit() {
    for (Output &output : outputs_) {
        if (output.temporary.empty()) throw MachineError(output.argument, "was announced and not written");
    }
    for (Output &output : outputs_) {
        std::error_code error;
        fs::rename(output.temporary, output.path, error);
        if (error) throw MachineError(output.argument, output.path.string() + ": cannot be written: " + error.message());
        output.temporary.clear();
    }
}

}  // namespace attune::program
