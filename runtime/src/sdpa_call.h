// A checked call of attention, and the steps between the public function and the kernel.
#pragma once
#include "attune/sdpa.h"
#include "variant_table.h"
#include <vector>

namespace attune {

// All views of rank 4 (lse: 3), all extents agree.
struct SdpaCall {
    SdpaProblem sizes;
    ConstView query, key, value;
    View out, lse;
    double scale = 0;
    // Keys of query i of batch entry b: [i + band_begin[b], i + band_end[b]) within [0, length); one entry, or one a batch.
    std::vector<std::int32_t> band_begin, band_end, offset;
    ConstView lengths;  // int32 (B, Sq), any strides; not given: every key
};

// Checks everything, in the order of the arguments, and fills `call`.
Status check_sdpa(const ConstView &query, const ConstView &key, const ConstView &value, const View &out, const SdpaOptions &,
                  SdpaCall &call);

// The sizes of a problem that no tensor has checked.
Status check_problem(const SdpaProblem &);

// Which variant runs. `forced` may be empty.
struct SdpaChoice {
    const VariantRecord *variant = nullptr;
    std::string_view reason;
};
Status choose_sdpa(const SdpaProblem &, std::string_view forced, std::string_view forced_by, SdpaChoice &);

// Threads that a call of these sizes is worth, at most `threads`.
int worthwhile_threads(const SdpaProblem &, int threads) noexcept;

// Upper bound of the scratch of a call.
std::size_t sdpa_workspace_bytes(const VariantRecord &, const SdpaProblem &, int threads) noexcept;

}  // namespace attune
