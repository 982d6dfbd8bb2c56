// SPDX-License-Identifier: MIT
// Files that are written whole or not at all, under a temporary name that nobody else has.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace attune::program {

// A file of its own in `folder`, removed when the object goes and when a signal ends the process. Its name does not come from
// the process number: in containers each run has the same, and what a killed run left behind would stop the next one.
class TemporaryFile {
public:
    // Of these permissions, less the umask; `ending` is the end of its name. Throws std::system_error.
    explicit TemporaryFile(const std::filesystem::path &folder, std::string_view ending = "", mode_t mode = 0666);
    ~TemporaryFile();
    TemporaryFile(const TemporaryFile &) = delete;
    TemporaryFile &operator=(const TemporaryFile &) = delete;

    const std::filesystem::path &path() const { return path_; }
    int descriptor() const { return file_; }
    // Throws std::system_error for what the system could not store.
    void close();
    // Gives it another name, which stays. Throws std::system_error.
    void rename(const std::filesystem::path &);

private:
    struct Entry;
    static Entry *entry_of(const std::filesystem::path &);
    std::filesystem::path path_;
    Entry *entry_;  // what the handler of signals reads
    int file_;
};

// What `path` names in the end: a rename would replace a link, not the file that it stands for.
std::filesystem::path without_links(std::filesystem::path path);
std::filesystem::path folder_of(const std::filesystem::path &);

using Parts = std::vector<std::pair<const void *, std::size_t>>;  // bytes, and how many

// What will take the place of the file at `path`, with its permissions and owner; a new file gets those that the umask leaves.
class AtomicFile {
public:
    // `path` is no link. Throws std::system_error, as its other members do.
    explicit AtomicFile(const std::filesystem::path &path);
    // All of it, the parts one after another.
    void write(const Parts &);
    void commit();

private:
    std::filesystem::path path_;
    TemporaryFile temporary_;
};

// All of a file at once, through a link if there is one. Throws MachineError.
void write_file(const std::filesystem::path &, std::string_view content);

}  // namespace attune::program
