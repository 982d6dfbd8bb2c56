// SPDX-License-Identifier: MIT
// Thread pool of the process, which helps the threads of calls.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace attune {

// Helpers of all calls of this process: at most one per core beside the caller's, created when first wanted. Before it sleeps,
// a helper looks for work for a while, so that a call finds it awake if another call has just ended: waking a thread takes as
// long as a small kernel. exit() does not wait for helpers, and they go on helping calls in flight: the team is never
// destroyed. Where there is no memory for a team a call has its own thread alone, which changes no result.
class ThreadTeam {
public:
    ThreadTeam(const ThreadTeam &) = delete;

    // Runs work(0) in this thread and work(1), ..., work(seats - 1) in helpers that become free before it ends; returns when
    // all begun ones have ended. So each must do what the others leave. May be called from several threads, and by work.
    template<typename Work> static void run(int seats, const Work &work) {
        ThreadTeam *const team = seats < 2 ? nullptr : of_this_process();
        if (!team) return work(0);
        Job job{[](const void *w, int seat) { (*static_cast<const Work *>(w))(seat); }, &work, seats};
        team->run(job);
    }

    // Whether this many multiply-adds are worth helpers now: a little work is where a helper is awake, or where such calls have
    // followed each other so closely that together they are worth waking one.
    static bool worth_helpers(double multiply_adds) noexcept;
    // Multiply-adds that take as long as handing work to a thread and waiting for its end.
    static constexpr double least_work_of_a_thread = 1e5;

private:
    struct Job {
        void (*const work)(const void *, int seat);
        const void *const argument;
        const int seats;
        int next_seat = 1;
        std::atomic<int> helpers{0};  // helpers at work
    };
    struct ProcessEvents;
    static ProcessEvents process_events;
    struct Helper {
        std::thread thread;
        bool works = false;
    };

    ThreadTeam() = default;
    static ThreadTeam *of_this_process() noexcept;
    static void forget_in_child() noexcept;
    void run(Job &);
    void begin_helpers();
    void begin_helper();
    void open(Job &);
    void help(std::size_t number);
    bool worth_waking(double multiply_adds) noexcept;
    void end_idle_helpers();

    std::mutex mutex_;  // guards all that follows, and the jobs; atomics are also read without it
    std::condition_variable wake_, helped_;
    std::vector<Job *> jobs_;  // with free seats
    std::vector<Helper> helpers_;
    std::atomic<unsigned> posted_{0};
    int most_helpers_ = std::numeric_limits<int>::max();  // fewer once the system has refused a thread
    int seats_ = 0;                                       // of all running jobs, without their callers'
    std::atomic<int> looking_{0};                         // helpers awake without work
    int sleeping_ = 0;                                    // helpers asleep
    bool ended_ = false;
    ThreadTeam *of_parent_ = nullptr;  // the parent process's team, for leak checkers

    // Work of recent calls without helpers that awake helpers would have been worth: its sum over calls that followed each
    // other, and the time of the last one. Threads that write both at the same time lose a call at worst.
    std::atomic<double> missed_work_{0};
    std::atomic<std::chrono::steady_clock::duration> last_missed_{};
};

}  // namespace attune
