// SPDX-License-Identifier: MIT
// Team of threads for the machine's peaks (FMA peak, plain sum), apart from the thread pool under test.
#pragma once
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace bench {

// The caller and threads - 1 workers, which take tasks from one counter. Workers sleep between calls, so that they never
// compete with a timed kernel.
class Team {
public:
    explicit Team(int threads) {
        for (int n = 1; n < threads; n++) workers_.emplace_back([this] { work(); });
    }
    ~Team() {
        stop_ = true;
        call_.fetch_add(1);
        call_.notify_all();
        for (auto &w : workers_) w.join();
    }
    Team(const Team &) = delete;
    Team &operator=(const Team &) = delete;

    int threads() const { return static_cast<int>(workers_.size()) + 1; }

    // Runs task(0) ... task(count - 1); returns when all are done.
    void run(int count, const std::function<void(int)> &task) {
        task_ = &task, count_ = count, next_ = 0;
        working_ = static_cast<int>(workers_.size());
        call_.fetch_add(1);
        call_.notify_all();
        take_tasks();
        while (working_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
    }

private:
    void take_tasks() {
        for (int n; (n = next_.fetch_add(1)) < count_;) (*task_)(n);
    }
    void work() {
        for (unsigned seen = 0;;) {
            call_.wait(seen);
            seen = call_.load();
            if (stop_) return;
            take_tasks();
            working_.fetch_sub(1, std::memory_order_release);
        }
    }

    std::vector<std::thread> workers_;
    const std::function<void(int)> *task_ = nullptr;
    int count_ = 0;
    std::atomic<int> next_ = 0, working_ = 0;
    std::atomic<unsigned> call_ = 0;
    std::atomic<bool> stop_ = false;
};

}  // namespace bench
