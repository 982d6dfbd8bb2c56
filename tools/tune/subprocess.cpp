// SPDX-License-Identifier: MIT
#include "subprocess.h"
#include "tools/error.h"
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace attune::tune {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string &what) {
    throw program::MachineError("subprocess", what + ": " + std::strerror(errno));
}

class Pipe {
public:
    Pipe() {
        if (::pipe2(ends_.data(), O_CLOEXEC) != 0) fail("no pipe");
    }
    ~Pipe() { close(0), close(1); }
    Pipe(const Pipe &) = delete;
    Pipe &operator=(const Pipe &) = delete;
    int end(std::size_t n) const { return ends_[n]; }
    bool open(std::size_t n) const { return ends_[n] >= 0; }
    void close(std::size_t n) {
        if (ends_[n] >= 0) ::close(ends_[n]);
        ends_[n] = -1;
    }
    void never_wait(std::size_t n) { ::fcntl(ends_[n], F_SETFL, O_NONBLOCK); }

private:
    std::array<int, 2> ends_;
};

// One process between its start and its end.
class Running {
public:
    explicit Running(const Process &process) : process_(process), until_(Clock::now() + seconds(process.limit)) {
        std::vector<char *> words;
        for (const std::string &word : process.arguments) words.push_back(const_cast<char *>(word.c_str()));
        words.push_back(nullptr);
        const pid_t parent = ::getpid();
        child_ = ::fork();
        if (child_ < 0) fail("no process");
        if (child_ == 0) {  // only async-signal-safe calls between fork and exec
            ::setpgid(0, 0);
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (::getppid() != parent) ::_exit(127);
            ::dup2(in_.end(0), 0), ::dup2(out_.end(1), 1), ::dup2(errors_.end(1), 2);
            ::execvp(words[0], words.data());
            ::_exit(127);
        }
        ::setpgid(child_, child_);
        in_.close(0), out_.close(1), errors_.close(1);
        for (Pipe *p : {&out_, &errors_}) p->never_wait(0);
        in_.never_wait(1);
        feed();
    }

    ~Running() {
        if (!over_) kill_group(), ::waitpid(child_, nullptr, 0);
    }

    // Adds the descriptors to wait for.
    void watch(std::vector<pollfd> &all) const {
        if (in_.open(1)) all.push_back({in_.end(1), POLLOUT, 0});
        if (out_.open(0)) all.push_back({out_.end(0), POLLIN, 0});
        if (errors_.open(0)) all.push_back({errors_.end(0), POLLIN, 0});
    }

    // Moves data without waiting; true if the process has ended.
    bool step() {
        feed();
        drain(out_, result_.output), drain(errors_, result_.errors);
        if (!result_.timed_out && Clock::now() > until_) result_.timed_out = true, kill_group();
        if (::waitpid(child_, &result_.status, WNOHANG) != child_) return false;
        over_ = true;
        kill_group();  // processes that it left behind
        drain(out_, result_.output), drain(errors_, result_.errors);
        return true;
    }

    ProcessResult &result() { return result_; }

private:
    static Clock::duration seconds(double s) {
        return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
    }
    void kill_group() { ::kill(-child_, SIGKILL); }

    void feed() {
        while (in_.open(1) && fed_ < process_.input.size()) {
            const ssize_t n = ::write(in_.end(1), process_.input.data() + fed_, process_.input.size() - fed_);
            if (n < 0 && errno == EAGAIN) return;
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) break;  // the process reads no more
            fed_ += static_cast<std::size_t>(n);
        }
        in_.close(1);
    }

    static void drain(Pipe &pipe, std::string &text) {
        std::array<char, 4096> part;
        while (pipe.open(0)) {
            const ssize_t n = ::read(pipe.end(0), part.data(), part.size());
            if (n < 0 && errno == EINTR) continue;
            if (n < 0 && errno == EAGAIN) return;
            if (n <= 0) return pipe.close(0);
            text.append(part.data(), static_cast<std::size_t>(n));
        }
    }

    const Process &process_;
    Clock::time_point until_;
    Pipe in_, out_, errors_;
    pid_t child_ = -1;
    std::size_t fed_ = 0;
    bool over_ = false;
    ProcessResult result_;
};

}  // namespace

std::string ProcessResult::failure(double limit) const {
    if (timed_out) return "ran longer than " + std::to_string(static_cast<int>(limit)) + " s";
    if (WIFSIGNALED(status))
        return "crashed by signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) + ")";
    return status == 0 ? "" : "exit code " + std::to_string(WEXITSTATUS(status));
}

std::vector<ProcessResult> run_all(const std::vector<Process> &processes, int at_once) {
    std::signal(SIGPIPE, SIG_IGN);  // a process that does not read its input shows by its end
    std::vector<ProcessResult> results(processes.size());
    std::vector<std::pair<std::size_t, std::unique_ptr<Running>>> running;
    for (std::size_t next = 0; next < processes.size() || !running.empty();) {
        while (next < processes.size() && running.size() < static_cast<std::size_t>(std::max(at_once, 1))) {
            running.emplace_back(next, std::make_unique<Running>(processes[next]));
            next++;
        }
        std::vector<pollfd> descriptors;
        for (const auto &[n, process] : running) process->watch(descriptors);
        // An end without output shows in waitpid() alone, which is called every 20 ms.
        ::poll(descriptors.data(), descriptors.size(), descriptors.empty() ? 1 : 20);
        std::erase_if(running, [&](const auto &one) {
            if (!one.second->step()) return false;
            results[one.first] = std::move(one.second->result());
            return true;
        });
    }
    return results;
}

ProcessResult run(const Process &process) { return run_all({process}, 1).front(); }

}  // namespace attune::tune
