// SPDX-License-Identifier: MIT
#include "attune/merge.h"
#include "c_api/run.h"
#include "c_api/structs.h"

using namespace attune;
using namespace attune::c_api;

attune_status attune_merge_attentions(attune_context *context, const attune_partial_attention *parts, size_t parts_count,
                                      const attune_tensor *out, const attune_tensor *lse) {
    return run(context, [&](Reader &reader, Context &of_calls) -> Status {
        if (parts_count && !reader.must_be_given(parts, {"parts"})) return reader.status();
        std::vector<PartialAttention> given(parts_count);
        for (std::size_t n = 0; n < parts_count; n++)
            given[n] = {reader.input(parts[n].out, {"parts.out"}), reader.input(parts[n].lse, {"parts.lse"})};
        const View out_given = reader.output(out, {"out"}), lse_given = reader.output(lse, {"lse"});
        if (!reader.ok()) return reader.status();
        return merge_attention(of_calls, given.data(), given.size(), out_given, lse_given);
    });
}
