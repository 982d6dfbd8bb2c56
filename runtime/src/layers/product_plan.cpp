// SPDX-License-Identifier: MIT
// plan_product(): names the ops of products, so its object links the kernels of all of them.
#include "layers/linear_call.h"
#include "layers/product_cost.h"

namespace attune {

Status plan_product(const Context &context, const ProductProblem &problem, ProductPlan &plan) noexcept {
    return answer(context, [&](Context::State &state) -> Status {
        const Op *const all[] = {&ops::linear, &ops::linear_packed, &ops::batch_dot};
        const Op *op = nullptr;
        for (const Op *one : all)
            if (one->name == problem.op) op = one;
        if (!op)
            return {StatusCode::invalid_argument,
                    "op: must be \"linear\", \"linear_packed\" or \"batch_dot\", got \"" + std::string(problem.op) + "\""};
        for (const auto &[name, size] : {std::pair("entries", problem.entries),
                                         {"rows", problem.rows},
                                         {"columns", problem.columns},
                                         {"depth", problem.depth},
                                         {"weight_stride", problem.weight_stride}})
            if (size < 0 || size > most_extent)
                return {StatusCode::invalid_argument,
                        std::string(name) + ": must be from 0 to " + text(most_extent) + ", got " + text(size)};
        ProductChoice choice;
        if (Status s = choose_for(*op, problem, forced_variant(state, {}, *op), choice); !s.ok()) return s;
        const Choice &c = choice.variants;
        plan = {std::string(c.variant->name), std::string(c.reason), c.of_last ? std::string(c.of_last->name) : ""};
        if (!c.forced) plan.candidates = plan_candidates(predictions(*op, problem));
        return {};
    });
}

}  // namespace attune
