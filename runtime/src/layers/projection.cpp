#include "layers/projection.h"
#include "attention/sdpa_call.h"

namespace attune {

Status Projection::prepare(Context::State &context) {
    const auto &[input, x] = input_;
    const auto &[weight, w] = weight_;
    const auto &[bias, b] = bias_;
    if (!w.given()) return b.given() ? invalid(bias, "given without " + std::string(weight)) : Status();
    if (x.rank < 2 || x.rank > 4) return invalid(input, "rank must be 2, 3 or 4, got " + text(x.rank));
    if (Status s = check_rows(input, x); !s.ok()) return s;
    if (Status s = check_weight(weight, w, input, x); !s.ok()) return s;
    if (Status s = check_bias(bias, b, weight, w); !s.ok()) return s;
    result_ = x;
    result_.extent[x.rank - 1] = w.extent[0];
    std::int64_t elements = 1;
    for (int n = x.rank - 1; n >= 0; n--) {
        result_.stride[n] = elements;
        elements *= result_.extent[n];
        if (elements > most_elements) return unsupported(input, "its projection has more than 2^31 - 1 elements");
    }
    const auto bytes = static_cast<std::size_t>(elements * size_of(x.dtype));
    memory_.emplace(*context.scratch, bytes);
    if (!memory_->data()) return no_memory();
    result_.data = memory_->data();
    return prepare_linear(context, x, w, b, writable(result_), {}, product_.emplace());
}

Status Projection::run(Context::State &context) const {
    return weight_.view.given() ? run_product(context, *product_, start_of_call()) : Status();
}

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
    result_.data = memory_->data();
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
