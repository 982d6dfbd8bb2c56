// SPDX-License-Identifier: MIT
// Files that are written whole or not at all: their owners, and their remains when the process is killed.
#include "temporary.h"
#include "tests/support/catch.h"
#include "tools/error.h"
#include "tools/files/atomic_file.h"
#include <csignal>
#include <iterator>
#include <set>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using attune::program::AtomicFile, attune::program::TemporaryFile, attune::program::write_file;
namespace fs = std::filesystem;

namespace {

std::string content_of(const std::string &file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::set<std::string> names_in(const std::string &folder) {
    std::set<std::string> names;
    for (const auto &entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
    return names;
}

mode_t mode_of(const std::string &file) {
    struct stat s;
    return ::stat(file.c_str(), &s) == 0 ? s.st_mode & 07777 : 0;
}

// The end of a process that has half a file and gets a signal.
int killed_by(int signal, const std::string &output, bool ignored) {
    const pid_t child = ::fork();
    if (child == 0) {
        std::signal(signal, ignored ? SIG_IGN : SIG_DFL);  // Catch2 handles some signals
        AtomicFile file(output);
        const TemporaryFile other(fs::path(output).parent_path(), ".so");
        file.write({{"half", 4}});
        ::raise(signal);
        file.commit();
        _exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
}

}  // namespace

TEST_CASE("atomic file: a signal removes what is not complete and ends the process as it would have", "[tune]") {
    const attune::tune::TemporaryFolder folder;
    const std::string output = folder.write("o.npy", "old");
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGXCPU, SIGXFSZ}) {
        CAPTURE(signal);
        const int status = killed_by(signal, output, false);
        CHECK((WIFSIGNALED(status) && WTERMSIG(status) == signal));
        CHECK(names_in(folder.path()) == std::set<std::string>{"o.npy"});
        CHECK(content_of(output) == "old");
    }
    // As under nohup: an ignored signal stays ignored.
    CHECK(killed_by(SIGHUP, output, true) == 0);
    CHECK(content_of(output) == "half");
}

TEST_CASE("atomic file: what killed processes left stops nobody, whatever the process numbers are", "[tune]") {
    const attune::tune::TemporaryFolder folder;
    const std::string output = folder / "o.npy";
    std::set<std::string> names;
    for (std::size_t n = 1; n <= 20; n++) {
        const int status = killed_by(SIGKILL, output, false);
        CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
        names = names_in(folder.path());
        CHECK(names.size() == 2 * n);
        for (const std::string &name : names) CHECK(name.find(std::to_string(::getpid())) == name.npos);
    }
    write_file(output, "whole");
    CHECK(content_of(output) == "whole");
    // Two temporary files of one process differ, too.
    const TemporaryFile a(folder.path()), b(folder.path());
    CHECK(a.path() != b.path());
}

TEST_CASE("atomic file: permissions are those of the file that is replaced, else what the umask leaves", "[tune]") {
    const attune::tune::TemporaryFolder folder;
    const std::string file = folder.write("o.npy", "old");
    for (const mode_t mode : {0600, 0640, 0664, 0400, 0755, 0666}) {
        for (const mode_t mask : {0022, 0077, 0000}) {
            CAPTURE(mode, mask);
            REQUIRE(::chmod(file.c_str(), mode) == 0);
            const mode_t before = ::umask(mask);
            write_file(file, "kept");
            fs::remove(folder / "new");
            write_file(folder / "new", "new");
            ::umask(before);
            CHECK(mode_of(file) == mode);
            CHECK(mode_of(folder / "new") == (0666 & ~mask));
        }
    }
    CHECK(content_of(file) == "kept");
    if (::geteuid() == 0) {  // root can keep the owner
        REQUIRE(::chown(file.c_str(), 12345, 23456) == 0);
        write_file(file, "of another");
        struct stat s;
        REQUIRE(::stat(file.c_str(), &s) == 0);
        CHECK((s.st_uid == 12345 && s.st_gid == 23456));
    }
}

TEST_CASE("atomic file: links stay, and files that cannot be written are named", "[tune]") {
    const attune::tune::TemporaryFolder folder;
    fs::create_directory(folder / "real");
    fs::create_symlink("real/target", folder / "middle");
    fs::create_symlink("middle", folder / "link");
    for (const char *text : {"first", "second"}) {  // at first the link names nothing
        write_file(folder / "link", text);
        CHECK(fs::is_symlink(folder / "link"));
        CHECK(content_of(folder / "real/target") == text);
    }
    CHECK_THROWS_AS(write_file(folder / "none/file", "text"), attune::program::MachineError);
    try {
        write_file(folder / "none/file", "text");
    } catch (const attune::program::MachineError &error) {
        CHECK(std::string(error.what()) == (folder / "none/file") + ": cannot be written: No such file or directory");
    }
}
