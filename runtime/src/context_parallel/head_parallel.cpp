// SPDX-License-Identifier: MIT
// Head-parallel attention (DeepSpeed Ulysses): an all-to-all gives each rank all positions of some heads, another brings the
// results back.
#include "attention/dropout_threshold.h"
#include "context_parallel/collective.h"
#include "tensors/checks.h"
#include <numeric>

namespace attune {
namespace {

// Tensors (B, H, S, D) of this rank's positions and all heads, and their dense counterparts of all positions and the heads of
// one rank.
class HeadExchange {
public:
    HeadExchange(Channel &channel, const Geometry &geometry, const ParallelPlan &plan)
        : channel_(channel), geometry_(geometry), plan_(plan), ranks_(channel.communicator().size) {}

    // From tensors of this rank's positions to dense ones of its heads, or back.
    Status to_heads(const std::vector<ConstView> &rows, std::vector<View> &all_positions);
    Status to_positions(const std::vector<ConstView> &all_positions, const std::vector<View> &rows);

private:
    // Memory and bytes of the messages to and from each rank.
    struct Messages {
        std::vector<std::size_t> sent, received;
        char *send = nullptr, *receive = nullptr;
    };
    // `shares`: in how many parts the heads of the tensors are cut, one for a rank.
    Status allocate(const std::vector<ConstView> &tensors, std::int64_t shares, bool to_heads, Messages &);

