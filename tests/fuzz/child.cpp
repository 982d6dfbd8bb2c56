// SPDX-License-Identifier: MIT
#include "tests/fuzz/child.h"
#include <cstdlib>
#include <cstring>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace attune_fuzz {
namespace {

constexpr unsigned most_seconds = 120;  // of one case

// Memory that the child writes and the parent reads.
struct Shared {
    std::uint64_t at;
    char journal[1 << 15], why[1 << 14];
};
Shared &shared() {
    static Shared *const memory = [] {
        void *const map = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED) throw std::runtime_error("no shared memory");
        return static_cast<Shared *>(map);
    }();
    return *memory;
}

std::vector<Made> read_journal(const char *text) {
    std::vector<Made> all;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const auto first = line.find('\t'), second = line.find('\t', first + 1);
        if (first == line.npos || second == line.npos) continue;
        const std::string lowest = line.substr(second + 1);
        all.push_back({line.substr(0, first), line.substr(first + 1, second - first - 1), !lowest.empty(),
                       lowest.empty() ? 0 : std::stoll(lowest)});
    }
    return all;
}

// Calls run() in a child; it throws where a case fails.
Outcome in_child(const std::function<void(Shared &)> &run) {
    Shared &s = shared();
    s.at = 0, s.journal[0] = s.why[0] = 0;
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("no child process");
    if (child == 0) {
        Draw::journal = s.journal, Draw::journal_size = sizeof s.journal;
        try {
            run(s);
        } catch (const std::exception &e) {
            std::strncpy(s.why, e.what(), sizeof s.why - 1);
            _exit(1);
        }
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    Outcome outcome{.at = s.at};
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return outcome;
    outcome.failed = true, outcome.why = s.why, outcome.made = read_journal(s.journal);
    if (WIFSIGNALED(status))
        outcome.why = WTERMSIG(status) == SIGALRM ? "no end within " + std::to_string(most_seconds) + " seconds"
                                                  : "signal " + std::to_string(WTERMSIG(status));
    else if (outcome.why.empty())
        outcome.why = "exit " + std::to_string(WEXITSTATUS(status));
    return outcome;
}

Values values_of_made(const std::vector<Made> &made) {
    Values values;
    for (const Made &m : made) values[m.name] = m.value;
    return values;
}

}  // namespace

Outcome run_cases(const Run &run, std::uint64_t first, std::uint64_t end,
                  const std::function<std::uint64_t(std::uint64_t)> &seed_of) {
    return in_child([&](Shared &s) {
        for (s.at = first; s.at < end; s.at++) {
            s.journal[0] = 0;
            alarm(most_seconds);
            Draw draw(seed_of(s.at));
            run(draw);
        }
    });
}
Outcome run_values(const Run &run, const Values &values) {
    return in_child([&](Shared &) {
        alarm(most_seconds);
        Draw draw(values);
        run(draw);
    });
}

Shrunk shrink(const Run &run, const Outcome &failed, int most) {
    Shrunk best{values_of_made(failed.made), failed.why};
    std::vector<Made> made = failed.made;
    const auto fails_with = [&](const Values &values) {
        if (best.runs >= most) return false;
        best.runs++;
        const Outcome outcome = run_values(run, values);
        if (!outcome.failed) return false;
        best.values = values_of_made(outcome.made), best.why = outcome.why, made = outcome.made;
        return true;
    };
    for (bool smaller = true; smaller && best.runs < most;) {
        smaller = false;
        const std::vector<Made> round = made;
        for (const Made &m : round) {
            const auto now = best.values.find(m.name);
            if (now == best.values.end()) continue;
            Values without = best.values;
            without.erase(m.name);
            if (fails_with(without)) {
                smaller = true;
                continue;
            }
            for (std::int64_t step = m.is_number ? (std::stoll(now->second) - m.lowest) / 2 : 0; step > 0; step /= 2)
                while (best.values.count(m.name) && std::stoll(best.values[m.name]) - step > m.lowest) {
                    Values less = best.values;
                    less[m.name] = std::to_string(std::stoll(less[m.name]) - step);
                    if (!fails_with(less)) break;
                    smaller = true;
                }
        }
    }
    return best;
}

}  // namespace attune_fuzz
