// Threads that help the thread of a call.
#pragma once
#include <atomic>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace attune {

// Cores that this process may use, which can be fewer than the machine has.
int usable_cores();

// The helpers of all calls of this process: one per core beside the caller's at most, begun when they are first wanted. A call
// finds them awake if another has ended shortly before: they look for work for a while before they sleep, since to wake a thread
// takes as long as a small kernel.
class ThreadTeam {
public:
    static ThreadTeam &of_this_process();
    ThreadTeam(const ThreadTeam &) = delete;

    // Runs work(0) in this thread and work(1), ..., work(seats - 1) in helpers that are free before it ends; returns when all that
    // began have ended. So each must do what the others leave. It may be called from several threads, and by work.
    template<typename Work> void run(int seats, const Work &work) {
        Job job{[](const void *w, int seat) { (*static_cast<const Work *>(w))(seat); }, &work, seats};
        run(job);
    }

private:
    struct Job {
        void (*const work)(const void *, int seat);
        const void *const argument;
        const int seats;
        int next_seat = 1;
        std::atomic<int> helpers{0};  // at work
    };
    struct OfThisProcess;

    ThreadTeam() = default;
    void run(Job &);
    void begin_helpers();
    void open(Job &);
    void help();
    void end();

    std::mutex mutex_;  // of all that follows, and of the jobs; posted_ and Job::helpers are read without it
    std::condition_variable wake_, helped_;
    std::vector<Job *> jobs_;  // with free seats
    std::vector<std::thread> threads_;
    std::atomic<unsigned> posted_{0};
    int most_helpers_ = std::numeric_limits<int>::max();  // fewer once the system has refused one
    int seats_ = 0;     // beside those of callers, of all jobs that run
    int looking_ = 0;   // helpers awake without work
    int sleeping_ = 0;  // helpers
    bool ended_ = false;
};

}  // namespace attune
