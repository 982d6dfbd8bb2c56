// SPDX-License-Identifier: MIT
// Gradients of ring attention, in two passes: chunks of keys circulate past queries, then chunks of queries past keys. So each
// sum is in the order of the chunks, whichever rank holds them; an accumulator that travels with its chunk, as in Ring
// Attention's backward, adds in the order of the ranks.
#include "attention/prepared_sdpa.h"
#include "context_parallel/chunk_gradients.h"
#include "context_parallel/collective.h"
#include "dispatch/op_call.h"
#include "tensors/checks.h"
#include "user_attention/user_gradients.h"
#include <algorithm>
#include <cstring>

namespace attune {
namespace {

class RingBackward {
public:
    RingBackward(Context &context, const Communicator &c, const RankCall &call, const SdpaForward &forward,
                 const SdpaGradients &gradients, std::span<const View> grad_captures)
        : context_(context), c_(c), call_(call), forward_(forward), gradients_(gradients), geometry_(call.plan), channel_(c),
          of_query_(geometry_, call.rank, call.query, gradients.query, call.plan.chunk),
          of_key_(geometry_, call.rank, call.key, gradients.key, call.plan.chunk),
          of_value_(geometry_, call.rank, call.value, gradients.value, call.plan.chunk),
          of_slopes_(geometry_, call.rank, gradients.alibi_slopes) {
        for (const View &gradient : grad_captures) of_captures_.emplace_back(geometry_, call.rank, gradient);
    }

    Status run(ParallelReport *report);

private:
    Status check();
    Status begin();
    Status all_here();
    Status of_queries(Reporting &);
    Status of_keys(Reporting &);
    Status of_sinks(Reporting &);
    Status check_gradients() const;
    Status sum_over_ranks(Reporting &, const char *own, const View &to);
    Status check_bias_gradient() const;
    View bias_rows(std::int64_t chunk) const;
    TableSum *slopes() { return of_slopes_.wanted() ? &of_slopes_ : nullptr; }
    bool wants_captures() const {
        return std::any_of(of_captures_.begin(), of_captures_.end(), [](const TableSum &sum) { return sum.wanted(); });
    }
    bool wants_queries() const {
        return gradients_.query.given() || gradients_.bias.given() || of_slopes_.wanted() || wants_captures();
    }
    bool wants_keys() const { return gradients_.key.given() || gradients_.value.given(); }
    QueryRows own_queries(std::int64_t chunk) const;
    KeyRows own_keys(std::int64_t chunk) const;
    std::vector<ConstView> query_tensors() const;
    QueryRows query_rows(const std::vector<ConstView> &) const;

