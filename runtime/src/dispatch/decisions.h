// SPDX-License-Identifier: MIT
// The latest decisions of dispatch in a thread, by the sizes of the call: programs repeat few shapes, and predicting the times
// of all variants takes as long as a small kernel.
#pragma once
#include "attune/status.h"
#include "dispatch/ops.h"
#include "dispatch/variant_table.h"
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace attune {

// Choice is trivially copyable; Problem has same_sizes(a, b) and mixed_sizes(p).
template<typename Problem, typename Choice> class Decisions {
public:
    // The choice for an op and a problem, by decide(choice) where it is not among the latest; decide() answers with a Status.
    template<typename Decide> Status get(const Op &op, const Problem &problem, const Decide &decide, Choice &choice) {
        const int generation = variant_generation();
        const void *const id = op.id == OpId::of_user ? static_cast<const void *>(op.name.data()) : op.variants.data();
        Entry &entry = entries_[mixed_sizes(problem) % entries_.size()];
        if (entry.op != id || entry.generation != generation || !same_sizes(entry.problem, problem)) {
            Choice decided;
            if (Status s = decide(decided); !s.ok()) return s;
            entry = {id, generation, problem, decided};
        }
        choice = entry.choice;
        return {};
    }

private:
    struct Entry {
        const void *op = nullptr;
        int generation = -1;
        Problem problem;
        Choice choice;
    };
    std::array<Entry, 64> entries_;
};

inline std::size_t mixed(std::initializer_list<std::int64_t> sizes) {
    std::uint64_t all = 0;
    for (const std::int64_t size : sizes) all = (all ^ static_cast<std::uint64_t>(size)) * 0x9e3779b97f4a7c15u;
    return static_cast<std::size_t>(all >> 32);
}

}  // namespace attune
