// SPDX-License-Identifier: MIT
#include "tools/files/atomic_file.h"
#include "tools/error.h"
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace attune::program {
namespace fs = std::filesystem;

// An entry that a signal handler reads, on any thread and at any time: entries are neither moved nor freed.
struct TemporaryFile::Entry {
    std::string path;
    std::atomic<bool> exists = true;
    Entry *next = nullptr;
    static inline std::atomic<Entry *> first = nullptr;

    static void remove_all() {
        for (Entry *e = first.load(); e; e = e->next)
            if (e->exists.load()) ::unlink(e->path.c_str());
    }
};

namespace {

[[noreturn]] void fail(int reason) { throw std::system_error(reason, std::generic_category()); }

// A random name, short enough to be legal wherever the output's own name is.
std::string random_name(std::string_view ending) {
    std::random_device random;
    std::string name = ".attune-";
    for (int n = 0; n < 16; n++) name += "0123456789abcdefghijklmnopqrstuv"[random() % 32];
    return name.append(ending);
}

// Keeps permissions and owner of the replaced file. Where the group cannot be kept, another gets the permissions of everybody.
void keep_permissions(int file, const struct stat &old) {
    mode_t mode = old.st_mode & 07777;
    if (::fchown(file, old.st_uid, old.st_gid) != 0 && ::fchown(file, static_cast<uid_t>(-1), old.st_gid) != 0)
        mode = (mode & 0707) | (mode & 07) << 3;
    if (::fchmod(file, mode) == 0) return;
    // Some file systems have fixed permissions: they must not let others read this file.
    const int reason = errno;
    struct stat now;
    if (::fstat(file, &now) != 0 || (now.st_mode & 0777 & ~mode) != 0) fail(reason);
}

mode_t first_mode(const fs::path &path) {
    struct stat old;
    return ::stat(path.c_str(), &old) == 0 ? old.st_mode & 0777 : 0666;
}

}  // namespace

TemporaryFile::Entry *TemporaryFile::entry_of(const fs::path &path) {
    // Signals that are ignored or have another handler keep it.
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGXCPU, SIGXFSZ}) {
        struct sigaction old, action{};
        action.sa_handler = [](int number) {
            Entry::remove_all();
            ::raise(number);
        };
        action.sa_flags = static_cast<int>(SA_RESETHAND);  // the raised signal ends the process as usual
        if (::sigaction(signal, nullptr, &old) == 0 && old.sa_handler == SIG_DFL) ::sigaction(signal, &action, nullptr);
    }
    Entry *entry = new Entry{path.string()};
    entry->next = Entry::first.load();
    while (!Entry::first.compare_exchange_weak(entry->next, entry)) {}
    return entry;
}

TemporaryFile::TemporaryFile(const fs::path &folder, std::string_view ending, mode_t mode) {
    for (int attempt = 0;; attempt++) {
        path_ = folder / random_name(ending);
        entry_ = entry_of(path_);  // before the file exists, so that no signal comes between
        file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (file_ >= 0) return;
        const int reason = errno;
        entry_->exists = false;
        if (reason != EEXIST || attempt == 100) fail(reason);
    }
}

TemporaryFile::~TemporaryFile() {
    if (file_ >= 0) ::close(file_);
    if (entry_->exists) ::unlink(path_.c_str());
    entry_->exists = false;
}

void TemporaryFile::close() {
    if (::close(std::exchange(file_, -1)) != 0) fail(errno);
}

void TemporaryFile::rename(const fs::path &to) {
    if (::rename(path_.c_str(), to.c_str()) != 0) fail(errno);
    entry_->exists = false;
}

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

AtomicFile::AtomicFile(const fs::path &path) : path_(path), temporary_(folder_of(path), "", first_mode(path)) {
    struct stat old;
    if (::stat(path.c_str(), &old) == 0) keep_permissions(temporary_.descriptor(), old);
}

void AtomicFile::write(const Parts &parts) {
    for (auto [data, bytes] : parts)
        for (std::size_t done = 0; done < bytes;) {
            const ssize_t n = ::write(temporary_.descriptor(), static_cast<const char *>(data) + done, bytes - done);
            if (n < 0 && errno != EINTR) fail(errno);
            done += n < 0 ? 0 : static_cast<std::size_t>(n);
        }
    temporary_.close();
}

void AtomicFile::commit() { temporary_.rename(path_); }

void write_file(const fs::path &path, std::string_view content) {
    try {
        AtomicFile file(without_links(path));
        file.write({{content.data(), content.size()}});
        file.commit();
    } catch (const std::system_error &error) {
        throw MachineError(path.string(), "cannot be written: " + error.code().message());
    }
}

}  // namespace attune::program
