// SPDX-License-Identifier: MIT
#include "serving/varlen_call.h"

namespace attune {
namespace {

Status check_left_out(const SdpaOptions &options) {
    if (options.score == Score::general) return invalid("score", "general is not taken for packed batches");
    for (const auto &[name, view] : {std::pair("bias", options.bias),
                                     {"mask", options.mask},
                                     {"valid_lens", options.valid_lens},
                                     {"cache_lens", options.cache_lens},
                                     {"weights", ConstView(options.weights)}})
        if (view.given()) return invalid(name, "is not taken for packed batches");
    return check_score(options);
}

}  // namespace

Status check_sequences(const VarlenCall &p, const ConstView &query, const ConstView &key) {
    if (Status s = check_ends("cu_seqlens_q", p.query_ends, "query", query.extent[0]); !s.ok()) return s;
    if (Status s = check_ends("cu_seqlens_k", p.key_ends, "key", key.extent[0]); !s.ok()) return s;
    return check_extent("cu_seqlens_k", "number of entries", p.key_ends.extent[0], "cu_seqlens_q", p.query_ends.extent[0]);
}

Status check_sequence_options(const SdpaOptions &given, const VarlenCall &p, SdpaOptions &of_entry) {
    if (Status s = check_left_out(given); !s.ok()) return s;
    const std::int64_t batch = p.batch();
    of_entry = given;
    if (given.offsets.given()) {
        if (given.offset) return invalid("offsets", "given beside offset; give one of them");
        if (Status s = check_list("offsets", given.offsets, "B"); !s.ok()) return s;
        if (Status s = check_extent("offsets", "batch (first extent)", given.offsets.extent[0], "cu_seqlens_q", batch); !s.ok())
            return s;
        of_entry.offsets = {};
        of_entry.offset = 0;
    }
    if (given.alibi_slopes.rank == 2) {
        const ConstView &slopes = given.alibi_slopes;
        if (Status s = check_memory("alibi_slopes", slopes); !s.ok()) return s;
        if (Status s = check_extent("alibi_slopes", "batch (first extent)", slopes.extent[0], "cu_seqlens_q", batch); !s.ok())
            return s;
        of_entry.alibi_slopes = batch > 0 ? row_of(slopes, 0) : ConstView();
    }
    return {};
}

std::array<NamedView, 4> named_lists(const VarlenCall &p, const SdpaOptions &options) {
    return {{{"cu_seqlens_q", p.query_ends},
             {"cu_seqlens_k", p.key_ends},
             {"offsets", options.offsets},
             {"alibi_slopes", options.alibi_slopes}}};
}

Status check_lists_on_host(const VarlenCall &p, const SdpaOptions &options) {
    for (const auto &[name, list] :
         {std::pair("cu_seqlens_q", p.query_ends), {"cu_seqlens_k", p.key_ends}, {"offsets", options.offsets}})
        if (list.given() && list.place != Place::host)
            return unsupported(name, "is on a device; a packed batch there takes it on the host");
    return {};
}

void keep_options(const SdpaOptions &options, VarlenCall &p) {
    p.offsets = options.offsets;
    if (options.alibi_slopes.rank == 2) p.rows.slopes.stride[0] = options.alibi_slopes.stride[0];
}

Sequence sequence_of(const VarlenCall &p, std::int64_t n) {
    const std::int64_t q = int_at(p.query_ends, n), k = int_at(p.key_ends, n);
    return {n, q, int_at(p.query_ends, n + 1) - q, k, int_at(p.key_ends, n + 1) - k};
}

void select_sequence(const VarlenCall &p, const SdpaOptions &options, const Sequence &s, SdpaCall &call) {
    select_rows(p, s, call);
    std::optional<std::int64_t> offset = options.offset;
    if (p.offsets.given()) offset = int_at(p.offsets, s.number);
    set_band(call, band_of(options, offset, s.queries, s.keys));
    if (call.slopes.given())
        move_to(call.slopes, static_cast<const float *>(p.rows.slopes.data) + s.number * p.rows.slopes.stride[0]);
}

}  // namespace attune
