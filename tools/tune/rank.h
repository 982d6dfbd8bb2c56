// SPDX-License-Identifier: MIT
// Ranks of a launcher such as mpirun, and signs of life in a folder that all hosts see: no library of MPI is needed.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

namespace attune::tune {

struct Rank {
    int number = 0, size = 1;
    int on_host = 1;  // ranks of this host, which share its cores
};
// The rank that Open MPI (OMPI_COMM_WORLD_RANK and _SIZE) or MPICH and others (PMI_RANK and PMI_SIZE) give to a process;
// without a launcher, one of one. Throws InputError for numbers that are no rank.
Rank rank_of_environment();

// A folder's file whose content changes every second as long as its process lives. Clocks of hosts are not compared.
class Heartbeat {
public:
    explicit Heartbeat(std::filesystem::path file);
    ~Heartbeat();  // the file stays
    Heartbeat(const Heartbeat &) = delete;
    Heartbeat &operator=(const Heartbeat &) = delete;

    const std::string &name() const { return name_; }  // of this process: random

private:
    void write(long beat);

    std::filesystem::path file_;
    std::string name_;
    std::mutex mutex_;
    std::condition_variable ended_;
    bool end_ = false;
    std::thread thread_;
};

// Another process's heartbeat, as this one sees it.
class Pulse {
public:
    explicit Pulse(std::filesystem::path file);

    // Looks at the file. Whether it has changed since the first look; a file that a process left that was killed never does.
    bool beats();
    double silent_seconds() const;                     // since the last change, or the first look
    const std::string &name() const { return name_; }  // of the process of the last change

private:
    std::filesystem::path file_;
    std::string content_, name_;
    bool beats_ = false;
    std::chrono::steady_clock::time_point changed_;
};

// Writes a file whole: others see all of it or nothing. Throws MachineError.
void publish(const std::filesystem::path &, const std::string &content);

}  // namespace attune::tune
