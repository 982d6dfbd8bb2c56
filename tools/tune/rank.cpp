// SPDX-License-Identifier: MIT
#include "rank.h"
#include "hash.h"
#include "tools/error.h"
#include "tools/text.h"
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>

namespace attune::tune {
namespace fs = std::filesystem;
namespace {

// The number of an environment variable; `otherwise` where it is not set.
int number_of_variable(const char *name, int otherwise, int least) {
    const char *text = std::getenv(name);
    if (!text || !*text) return otherwise;
    const std::optional<std::int64_t> number = program::integer_in(text);
    if (!number || *number < least || *number > 1000000)
        throw program::InputError(name, "must be a number from " + std::to_string(least) + ", got " + text);
    return static_cast<int>(*number);
}

}  // namespace

Rank rank_of_environment() {
    struct Launcher {
        const char *number, *size, *on_host;
    };
    for (const Launcher &l : {Launcher{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                              {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"}}) {
        if (!std::getenv(l.number) || !std::getenv(l.size)) continue;
        const Rank rank{number_of_variable(l.number, 0, 0), number_of_variable(l.size, 1, 1),
                        number_of_variable(l.on_host, 1, 1)};
        if (rank.number >= rank.size)
            throw program::InputError(l.number, "must be below " + std::string(l.size) + ", " + std::to_string(rank.size) +
                                                    ", got " + std::to_string(rank.number));
        return rank;
    }
    return {};
}

void publish(const fs::path &file, const std::string &content) {
    const fs::path whole = file.string() + ".new";
    std::ofstream out(whole, std::ios::binary | std::ios::trunc);
    out << content;
    out.close();
    std::error_code error;
    if (out) fs::rename(whole, file, error);
    if (!out || error) throw program::MachineError(file, "cannot be written");
}

Heartbeat::Heartbeat(fs::path file) : file_(std::move(file)) {
    std::random_device random;
    name_ = hex(std::uint64_t(random()) << 32 | random());
    write(0);
    thread_ = std::thread([this] {
        std::unique_lock<std::mutex> lock(mutex_);
        for (long beat = 1; !ended_.wait_for(lock, std::chrono::seconds(1), [this] { return end_; }); beat++) {
            try {
                write(beat);
            } catch (const std::exception &error) {  // the others will hear nothing, and say so
                if (fs::exists(file_.parent_path())) std::fprintf(stderr, "attune: %s\n", error.what());  // else the run ended
                return;
            }
        }
    });
}

Heartbeat::~Heartbeat() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        end_ = true;
    }
    ended_.notify_all();
    thread_.join();
}

void Heartbeat::write(long beat) { publish(file_, name_ + " " + std::to_string(beat)); }

Pulse::Pulse(fs::path file) : file_(std::move(file)), content_(bytes_of(file_)), changed_(std::chrono::steady_clock::now()) {}

bool Pulse::beats() {
    std::string now = bytes_of(file_);
    if (now.empty() || now == content_) return beats_;
    content_ = std::move(now);
    name_ = content_.substr(0, content_.find(' '));
    changed_ = std::chrono::steady_clock::now();
    return beats_ = true;
}

double Pulse::silent_seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - changed_).count();
}

}  // namespace attune::tune
