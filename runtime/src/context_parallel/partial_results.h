// SPDX-License-Identifier: MIT
// Partial results of few queries over the chunks of all ranks: computed by the owner of a chunk, known to all ranks, merged in
// the order of the chunks.
#pragma once
#include "context_parallel/chunk_rows.h"
#include "context_parallel/collective.h"

namespace attune {

class PartialResults {
public:
    // out (B, Hq, Sq, Dv).
    PartialResults(Channel &channel, const Geometry &geometry, const View &out)
        : channel_(channel), geometry_(geometry), out_(out) {}

    Status begin();
    // out (B, Hq, Sq, Dv) and lse (B, Hq, Sq) of this rank's n-th chunk, to be written.
    View own_out(std::size_t n) const { return part_out(own_ + n * bytes()); }
    View own_lse(std::size_t n) const { return part_lse(own_ + n * bytes()); }
    Status gather();
    // lse may be not given. A sink is one more part, before all others.
    Status merge(Context &, const ConstView &sinks, const View &lse);

private:
    std::size_t bytes() const { return bytes_of_out_ + bytes_of_lse_; }
    View part_out(char *part) const;
    View part_lse(char *part) const;

    Channel &channel_;
    const Geometry &geometry_;
    const View out_;
    std::size_t bytes_of_out_ = 0, bytes_of_lse_ = 0;
    char *own_ = nullptr, *all_ = nullptr;
};

}  // namespace attune
