// SPDX-License-Identifier: MIT
// Choices of a random case: a family asks for each by name, and so a case is a list of names and values, which can be printed,
// read and made simpler without knowledge of the family. A name that a list lacks has its simplest value.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace attune_fuzz {

// Values by name, such as {"keys", "17"}.
using Values = std::map<std::string, std::string>;
std::string text_of(const Values &);
Values values_of(const std::string &text);

class Draw {
public:
    // Random choices of a seed, or those of a list.
    explicit Draw(std::uint64_t seed) : random_(seed), replays_(false) {}
    explicit Draw(Values given) : given_(std::move(given)), replays_(true) {}

    // A number in [low, high], the simplest is `low`: often around the sizes of tiles and KV blocks, small ones more often. An
    // empty range is `low`.
    std::int64_t number(const std::string &name, std::int64_t low, std::int64_t high);
    // The index of a label; the first is the simplest. One in `rare` draws is another than the first.
    std::size_t one_of(const std::string &name, const std::vector<std::string> &labels, unsigned rare = 1);
    bool flag(const std::string &name, unsigned rare = 2) { return one_of(name, {"no", "yes"}, rare) == 1; }
    // Seed of random data.
    unsigned seed(const std::string &name = "seed") { return unsigned(number(name, 1, 1000000)) + seed_shift; }

    // The choices so far, to be made again.
    const Values &made() const { return made_; }
    static inline unsigned seed_shift = 0;  // of other data for the same case
    // Choices other than the simplest, a line each, "name TAB value TAB lowest number, or nothing for a label", are appended to
    // this text as they are made, up to `size` bytes: it is memory that outlives a process that crashes.
    static inline char *journal = nullptr;
    static inline std::size_t journal_size = 0;

private:
    std::mt19937_64 random_;
    Values given_, made_;
    bool replays_;
    const std::string *given(const std::string &name) const;
    void note(const std::string &name, const std::string &value, const std::string &lowest);
};

}  // namespace attune_fuzz
