// SPDX-License-Identifier: MIT
#include "attention/sdpa_call.h"
#include "layers/projection.h"

namespace attune {

Status ProjectionGradient::prepare(Context::State &context, const ConstView &projected) {
    result_ = wanted_.x;
    if (!weight_.given()) return {};
    result_ = {};
    if (!wanted_.x.given() && !wanted_.weight.given() && !wanted_.bias.given()) return {};
    std::int64_t elements = 1;
    for (int n = 0; n < projected.rank; n++) elements *= projected.extent[n];
    memory_.emplace(*context.scratch, static_cast<std::size_t>(elements * size_of(projected.dtype)));
    if (!memory_->data()) return no_memory();
    result_ = writable(projected);  // a dense array
    move_to(result_, memory_->data());
    return {};
}

Status ProjectionGradient::choose(const Context::State &context) {
    if (!weight_.given() || !result_.given()) return {};
    return prepare_linear_backward(context, input_, weight_, result_, wanted_, {}, call_.emplace());
}

Status ProjectionGradient::run(Context::State &context) const {
    if (!weight_.given() || !result_.given()) return {};
    return run_linear_backward(context, *call_, start_of_call());
}

}  // namespace attune
