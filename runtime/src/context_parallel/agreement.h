// SPDX-License-Identifier: MIT
// Agreement of all ranks on a call: sizes, options and the order of calls are compared before anything is sent, so that a
// disagreement is an error on every rank, and no rank waits for a message that nobody sends.
#pragma once
#include "attune/context_parallel.h"
#include "context_parallel/channel.h"
#include "user_attention/user_call.h"
#include <string_view>
#include <vector>

namespace attune {

// Which function a rank calls.
enum class ParallelCall : std::int64_t { ring = 1, backward, gathered, heads, decode, paged_decode };

class Agreement {
public:
    explicit Agreement(ParallelCall call) : call_(call) {}
    void add(const char *name, std::int64_t number);
    void add(const char *name, double number);
    void add(const char *name, std::string_view characters);
    void add(const char *name, const ConstView &ints);  // i32 (n), or not given
    void add(const ParallelPlan &);
    void add(const SdpaOptions &);
    void add(const UserCall *);

    // Compares with all ranks. `own`: this rank's refusal, if its arguments are wrong.
    Status compare(Channel &, const Status &own) const;

private:
    void add_table(const char *name, const ConstView &table);
    struct Field {
        const char *name;
        std::int64_t number;
        bool shown;  // the number says something to a reader
    };
    const ParallelCall call_;
    std::vector<Field> fields_;
};

}  // namespace attune