    Context &context_;
    const Communicator &c_;
    const RankCall &call_;
    const SdpaForward &forward_;
    const SdpaGradients &gradients_;
    const Geometry geometry_;
    Channel channel_;
    GradientSum of_query_, of_key_, of_value_;
    TableSum of_slopes_;
    std::deque<TableSum> of_captures_;  // one for each capture of a user's attention
};

Status RingBackward::check() {
    const SdpaOptions &o = call_.options;
    if (o.lse.given()) return invalid("lse", "is an input of the backward: give it as forward.lse");
    if (gradients_.score_weight.given())
        return unsupported("gradients.score_weight", "is not computed with context parallelism");
    if (!forward_.out.given()) return invalid("forward.out", "must be given");
    // The variant named is one of the backward: the forward's checks leave it out.
    RankCall of_forward = call_;
    of_forward.options.variant = {};
    if (Status s = check_rank_call(of_forward); !s.ok()) return s;
    if (Status s = check_queries(call_); !s.ok()) return s;
    if (Status s = check_bias_gradient(); !s.ok()) return s;
    if (Status s = check_gradients(); !s.ok()) return s;
    const NamedView inputs[] = {{"mask", o.mask}, {"bias", o.bias}, {"valid_lens", o.valid_lens}};
    std::vector<NamedView> outputs = {{"gradients.query", gradients_.query},
                                      {"gradients.key", gradients_.key},
                                      {"gradients.value", gradients_.value},
                                      {"gradients.bias", gradients_.bias},
                                      {"gradients.alibi_slopes", gradients_.alibi_slopes},
                                      {"gradients.sinks", gradients_.sinks}};
    for (std::size_t n = 0; n < of_captures_.size(); n++)
        outputs.push_back({call_.user->attention->captures[n].name, of_captures_[n].gradient()});
    if (Status s = check_overlaps(inputs, outputs); !s.ok()) return s;
    if (Status s = check_chunk_kernels(state_of(context_), call_.query.dtype, true); !s.ok()) return s;
    return begin();
}

// Checks as a call of this rank's tensors, which nothing computes.
Status RingBackward::check_gradients() const {
    SdpaOptions options = call_.options;
    options.valid_lens = options.mask = options.bias = {};
    SdpaGradients gradients = gradients_;
    if (!call_.user) {
        gradients.bias = {};
        PreparedSdpaBackward prepared;
        return prepared.prepare(state_of(context_), call_.query, call_.key, call_.value, forward_, gradients, options);
    }
    std::vector<View> captures;
    for (const TableSum &sum : of_captures_) captures.push_back(sum.gradient());
    BackwardCall call;
    BackwardChoice choice;
    if (Status s = prepare_user_gradients(
            state_of(context_), {*call_.user, call_.query, call_.key, call_.value, forward_, gradients, captures, options},
            call, choice);
        !s.ok())
        return s;
    // Kernels of the forward read the same elements. The variant named is one of the backward.
    RankCall of_forward = call_;
    of_forward.options.variant = {};
    return check_captures_of_pairs(state_of(context_), of_forward, writable(forward_.out));
}

// An element of the gradient for each pair of a query and a key of this rank's rows: each call of a pair of chunks writes its
// own. A bias that all queries, or all keys, share would need a sum over ranks.
Status RingBackward::check_bias_gradient() const {
    const View &gradient = gradients_.bias;
    if (!gradient.given()) return {};
    if (Status s = check_gradient("gradients.bias", gradient, "bias", call_.options.bias, call_.query.dtype); !s.ok()) return s;
    if (Status s = check_dense("gradients.bias", gradient); !s.ok()) return s;
    const View as4 = as_rank4(gradient, false);
    if (as4.extent[2] != call_.query.extent[2] || as4.extent[3] != call_.plan.positions)
        return unsupported("gradients.bias", "of a bias that queries or keys share is not computed with context parallelism");
    return {};
}

View RingBackward::bias_rows(std::int64_t chunk) const {
    if (!gradients_.bias.given()) return {};
    return rows_of(as_rank4(gradients_.bias, false), geometry_.row(chunk), geometry_.count(chunk));
}

Status RingBackward::begin() {
    for (GradientSum *sum : {&of_query_, &of_key_, &of_value_})
        if (Status s = sum->begin(state_of(context_)); !s.ok()) return s;
    for (TableSum &sum : of_captures_)
        if (Status s = sum.begin(state_of(context_)); !s.ok()) return s;
    return of_slopes_.begin(state_of(context_));
}

// Mask or bias with a row for each query: the shape of a rank with one position does not say whether a row is that of all.
ConstView with_rows(const ConstView &table, std::int64_t rows) {
    ConstView v = table_of(table);
    if (v.given() && v.extent[2] == 1) v.extent[2] = rows, v.stride[2] = 0;
    return v;
}

// query, out, grad_out, lse, and grad_lse, mask and bias where given.
std::vector<ConstView> RingBackward::query_tensors() const {
    std::vector<ConstView> all = {call_.query, forward_.out, forward_.grad_out, with_column(forward_.lse)};
    if (forward_.grad_lse.given()) all.push_back(with_column(forward_.grad_lse));
    for (const ConstView &table : {call_.options.mask, call_.options.bias})
        if (table.given()) all.push_back(with_rows(table, call_.query.extent[2]));
    return all;
}

QueryRows RingBackward::query_rows(const std::vector<ConstView> &rows) const {
    QueryRows q{rows[0], rows[1], rows[2], rows[3], {}, {}, {}};
    std::size_t next = 4;
    if (forward_.grad_lse.given()) q.grad_lse = rows[next++];
    if (call_.options.mask.given()) q.mask = rows[next++];
    if (call_.options.bias.given()) q.bias = rows[next++];
    return q;
}

QueryRows RingBackward::own_queries(std::int64_t chunk) const {
    return query_rows(ChunkMessage(geometry_, query_tensors()).local(chunk));
}
KeyRows RingBackward::own_keys(std::int64_t chunk) const {
    return {rows_of(call_.key, geometry_.row(chunk), geometry_.count(chunk)),
            rows_of(call_.value, geometry_.row(chunk), geometry_.count(chunk))};
}

// Whether pairs write all rows of a chunk: they do but where documents cut it.
bool is_whole(const ParallelPlan &plan) { return plan.documents.empty(); }

// One rank: each pair of chunks once, for all gradients.
Status RingBackward::all_here() {
    const std::vector<std::int64_t> &own = geometry_.chunks_of(c_.rank);
    const bool whole = is_whole(call_.plan);
    for (std::size_t k = 0; k < own.size(); k++)
        for (std::size_t q = 0; q < own.size(); q++) {
            if (!geometry_.sees(own[q], own[k])) continue;
            const PairGradients parts{of_query_.part(q, whole),
                                      of_key_.part(k, whole),
                                      of_value_.part(k, whole),
                                      bias_rows(own[q]),
                                      slopes(),
                                      &of_captures_,
                                      q};
            if (Status s =
                    pair_gradients(context_, geometry_, call_, own[q], own_queries(own[q]), own[k], own_keys(own[k]), parts);
                !s.ok())
                return s;
            if (Status s = of_query_.add(q); !s.ok()) return s;
            if (Status s = of_key_.add(k); !s.ok()) return s;
            if (Status s = of_value_.add(k); !s.ok()) return s;
        }
    return {};
}

Status RingBackward::of_queries(Reporting &reporting) {
    const std::vector<std::int64_t> &own = geometry_.chunks_of(c_.rank);
    const auto add = [&](std::int64_t k, const std::vector<ConstView> &rows) -> Status {
        for (std::size_t q = 0; q < own.size(); q++) {
            if (!geometry_.sees(own[q], k)) continue;
            const PairGradients parts{
                of_query_.part(q, is_whole(call_.plan)), {}, {}, bias_rows(own[q]), slopes(), &of_captures_, q};
            if (Status s =
                    pair_gradients(context_, geometry_, call_, own[q], own_queries(own[q]), k, {rows[0], rows[1]}, parts);
                !s.ok())
                return s;
            if (Status s = of_query_.add(q); !s.ok()) return s;
        }
        return {};
    };
    return circulate(channel_, geometry_, ChunkMessage(geometry_, {call_.key, call_.value}), true, reporting, add);
}

Status RingBackward::of_keys(Reporting &reporting) {
    const std::vector<std::int64_t> &own = geometry_.chunks_of(c_.rank);
    const bool whole = is_whole(call_.plan);
    const auto add = [&](std::int64_t q, const std::vector<ConstView> &tensors) -> Status {
        const QueryRows rows = query_rows(tensors);
        for (std::size_t k = 0; k < own.size(); k++) {
            if (!geometry_.sees(q, own[k])) continue;
            const PairGradients parts{{}, of_key_.part(k, whole), of_value_.part(k, whole)};
            if (Status s = pair_gradients(context_, geometry_, call_, q, rows, own[k], own_keys(own[k]), parts); !s.ok())
                return s;
            if (Status s = of_key_.add(k); !s.ok()) return s;
            if (Status s = of_value_.add(k); !s.ok()) return s;
        }
        return {};
    };
    return circulate(channel_, geometry_, ChunkMessage(geometry_, query_tensors()), false, reporting, add);
}

// Sums over the queries of each chunk, then over the chunks of all ranks.
Status RingBackward::of_sinks(Reporting &reporting) {
    const std::int64_t heads = call_.query.extent[1];
    const auto bytes_of_chunk = static_cast<std::size_t>(heads) * sizeof(float);
    char *own = channel_.allocate(bytes_of_chunk * geometry_.chunks_of(c_.rank).size());
    if (!own) return no_memory();
    SdpaOptions options;
    options.sinks = call_.options.sinks, options.scale = call_.options.scale, options.score = call_.options.score;
    char *part = own;
    for (const std::int64_t chunk : geometry_.chunks_of(c_.rank)) {
        const QueryRows q = own_queries(chunk);
        // The gradient of sinks reads no key.
        const KeyRows k = own_keys(chunk);
        SdpaForward forward{q.out, without_column(q.lse), q.grad_out};
        if (q.grad_lse.given()) forward.grad_lse = without_column(q.grad_lse);
        SdpaGradients gradients;
        gradients.sinks = View(reinterpret_cast<float *>(part), {heads});
        if (Status s = scaled_dot_product_attention_backward(context_, q.query, rows_of(k.key, 0, 1), rows_of(k.value, 0, 1),
                                                             forward, gradients, options);
            !s.ok())
            return s;
        part += bytes_of_chunk;
    }
    return sum_over_ranks(reporting, own, gradients_.sinks);
}

// The sum of dense parts of a gradient, one for each chunk of each rank, in the order of the chunks: the same on every rank.
// `own` holds the parts of this rank's chunks.
Status RingBackward::sum_over_ranks(Reporting &reporting, const char *own, const View &to) {
    const std::int64_t elements = elements_of(to);
    const auto bytes_of_chunk = static_cast<std::size_t>(elements * size_of(to.dtype));
    std::vector<std::size_t> bytes;
    for (int rank = 0; rank < c_.size; rank++) bytes.push_back(bytes_of_chunk * geometry_.chunks_of(rank).size());
    const std::size_t all = bytes_of_chunk * static_cast<std::size_t>(geometry_.chunks());
    char *gathered = channel_.allocate(all), *ordered = channel_.allocate(all + bytes_of_chunk);
    if (!gathered || !ordered) return no_memory();
    if (Status s = reporting.wait_for([&] { return channel_.all_gather(own, gathered, bytes); }); !s.ok()) return s;
    const char *from = gathered;
    for (int rank = 0; rank < c_.size; rank++)
        for (const std::int64_t chunk : geometry_.chunks_of(rank)) {
            std::memcpy(ordered + static_cast<std::size_t>(chunk) * bytes_of_chunk, from, bytes_of_chunk);
            from += bytes_of_chunk;
        }
    char *sum = ordered + all;
    std::memset(sum, 0, bytes_of_chunk);
    if (geometry_.chunks() > 0 && elements > 0)
        if (Status s = sum_parts(state_of(context_), ordered, to.dtype, geometry_.chunks(), elements, elements, sum); !s.ok())
            return s;
    const View to4 = as_rank4(to, false);
    const std::int64_t *n = to4.extent;
    copy_rows(dense_view(sum, to.dtype, n[0], n[1], n[2], n[3]), to4);
    return {};
}

Status RingBackward::run(ParallelReport *report) {
    Reporting reporting(report, channel_);
    Agreement agreement = agreement_of(ParallelCall::backward, call_);
    const View &slopes = gradients_.alibi_slopes;
    agreement.add("rows of gradients.alibi_slopes", slopes.given() ? (slopes.rank == 2 ? slopes.extent[0] : 1) : -1);
    agreement.add("gradients.query or .bias", std::int64_t{wants_queries()});
    agreement.add("gradients.key or .value", std::int64_t{wants_keys()});
    for (std::size_t n = 0; n < of_captures_.size(); n++)
        if (of_captures_[n].wanted()) agreement.add("gradients of captures", static_cast<std::int64_t>(n));
    agreement.add("gradients.sinks", std::int64_t{gradients_.sinks.given()});
    agreement.add("forward.grad_lse", std::int64_t{forward_.grad_lse.given()});
    if (Status s = agreement.compare(channel_, check()); !s.ok()) return s;
    if (gradients_.bias.given()) fill_zeros(as_rank4(gradients_.bias, false));
    if (c_.size == 1) {
        if (Status s = all_here(); !s.ok()) return s;
    } else {
        if (wants_queries())
            if (Status s = of_queries(reporting); !s.ok()) return s;
        if (wants_keys())
            if (Status s = of_keys(reporting); !s.ok()) return s;
    }
    for (GradientSum *sum : {&of_query_, &of_key_, &of_value_})
        if (Status s = sum->end(); !s.ok()) return s;
    for (const TableSum &sum : of_captures_)
        if (sum.wanted())
            if (Status s = sum_over_ranks(reporting, sum.sums(), sum.gradient()); !s.ok()) return s;
    if (of_slopes_.wanted())
        if (Status s = sum_over_ranks(reporting, of_slopes_.sums(), gradients_.alibi_slopes); !s.ok()) return s;
    return gradients_.sinks.given() ? of_sinks(reporting) : Status();
}

}  // namespace

Status answer_backward(Context &context, const Communicator &communicator, const ParallelPlan &plan, const ConstView &query,
                       const ConstView &key, const ConstView &value, const SdpaForward &forward, const SdpaGradients &gradients,
                       const ParallelOptions &options, const UserOfRanks &of_user,
                       ArrayView<const View> grad_captures) noexcept {
    const auto body = [&](Context::State &, const ConstView &q, const ConstView &k, const ConstView &v, const SdpaForward &f,
                          const SdpaGradients &g, const SdpaOptions &attention, std::span<const CaptureArgument> captures,
                          std::span<const View> of_captures) {
        if (Status s = check_group(communicator, plan); !s.ok()) return s;
        const UserCall user{of_user.attention, captures, nullptr};
        const RankCall call{plan, communicator.rank, q, k, v, attention, of_user.attention ? &user : nullptr};
        return RingBackward(context, communicator, call, f, g, of_captures).run(options.report);
    };
    return answer(context, body, query, key, value, forward, gradients, options.attention, of_user.captures, grad_captures);
}

Status ring_attention_backward(Context &context, const Communicator &communicator, const ParallelPlan &plan,
                               const ConstView &query, const ConstView &key, const ConstView &value, const SdpaForward &forward,
                               const SdpaGradients &gradients, const ParallelOptions &options) noexcept {
    return answer_backward(context, communicator, plan, query, key, value, forward, gradients, options);
}

}  // namespace attune
