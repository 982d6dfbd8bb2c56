// SPDX-License-Identifier: MIT
// Files that are written whole or not at all, under a unique temporary name.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace attune::program {

// A temporary file in `folder`, removed when the object is destroyed and when a signal ends the process. Its name is random:
// the process number is the same in each run of a container, and the file of a killed run would stop the next one.
class TemporaryFile {
public:
    // Creates the file with `mode` less the umask and a name that ends with `ending`. Throws std::system_error.
    explicit TemporaryFile(const std::filesystem::path &folder, std::string_view ending = "", mode_t mode = 0666);
    ~TemporaryFile();
    TemporaryFile(const TemporaryFile &) = delete;
    TemporaryFile &operator=(const TemporaryFile &) = delete;

    const std::filesystem::path &path() const { return path_; }
    int descriptor() const { return file_; }
    // Throws std::system_error if the system could not store the file.
    void close();
    // Gives the file its permanent name. Throws std::system_error.
    void rename(const std::filesystem::path &);

private:
    struct Entry;
    static Entry *entry_of(const std::filesystem::path &);
    std::filesystem::path path_;
    Entry *entry_;  // read by the signal handler
    int file_;
};

// The target of `path` with links resolved: a rename would replace a link, not the file that it points to.
std::filesystem::path without_links(std::filesystem::path path);
std::filesystem::path folder_of(const std::filesystem::path &);

using Parts = std::vector<std::pair<const void *, std::size_t>>;  // bytes and their number

// Replacement of the file at `path`, with its permissions and owner; a new file gets the permissions that the umask leaves.
class AtomicFile {
public:
    // `path` is no link. All members throw std::system_error.
    explicit AtomicFile(const std::filesystem::path &path);
    // Writes the whole file, the parts one after another.
    void write(const Parts &);
    void commit();

private:
    std::filesystem::path path_;
    TemporaryFile temporary_;
};

// Writes a whole file at once, through a link if there is one. Throws MachineError.
void write_file(const std::filesystem::path &, std::string_view content);

}  // namespace attune::program
