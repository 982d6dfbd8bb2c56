// SPDX-License-Identifier: MIT
#include "attune/linear.h"
#include "c_api/run.h"
#include "c_api/structs.h"

using namespace attune;
using namespace attune::c_api;

attune_status attune_plan_product(attune_context *context, const attune_product_problem *problem, attune_product_plan *plan) {
    return run(context, [&](Reader &reader, Context &of_calls) -> Status {
        const ProductProblem given = read(reader, problem, {"problem"});
        if (!reader.ok()) return reader.status();
        ProductPlan made;
        if (Status s = plan_product(of_calls, given, made); !s.ok()) return s;
        context->product_plan.clear();
        write(reader, made, context->product_plan, plan, {"plan"});
        return reader.status();
    });
}

attune_status attune_packed_weight_extents(attune_context *context, attune_dtype dtype, int64_t columns, int64_t depth,
                                           int64_t *extents) {
    return run(context, [&](Reader &reader, Context &) -> Status {
        const auto type = reader.enumeration<DType>(dtype, names_of_dtype, {"dtype"});
        if (columns < 0) reader.refuse({"columns"}, "must be from 0, got " + std::to_string(columns));
        if (depth < 0) reader.refuse({"depth"}, "must be from 0, got " + std::to_string(depth));
        if (!reader.must_be_given(extents, {"extents"}) || !reader.ok()) return reader.status();
        const auto made = packed_weight_extents(type, columns, depth);
        std::copy(made.begin(), made.end(), extents);
        return {};
    });
}
