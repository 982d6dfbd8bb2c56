// SPDX-License-Identifier: MIT
// Checks of options that change scores or weights, and of the output of weights.
#include "attention/dropout_threshold.h"
#include "attention/sdpa_call.h"
#include "tensors/checks.h"
#include <cmath>

namespace attune {
namespace {

// Checks a tensor that broadcasts to `shape`, (B, Hq, Sq, Sk) or its last `rank` extents; as4: a dimension that broadcasts has
// stride 0 and, but for the last one, the full extent.
Status check_broadcast(std::string_view name, const ConstView &v, DType type, int rank, const std::int64_t (&shape)[4],
                       ConstView &as4) {
    if (v.rank < 1 || v.rank > rank)
        return invalid(name, "rank must be from 1 to " + text(rank) + ", that of query, got " + text(v.rank));
    if (v.dtype != type) return invalid(name, std::string("type must be ") + name_of(type) + ", got " + name_of(v.dtype));
    if (Status s = check_memory(name, v); !s.ok()) return s;
    if (Status s = check_dense(name, v); !s.ok()) return s;
    // Where query has rank 3 the dimensions are (B, Sq, Sk).
    as4 = as_rank4(v, rank == 3);
    static constexpr std::string_view what[] = {"batch", "heads", "queries", "keys"};
    for (int n = 0; n < 4; n++) {
        if (as4.extent[n] != 1 && as4.extent[n] != shape[n])
            return invalid(name, "extent of " + std::string(what[n]) + " must be 1 or " + text(shape[n]) + ", got " +
                                     text(as4.extent[n]));
        if (as4.extent[n] == 1) as4.stride[n] = n == 3 && shape[n] == 1 ? 1 : 0;
        if (n < 3) as4.extent[n] = shape[n];
    }
    return {};
}

Status check_floats(std::string_view name, const ConstView &v) {
    if (v.dtype != DType::f32) return invalid(name, std::string("type must be f32, got ") + name_of(v.dtype));
    return check_memory(name, v);
}

Status check_alibi(const SdpaOptions &options, SdpaCall &call) {
    const SdpaProblem &p = call.sizes;
    const ConstView &slopes = options.alibi_slopes;
    if (!slopes.given()) {
        if (options.alibi) {
            call.standard_slopes = std::make_shared<const std::vector<float>>(alibi_slopes(p.query_heads));
            call.slopes = ConstView(call.standard_slopes->data(), {p.batch, p.query_heads}, {0, 1});
        }
        return {};
    }
    if (slopes.rank != 1 && slopes.rank != 2)
        return invalid("alibi_slopes", "rank must be 1 (Hq) or 2 (B, Hq), got " + text(slopes.rank));
    if (Status s = check_floats("alibi_slopes", slopes); !s.ok()) return s;
    const int head = slopes.rank - 1;
    if (Status s = check_extent("alibi_slopes", "number of heads (last extent)", slopes.extent[head], "query", p.query_heads);
        !s.ok())
        return s;
    call.slopes = slopes;
    call.slopes.rank = 2;
    call.slopes.extent[1] = slopes.extent[head], call.slopes.stride[1] = slopes.stride[head];
    if (slopes.rank == 1) call.slopes.extent[0] = p.batch, call.slopes.stride[0] = 0;
    return check_extent("alibi_slopes", "batch (first extent)", call.slopes.extent[0], "query", p.batch);
}

Status check_sinks(const ConstView &sinks, SdpaCall &call) {
    if (!sinks.given()) return {};
    if (sinks.rank != 1) return invalid("sinks", "rank must be 1 (Hq), got " + text(sinks.rank));
    if (Status s = check_floats("sinks", sinks); !s.ok()) return s;
    call.sinks = sinks;
    return check_extent("sinks", "number of heads", sinks.extent[0], "query", call.sizes.query_heads);
}

}  // namespace

Status check_score_type(Score score, std::string_view name, DType given) {
    static constexpr std::string_view names[] = {"", "Score::general", "Score::cosine", "Score::gaussian"};
    const auto n = static_cast<unsigned>(score);
    return n == 0 || n >= std::size(names) ? Status() : check_wide_for(names[n], name, given);
}

Status check_dropout(const Dropout &dropout) {
    const double p = dropout.probability;
    if (p >= 0 && p <= 1) return {};
    return invalid("dropout", "probability must be from 0 to 1, got " + text(p));
}

Status check_counted_heads(const Dropout &dropout, std::int64_t query_heads) {
    if (dropout.heads == 0 || dropout.heads >= query_heads) return {};
    return invalid("dropout", "heads must be 0 or at least " + text(query_heads) + ", got " + text(dropout.heads));
}

Status check_score_options(const SdpaOptions &options, int rank, SdpaCall &call) {
    const SdpaProblem &p = call.sizes;
    const std::int64_t shape[4] = {p.batch, p.query_heads, p.queries, p.keys};
    if (!(options.softcap >= 0) || !std::isfinite(options.softcap))
        return invalid("softcap", "must be positive, or 0 for none, got " + text(options.softcap));
    // The softcap divides scores by a product with its inverse, which must fit, too.
    if (Status s = check_number("softcap", options.softcap, p.dtype); !s.ok()) return s;
    if (options.softcap > 0)
        if (Status s = check_number("softcap", 1 / options.softcap, p.dtype); !s.ok())
            return invalid("softcap",
                           "is " + text(options.softcap) + ", whose inverse " + name_of(sum_type(p.dtype)) + " cannot hold");
    call.softcap = options.softcap;
    if (options.bias.given())
        if (Status s = check_broadcast("bias", options.bias, p.dtype, rank, shape, call.bias); !s.ok()) return s;
    if (Status s = check_alibi(options, call); !s.ok()) return s;
    if (options.mask.given())
        if (Status s = check_broadcast("mask", options.mask, DType::boolean, rank, shape, call.mask); !s.ok()) return s;
    if (Status s = check_sinks(options.sinks, call); !s.ok()) return s;
    if (Status s = check_dropout(options.dropout); !s.ok()) return s;
    if (Status s = check_counted_heads(options.dropout, p.query_heads); !s.ok()) return s;
    call.dropout = options.dropout, call.first_head = options.dropout.first_head;
    call.sizes.scored = call.softcap > 0 || call.bias.given() || call.slopes.given() || call.mask.given() || call.sinks.given();
    call.sizes.invariant = options.invariant;
    call.sizes.tables = call.bias.given() || call.mask.given();
    call.sizes.dropout = call.dropout.probability > 0 && dropout_threshold(call.dropout.probability) >> 32 == 0;
    return {};
}

Status check_weights(const SdpaOptions &options, int rank, SdpaCall &call) {
    const View &w = options.weights;
    if (static_cast<unsigned>(options.weights_mode) > static_cast<unsigned>(WeightsMode::probabilities))
        return invalid("weights_mode", "must be from 0 to 3, got " + text(static_cast<int>(options.weights_mode)));
    call.weights_mode = options.weights_mode;
    call.average_weights = options.average_weights;
    if (!w.given()) return options.average_weights ? invalid("average_weights", "needs weights") : Status();
    const SdpaProblem &p = call.sizes;
    const int expected = options.average_weights && rank == 4 ? 3 : rank;
    if (w.rank != expected) return invalid("weights", "rank must be " + text(expected) + ", got " + text(w.rank));
    if (Status s = check_same_type("weights", w.dtype, "query", p.dtype); !s.ok()) return s;
    if (Status s = check_memory("weights", w); !s.ok()) return s;
    if (Status s = check_dense("weights", w); !s.ok()) return s;
    call.weights = as_rank4(w, true);
    const std::int64_t heads = options.average_weights ? 1 : p.query_heads;
    const std::int64_t shape[4] = {p.batch, heads, p.queries, p.keys};
    static constexpr std::string_view what[] = {"batch", "heads", "queries", "keys"};
    for (int n = 0; n < 4; n++)
        if (call.weights.extent[n] != shape[n])
            return invalid("weights", "extent of " + std::string(what[n]) + " must be " + text(shape[n]) + ", got " +
                                          text(call.weights.extent[n]));
    return {};
}

}  // namespace attune