    Channel &channel_;
    const Geometry &geometry_;
    const ParallelPlan &plan_;
    const int ranks_;
};

template<typename Data> BasicView<Data> heads_of(const BasicView<Data> &v, int rank, int ranks) {
    const std::int64_t share = v.extent[1] / ranks;
    return part_of(v, 1, rank * share, share);
}
std::size_t bytes_of_rows(const ConstView &v, std::int64_t heads, std::int64_t rows) {
    return static_cast<std::size_t>(v.extent[0] * heads * rows * v.extent[3] * size_of(v.dtype));
}

Status HeadExchange::allocate(const std::vector<ConstView> &tensors, std::int64_t shares, bool to_heads, Messages &m) {
    const std::int64_t own = plan_.positions_of(channel_.communicator().rank);
    for (int rank = 0; rank < ranks_; rank++) {
        std::size_t by_heads = 0, by_positions = 0;  // this rank's positions of a rank's heads, and the reverse
        for (const ConstView &v : tensors) {
            by_heads += bytes_of_rows(v, v.extent[1] / shares, own);
            by_positions += bytes_of_rows(v, v.extent[1] / shares, plan_.positions_of(rank));
        }
        m.sent.push_back(to_heads ? by_heads : by_positions), m.received.push_back(to_heads ? by_positions : by_heads);
    }
    m.send = channel_.allocate(std::accumulate(m.sent.begin(), m.sent.end(), std::size_t{0}));
    m.receive = channel_.allocate(std::accumulate(m.received.begin(), m.received.end(), std::size_t{0}));
    return m.send && m.receive ? Status() : no_memory();
}

Status HeadExchange::to_heads(const std::vector<ConstView> &rows, std::vector<View> &all_positions) {
    const std::int64_t own = plan_.positions_of(channel_.communicator().rank);
    Messages m;
    if (Status s = allocate(rows, ranks_, true, m); !s.ok()) return s;
    char *to = m.send;
    for (int rank = 0; rank < ranks_; rank++)
        for (const ConstView &v : rows) {
            const ConstView part = heads_of(v, rank, ranks_);
            copy_rows(part, dense_view(to, v.dtype, v.extent[0], part.extent[1], own, v.extent[3]));
            to += bytes_of_rows(v, part.extent[1], own);
        }
    if (Status s = channel_.all_to_all(m.send, m.sent, m.receive, m.received); !s.ok()) return s;
    all_positions.clear();
    for (const ConstView &v : rows) {
        const std::int64_t heads = v.extent[1] / ranks_;
        char *memory = channel_.allocate(bytes_of_rows(v, heads, plan_.positions));
        if (!memory) return no_memory();
        all_positions.push_back(dense_view(memory, v.dtype, v.extent[0], heads, plan_.positions, v.extent[3]));
    }
    char *from = m.receive;
    for (int rank = 0; rank < ranks_; rank++)
        for (const View &all : all_positions) {
            const std::int64_t count = plan_.positions_of(rank);
            const View part = dense_view(from, all.dtype, all.extent[0], all.extent[1], count, all.extent[3]);
            for (const std::int64_t c : geometry_.chunks_of(rank))
                copy_rows(rows_of(part, geometry_.row(c), geometry_.count(c)),
                          rows_of(all, geometry_.begin(c), geometry_.count(c)));
            from += bytes_of_rows(all, all.extent[1], count);
        }
    return {};
}

Status HeadExchange::to_positions(const std::vector<ConstView> &all_positions, const std::vector<View> &rows) {
    const std::int64_t own = plan_.positions_of(channel_.communicator().rank);
    Messages m;
    if (Status s = allocate(all_positions, 1, false, m); !s.ok()) return s;
    char *to = m.send;
    for (int rank = 0; rank < ranks_; rank++)
        for (const ConstView &v : all_positions) {
            const std::int64_t count = plan_.positions_of(rank);
            const View part = dense_view(to, v.dtype, v.extent[0], v.extent[1], count, v.extent[3]);
            for (const std::int64_t c : geometry_.chunks_of(rank))
                copy_rows(rows_of(v, geometry_.begin(c), geometry_.count(c)),
                          rows_of(part, geometry_.row(c), geometry_.count(c)));
            to += bytes_of_rows(v, v.extent[1], count);
        }
    if (Status s = channel_.all_to_all(m.send, m.sent, m.receive, m.received); !s.ok()) return s;
    char *from = m.receive;
    for (int rank = 0; rank < ranks_; rank++)
        for (std::size_t n = 0; n < rows.size(); n++) {
            const View part = heads_of(rows[n], rank, ranks_);
            copy_rows(dense_view(from, part.dtype, part.extent[0], part.extent[1], own, part.extent[3]), part);
            from += bytes_of_rows(all_positions[n], all_positions[n].extent[1], own);
        }
    return {};
}

Status check(Context::State &context, const RankCall &call, const View &out, int ranks) {
    if (Status s = check_rank_forward(context, call, out); !s.ok()) return s;
    const SdpaOptions &o = call.options;
    for (const NamedView &v : {NamedView{"mask", o.mask}, NamedView{"bias", o.bias}, NamedView{"alibi_slopes", o.alibi_slopes}})
        if (v.view.given()) return unsupported(v.name, "is not taken by head_parallel_attention");
    if (o.alibi) return unsupported("alibi", "is not taken by head_parallel_attention");
    if (call.key.extent[1] % ranks != 0)
        return invalid("key", "has " + text(call.key.extent[1]) + " heads, which " + text(ranks) + " ranks do not divide");
    return {};
}

}  // namespace

Status head_parallel_forward(Context &context, const Communicator &c, const RankCall &call, const View &out,
                             ParallelReport *report) {
    Channel channel(c);
    Reporting reporting(report, channel);
    const Status own = check(state_of(context), call, out, c.size);
    if (Status s = agreement_of(ParallelCall::heads, call).compare(channel, own); !s.ok()) return s;
    const Geometry geometry(call.plan);
    HeadExchange exchange(channel, geometry, call.plan);
    std::vector<View> all;
    if (Status s = reporting.wait_for([&] { return exchange.to_heads({call.query, call.key, call.value}, all); }); !s.ok())
        return s;

    // As one rank that holds all positions.
    ParallelPlan one = call.plan;
    one.of_rank = {{}};
    if (one.positions > 0) one.of_rank[0] = {{0, one.positions}};
    const Geometry geometry_of_one(one);
    const std::int64_t b = all[0].extent[0], heads = all[0].extent[1];
    const DType sum = sum_type(out.dtype);
    char *memory = channel.allocate(static_cast<std::size_t>(b * heads * one.positions * out.extent[3] * size_of(out.dtype))),
         *memory_of_lse = channel.allocate(static_cast<std::size_t>(b * heads * one.positions * size_of(sum)));
    if (!memory || !memory_of_lse) return no_memory();
    const View all_out = dense_view(memory, out.dtype, b, heads, one.positions, out.extent[3]);
    const View all_lse = dense_view(memory_of_lse, sum, b, heads, one.positions, 1);
    RankCall of_heads{one, 0, all[0], all[1], all[2], call.options};
    std::optional<UserCall> user;
    if (call.user) {
        user = *call.user;
        user->origin.head = c.rank * heads, user->origin.key_head = c.rank * all[1].extent[1];
        user->origin.heads = call.query.extent[1];
        of_heads.user = &*user;
    }
    of_heads.options.lse = without_column(all_lse);
    Dropout &dropout = of_heads.options.dropout;
    dropout.heads = counted_heads(dropout, call.query.extent[1]);
    dropout.first_head += static_cast<std::uint32_t>(c.rank * heads);
    if (call.options.sinks.given()) of_heads.options.sinks = part_of(call.options.sinks, 0, c.rank * heads, heads);
    ChunkAttention attention(context, geometry_of_one, of_heads, all_out);
    if (Status s = attention.begin(); !s.ok()) return s;
    for (std::int64_t chunk = 0; chunk < geometry_of_one.chunks(); chunk++) {
        const std::int64_t first = geometry_of_one.begin(chunk), count = geometry_of_one.count(chunk);
        const ConstView key = rows_of(all[1], first, count), value = rows_of(all[2], first, count);
        if (Status s = attention.add(chunk, key, value); !s.ok()) return s;
    }
    if (Status s = attention.end(); !s.ok()) return s;

    View lse = call.options.lse;
    if (!lse.given()) {
        const std::int64_t rows = out.extent[2], all_heads = out.extent[1];
        char *unwanted = channel.allocate(static_cast<std::size_t>(b * all_heads * rows * size_of(sum)));
        if (!unwanted) return no_memory();
        lse = without_column(dense_view(unwanted, sum, b, all_heads, rows, 1));
    }
    return reporting.wait_for([&] { return exchange.to_positions({all_out, all_lse}, {out, with_column(lse)}); });
}

Status head_parallel_attention(Context &context, const Communicator &communicator, const ParallelPlan &plan,
                               const ConstView &query, const ConstView &key, const ConstView &value, const View &out,
                               const ParallelOptions &options) noexcept {
    return answer_forward(context, communicator, plan, query, key, value, out, options, head_parallel_forward);
}

}  // namespace attune
