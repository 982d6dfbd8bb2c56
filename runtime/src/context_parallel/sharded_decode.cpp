// SPDX-License-Identifier: MIT
// Decoding over caches whose positions are spread over ranks (split-KV over machines): every rank merges the partial results
// of all chunks.
#include "attention/prepared_sdpa.h"
#include "attune/merge.h"
#include "context_parallel/collective.h"
#include "dispatch/op_call.h"
#include "tensors/checks.h"
#include <algorithm>

namespace attune {
namespace {

// A call of one rank, and the memory of partial results: out (B, Hq, Sq, Dv) and lse (B, Hq, Sq) of each chunk.
class Decode {
public:
    Decode(Context &context, const Communicator &c, const RankCall &call, const View &out)
        : context_(context), c_(c), call_(call), out_(out), geometry_(call.plan), channel_(c) {}

    Status run(ParallelReport *report) {
        Reporting reporting(report, channel_);
        if (Status s = agreement_of(ParallelCall::decode, call_).compare(channel_, check()); !s.ok()) return s;
        if (Status s = compute(); !s.ok()) return s;
        if (Status s = reporting.wait_for([&] { return gather(); }); !s.ok()) return s;
        return merge();
    }

private:
    Status check();
    Status compute();
    Status gather();
    Status merge();

    std::size_t bytes_of_part() const { return bytes_of_out_ + bytes_of_lse_; }
    View part_out(char *part) const {
        return dense_view(part, out_.dtype, out_.extent[0], out_.extent[1], out_.extent[2], out_.extent[3]);
    }
    View part_lse(char *part) const {
        return without_column(
            dense_view(part + bytes_of_out_, sum_type(out_.dtype), out_.extent[0], out_.extent[1], out_.extent[2], 1));
    }

    Context &context_;
    const Communicator &c_;
    const RankCall &call_;
    const View out_;
    const Geometry geometry_;
    Channel channel_;
    std::size_t bytes_of_out_ = 0, bytes_of_lse_ = 0;
    char *own_ = nullptr, *all_ = nullptr;
};

Status Decode::check() {
    if (Status s = check_rank_call(call_); !s.ok()) return s;
    const SdpaOptions &o = call_.options;
    for (const NamedView &v : {NamedView{"mask", o.mask}, NamedView{"bias", o.bias}})
        if (v.view.given()) return unsupported(v.name, "is not taken by sharded_decode");
    SdpaOptions checked = o;
    checked.valid_lens = {};
    PreparedSdpa prepared;
    if (Status s = prepared.prepare(state_of(context_), call_.query, call_.key, call_.value, out_, checked); !s.ok()) return s;
    const std::int64_t rows = out_.extent[0] * out_.extent[1] * out_.extent[2];
    const auto aligned = [](std::int64_t bytes) { return static_cast<std::size_t>(ceil_div(bytes, 64) * 64); };
    bytes_of_out_ = aligned(rows * out_.extent[3] * size_of(out_.dtype));
    bytes_of_lse_ = aligned(rows * size_of(sum_type(out_.dtype)));
    own_ = channel_.allocate(bytes_of_part() * geometry_.chunks_of(c_.rank).size());
    all_ = channel_.allocate(bytes_of_part() * static_cast<std::size_t>(geometry_.chunks()));
    return own_ && all_ ? Status() : no_memory();
}

// Partial results of this rank's chunks. Every entry has its own position of query 0 among the keys of a chunk.
Status Decode::compute() {
    const SdpaOptions &o = call_.options;
    const std::int64_t batch = call_.query.extent[0], queries = call_.query.extent[2];
    const bool bends = o.causal != Causal::none || o.window.left >= 0 || o.window.right >= 0 || o.alibi;
    char *part = own_;
    for (const std::int64_t chunk : geometry_.chunks_of(c_.rank)) {
        const std::int64_t first = geometry_.begin(chunk), count = geometry_.count(chunk);
        std::vector<std::int32_t> lens, offsets;
        for (std::int64_t b = 0; b < batch; b++) {
            const std::int64_t held = o.valid_lens.given() ? int_at(o.valid_lens, b) : call_.plan.positions;
            lens.push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(held - first, 0, count)));
            offsets.push_back(static_cast<std::int32_t>(held - queries - first));
        }
        SdpaOptions of_chunk = o;
        of_chunk.sinks = {}, of_chunk.lse = part_lse(part);
        of_chunk.valid_lens = ConstView(lens.data(), {batch});
        if (bends) of_chunk.offsets = ConstView(offsets.data(), {batch});
        if (o.causal != Causal::none) of_chunk.causal = Causal::offset;
        const std::int64_t row = geometry_.row(chunk);
        if (Status s = scaled_dot_product_attention(context_, call_.query, rows_of(call_.key, row, count),
                                                    rows_of(call_.value, row, count), part_out(part), of_chunk);
            !s.ok())
            return s;
        part += bytes_of_part();
    }
    return {};
}

Status Decode::gather() {
    std::vector<std::size_t> bytes;
    for (int rank = 0; rank < c_.size; rank++) bytes.push_back(bytes_of_part() * geometry_.chunks_of(rank).size());
    return channel_.all_gather(own_, all_, bytes);
}

// Parts in the order of their chunks; a sink is one more, before them. Without any, the result is that of no keys.
Status Decode::merge() {
    std::vector<PartialAttention> parts(static_cast<std::size_t>(geometry_.chunks()));
    char *part = all_;
    for (int rank = 0; rank < c_.size; rank++)
        for (const std::int64_t chunk : geometry_.chunks_of(rank)) {
            parts[static_cast<std::size_t>(chunk)] = {part_out(part), part_lse(part)};
            part += bytes_of_part();
        }
    const bool sinks = call_.options.sinks.given();
    if (sinks || parts.empty()) {
        char *none = channel_.allocate(bytes_of_part());
        if (!none) return no_memory();
        fill_zeros(part_out(none));
        fill_lse(part_lse(none), call_.options.sinks);
        parts.insert(parts.begin(), {part_out(none), part_lse(none)});
    }
    return merge_attention(context_, parts.data(), parts.size(), out_, call_.options.lse);
}

}  // namespace

Status sharded_decode(Context &context, const Communicator &communicator, const ParallelPlan &plan, const ConstView &query,
                      const ConstView &key, const ConstView &value, const View &out, const ParallelOptions &options) noexcept {
    const auto body = [&](Context::State &, const ConstView &q, const ConstView &k, const ConstView &v, const View &o,
                          const SdpaOptions &attention) {
        if (Status s = check_group(communicator, plan); !s.ok()) return s;
        const RankCall call{plan, communicator.rank, q, k, v, attention};
        return Decode(context, communicator, call, o).run(options.report);
    };
    return answer(context, body, query, key, value, out, options.attention);
}

}  // namespace attune
