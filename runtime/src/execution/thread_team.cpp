// SPDX-License-Identifier: MIT
#include "execution/thread_team.h"
#include "execution/cpu_pause.h"
#include "execution/float_state.h"
#include "execution/processors.h"
#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <new>
#include <pthread.h>

namespace attune {
namespace {

// Time of busy waiting. Kernels of a call and calls of a layer follow each other within it; waking a thread takes 30 to 60 us.
constexpr std::chrono::microseconds awake{100};

// Busy-waits for done() during `awake` at most, and returns done(). Yields its core to any other thread.
template<typename Done> bool wait_awake(const Done &done) {
    const auto end = std::chrono::steady_clock::now() + awake;
    do {
        for (int n = 0; n < 32; n++) {
            if (done()) return true;
            cpu_pause();
        }
        std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < end);
    return done();
}

// Scope in which threads are created that leave signals to those of the program, except signals raised by an instruction of
// their own: if these were blocked, the kernel would end the process without calling the program's handler.
class WithoutSignals {
public:
    WithoutSignals() {
        sigset_t all;
        sigfillset(&all);
        for (const int of_instruction : {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGTRAP}) sigdelset(&all, of_instruction);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_;
};

std::atomic<ThreadTeam *> team_of_this_process{nullptr}, team_of_parent{nullptr};

}  // namespace

// After fork() a child has none of the threads, and locks stay as they were: it drops the team, and makes its own when wanted.
void ThreadTeam::forget_in_child() noexcept {
    ThreadTeam *const of_parent = team_of_this_process.exchange(nullptr);
    if (!of_parent) return;
    of_parent->of_parent_ = team_of_parent;
    team_of_parent = of_parent;
}

// Hooks on fork, from the time when the library is loaded, and on unloading. The destructor runs when the library is unloaded,
// and then no thread may run its code; and in exit(), when calls of detached threads or destructors may be in flight: helpers
// at work go on, and end with the process.
struct ThreadTeam::ProcessEvents {
    inline static bool forks_are_seen = false;
    ProcessEvents() { forks_are_seen = pthread_atfork(nullptr, nullptr, forget_in_child) == 0; }
    ~ProcessEvents() {
        if (ThreadTeam *team = team_of_this_process) team->end_idle_helpers();
    }
};
ThreadTeam::ProcessEvents ThreadTeam::process_events;

ThreadTeam *ThreadTeam::of_this_process() noexcept {
    ThreadTeam *team = team_of_this_process.load(std::memory_order_acquire);
    if (team) return team;
    if (!ProcessEvents::forks_are_seen) return nullptr;
    auto *const made = new (std::nothrow) ThreadTeam;
    if (!made || team_of_this_process.compare_exchange_strong(team, made)) return made;
    delete made;  // another thread was first
    return team;
}

void ThreadTeam::end_idle_helpers() {
    std::unique_lock lock(mutex_);
    ended_ = true;
    posted_++;
    wake_.notify_all();
    for (Helper &h : helpers_) {
        if (h.works || !h.thread.joinable()) continue;
        lock.unlock();  // no helper is created any more
        h.thread.join();
        lock.lock();
    }
}

bool ThreadTeam::worth_helpers(double multiply_adds) noexcept {
    ThreadTeam *const team = of_this_process();
    return team && team->worth_waking(multiply_adds);
}

bool ThreadTeam::worth_waking(double multiply_adds) noexcept {
    // Multiply-adds that a core computes in about the ten microseconds that its caller takes to wake a thread.
    constexpr double least_work_to_wake = 1e6;
    if (multiply_adds >= least_work_to_wake || looking_ > 0) return true;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    const double missed = (now - last_missed_.load() < awake ? missed_work_.load() : 0) + multiply_adds;
    last_missed_ = now, missed_work_ = missed;
    return missed >= least_work_to_wake;
}

void ThreadTeam::begin_helpers() {
    const auto begun = [this] { return static_cast<int>(helpers_.size()); };
    const int wanted = std::min(seats_, most_helpers_);
    if (wanted <= begun()) return;  // so that not every call asks the system for cores
    const int helpers = std::min(wanted, usable_cores() - 1);
    if (helpers <= begun()) return;
    const WithoutSignals signals_are_the_programs;
    try {
        while (begun() < helpers) begin_helper();
    } catch (const std::exception &) {  // no thread or no memory: fewer helpers, which changes no result
        most_helpers_ = begun();
    }
}

void ThreadTeam::begin_helper() {
    helpers_.emplace_back();
    try {
        helpers_.back().thread = std::thread([this, number = helpers_.size() - 1] { help(number); });
    } catch (...) {
        helpers_.pop_back();
        throw;
    }
}

void ThreadTeam::open(Job &job) {
    const int wanted = job.seats - 1;
    int woken = 0;
    {
        std::lock_guard lock(mutex_);
        seats_ += wanted;
        if (ended_) return;
        begin_helpers();
        try {
            jobs_.push_back(&job);
        } catch (const std::bad_alloc &) {
            return;
        }
        posted_++;
        woken = std::min(sleeping_, wanted - looking_.load());
    }
    for (int n = 0; n < woken; n++) wake_.notify_one();
}

void ThreadTeam::run(Job &job) {
    open(job);
    job.work(job.argument, 0);
    {
        std::lock_guard lock(mutex_);
        std::erase(jobs_, &job);
        seats_ -= job.seats - 1;
    }
    const auto alone = [&] { return job.helpers == 0; };
    if (wait_awake(alone)) return;
    std::unique_lock lock(mutex_);
    helped_.wait(lock, alone);
}

void ThreadTeam::help(std::size_t number) {
    const DefaultFloatState of_this_thread;  // a thread inherits its creator's state
    std::unique_lock lock(mutex_);
    while (!ended_) {
        if (!jobs_.empty()) {
            Job &job = *jobs_.front();
            const int seat = job.next_seat++;
            if (job.next_seat == job.seats) jobs_.erase(jobs_.begin());
            job.helpers++;
            helpers_[number].works = true;
            lock.unlock();
            job.work(job.argument, seat);
            lock.lock();
            helpers_[number].works = false;
            if (--job.helpers == 0) helped_.notify_all();  // after this the job may be destroyed
            continue;
        }
        const auto posted = [this, seen = posted_.load()] { return posted_ != seen; };
        looking_++;
        lock.unlock();
        const bool more = wait_awake(posted);
        lock.lock();
        looking_--;
        if (more) continue;
        sleeping_++;
        wake_.wait(lock, posted);
        sleeping_--;
    }
}

}  // namespace attune
