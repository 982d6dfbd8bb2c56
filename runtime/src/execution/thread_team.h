// SPDX-License-Identifier: MIT
// Threads that help the thread of a call.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace attune {

// The helpers of all calls of this process: one per core beside the caller's at most, begun when they are first wanted. A call
// finds them awake if another has ended shortly before: they look for work for a while before they sleep, since to wake a
// thread takes as long as a small kernel. exit() does not wait for them, and they go on helping calls that are in flight: the
// team is never destroyed. Where there is no memory for it a call has its own thread alone, which changes no result.
class ThreadTeam {
public:
    ThreadTeam(const ThreadTeam &) = delete;

    // Runs work(0) in this thread and work(1), ..., work(seats - 1) in helpers that are free before it ends; returns when all
    // that began have ended. So each must do what the others leave. It may be called from several threads, and by work.
    template<typename Work> static void run(int seats, const Work &work) {
        ThreadTeam *const team = seats < 2 ? nullptr : of_this_process();
        if (!team) return work(0);
        Job job{[](const void *w, int seat) { (*static_cast<const Work *>(w))(seat); }, &work, seats};
        team->run(job);
    }

    // Whether work of so many multiply-adds is worth helpers now: little is where one is awake, or where such calls have
    // followed each other so closely that together they are worth waking one.
    static bool worth_helpers(double multiply_adds) noexcept;
    // To take it up and to wait for its end takes as long as so much of it.
    static constexpr double least_work_of_a_thread = 1e5;

private:
    struct Job {
        void (*const work)(const void *, int seat);
        const void *const argument;
        const int seats;
        int next_seat = 1;
        std::atomic<int> helpers{0};  // at work
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

    std::mutex mutex_;  // of all that follows, and of the jobs; atomic ones are read without it
    std::condition_variable wake_, helped_;
    std::vector<Job *> jobs_;  // with free seats
    std::vector<Helper> helpers_;
    std::atomic<unsigned> posted_{0};
    int most_helpers_ = std::numeric_limits<int>::max();  // fewer once the system has refused one
    int seats_ = 0;                                       // beside those of callers, of all jobs that run
    std::atomic<int> looking_{0};                         // helpers awake without work
    int sleeping_ = 0;                                    // helpers
    bool ended_ = false;
    ThreadTeam *of_parent_ = nullptr;  // of the process that this one was forked from, for leak checkers

    // Of calls without helpers that were worth some if these had been awake: of those that followed each other, and when the
    // last one was. Threads that write them at the same time lose a call at worst.
    std::atomic<double> missed_work_{0};
    std::atomic<std::chrono::steady_clock::duration> last_missed_{};
};

}  // namespace attune
