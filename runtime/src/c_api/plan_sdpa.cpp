// SPDX-License-Identifier: MIT
#include "attune/sdpa.h"
#include "c_api/run.h"
#include "c_api/structs.h"

using namespace attune;
using namespace attune::c_api;

attune_status attune_plan_sdpa(attune_context *context, const attune_sdpa_problem *problem, attune_plan *plan) {
    return run(context, [&](Reader &reader, Context &of_calls) -> Status {
        const SdpaProblem given = read(reader, problem, {"problem"});
        if (!reader.ok()) return reader.status();
        Plan made;
        if (Status s = plan_sdpa(of_calls, given, made); !s.ok()) return s;
        context->plan.clear();
        write(reader, made, context->plan, plan, {"plan"});
        return reader.status();
    });
}

attune_status attune_with_band(attune_context *context, attune_sdpa_problem *problem, attune_causal causal,
                               attune_window window) {
    return run(context, [&](Reader &reader, Context &) -> Status {
        if (!reader.must_be_given(problem, {"problem"})) return reader.status();
        const SdpaProblem given = read(reader, problem, {"problem"});
        const auto causal_given = reader.enumeration<Causal>(causal, names_of_causal, {"causal"});
        if (reader.ok()) write(reader, with_band(given, causal_given, {window.left, window.right}), problem, {"problem"});
        return reader.status();
    });
}

attune_status attune_alibi_slopes(attune_context *context, int64_t heads, float *slopes) {
    return run(context, [&](Reader &reader, Context &) -> Status {
        const std::vector<float> made = alibi_slopes(heads);
        if (heads < 0) reader.refuse({"heads"}, "must be from 0, got " + std::to_string(heads));
        if (heads > 0 && reader.must_be_given(slopes, {"slopes"})) std::copy(made.begin(), made.end(), slopes);
        return reader.status();
    });
}
