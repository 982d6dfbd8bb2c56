// SPDX-License-Identifier: MIT
// Gathered attention: a rank receives all keys and values that its queries may see, then it computes.
#include "context_parallel/collective.h"
#include "tensors/checks.h"
#include <algorithm>

namespace attune {
namespace {

// Chunks of keys of all ranks, in one memory.
class GatheredKeys {
public:
    GatheredKeys(Channel &channel, const Geometry &geometry, const ChunkMessage &messages)
        : channel_(channel), geometry_(geometry), messages_(messages), at_(static_cast<std::size_t>(geometry.chunks())) {}
    ~GatheredKeys() {
        for (Channel::Request &r : requests_) channel_.abandon(r);
    }
    GatheredKeys(const GatheredKeys &) = delete;

    // Each chunk goes from its owner to the ranks that need it. Requests of two ranks begin in the order of the chunks.
    Status gather() {
        const int own = channel_.communicator().rank;
        for (std::int64_t c = 0; c < geometry_.chunks(); c++) {
            const std::vector<int> needed = geometry_.needed_by(c, true);
            const bool here = geometry_.owner(c) == own, wanted = std::find(needed.begin(), needed.end(), own) != needed.end();
            if (!(here ? !needed.empty() : wanted)) continue;
            const std::size_t bytes = messages_.bytes(c);
            char *memory = channel_.allocate(bytes);
            if (!memory) return no_memory();
            at_[static_cast<std::size_t>(c)] = memory;
            if (here) {
                messages_.pack(c, memory);
                for (const int rank : needed)
                    if (Status s = start(memory, bytes, rank, -1); !s.ok()) return s;
            } else if (Status s = start(memory, bytes, -1, geometry_.owner(c)); !s.ok()) {
                return s;
            }
        }
        for (Channel::Request &r : requests_)
            if (Status s = channel_.wait(r); !s.ok()) return s;
        return {};
    }
    std::vector<ConstView> rows(std::int64_t chunk) const {
        if (geometry_.owner(chunk) == channel_.communicator().rank) return messages_.local(chunk);
        return messages_.unpack(chunk, at_[static_cast<std::size_t>(chunk)]);
    }

private:
    Status start(char *memory, std::size_t bytes, int to, int from) {
        requests_.emplace_back();
        return channel_.start(to < 0 ? nullptr : memory, to < 0 ? 0 : bytes, to, from < 0 ? nullptr : memory,
                              from < 0 ? 0 : bytes, from, requests_.back());
    }

    Channel &channel_;
    const Geometry &geometry_;
    const ChunkMessage &messages_;
    std::vector<char *> at_;
    std::vector<Channel::Request> requests_;
};

}  // namespace

Status gathered_forward(Context &context, const Communicator &c, const RankCall &call, const View &out,
                        ParallelReport *report) {
    Channel channel(c);
    Reporting reporting(report, channel);
    const Geometry geometry(call.plan);
    Status own = check_rank_forward(state_of(context), call, out);
    ChunkAttention attention(context, geometry, call, out);
    if (own.ok()) own = attention.begin();
    if (Status s = agreement_of(ParallelCall::gathered, call).compare(channel, own); !s.ok()) return s;
    const ChunkMessage messages(geometry, {call.key, call.value});
    GatheredKeys keys(channel, geometry, messages);
    if (Status s = reporting.wait_for([&] { return keys.gather(); }); !s.ok()) return s;
    for (std::int64_t chunk = 0; chunk < geometry.chunks(); chunk++) {
        if (!geometry.needs(c.rank, chunk, true)) continue;
        const std::vector<ConstView> rows = keys.rows(chunk);
        if (Status s = attention.add(chunk, rows[0], rows[1]); !s.ok()) return s;
    }
    return attention.end();
}

Status gathered_attention(Context &context, const Communicator &communicator, const ParallelPlan &plan, const ConstView &query,
                          const ConstView &key, const ConstView &value, const View &out,
                          const ParallelOptions &options) noexcept {
    return answer_forward(context, communicator, plan, query, key, value, out, options, gathered_forward);
}

}  // namespace attune
