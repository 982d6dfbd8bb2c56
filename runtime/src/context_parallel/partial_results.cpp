// SPDX-License-Identifier: MIT
#include "context_parallel/partial_results.h"
#include "attune/merge.h"
#include "tensors/checks.h"

namespace attune {

View PartialResults::part_out(char *part) const {
    return dense_view(part, out_.dtype, out_.extent[0], out_.extent[1], out_.extent[2], out_.extent[3]);
}
View PartialResults::part_lse(char *part) const {
    return without_column(
        dense_view(part + bytes_of_out_, sum_type(out_.dtype), out_.extent[0], out_.extent[1], out_.extent[2], 1));
}

Status PartialResults::begin() {
    const std::int64_t *n = out_.extent;
    bytes_of_out_ = message_bytes(n[0], n[1], n[2], n[3], out_.dtype);
    bytes_of_lse_ = message_bytes(n[0], n[1], n[2], 1, sum_type(out_.dtype));
    own_ = channel_.allocate(bytes() * geometry_.chunks_of(channel_.communicator().rank).size());
    all_ = channel_.allocate(bytes() * static_cast<std::size_t>(geometry_.chunks()));
    return own_ && all_ ? Status() : no_memory();
}

Status PartialResults::gather() {
    std::vector<std::size_t> of_ranks;
    for (int rank = 0; rank < channel_.communicator().size; rank++)
        of_ranks.push_back(bytes() * geometry_.chunks_of(rank).size());
    return channel_.all_gather(own_, all_, of_ranks);
}

Status PartialResults::merge(Context &context, const ConstView &sinks, const View &lse) {
    std::vector<PartialAttention> parts(static_cast<std::size_t>(geometry_.chunks()));
    char *part = all_;
    for (int rank = 0; rank < channel_.communicator().size; rank++)
        for (const std::int64_t chunk : geometry_.chunks_of(rank)) {
            parts[static_cast<std::size_t>(chunk)] = {part_out(part), part_lse(part)};
            part += bytes();
        }
    if (sinks.given() || parts.empty()) {  // without any part, the result is that of no keys
        char *none = channel_.allocate(bytes());
        if (!none) return no_memory();
        fill_zeros(part_out(none));
        fill_lse(part_lse(none), sinks);
        parts.insert(parts.begin(), {part_out(none), part_lse(none)});
    }
    return merge_attention(context, parts.data(), parts.size(), out_, lse);
}

}  // namespace attune
