// SPDX-License-Identifier: MIT
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
        if (elements > most_extent && result_.extent[n] > 1)
            return unsupported(input, "its projection has a stride of more than 2^31 - 1 elements");
        elements *= result_.extent[n];
    }
    const auto bytes = static_cast<std::size_t>(elements * size_of(x.dtype));
    memory_.emplace(*context.scratch, bytes);
    if (!memory_->data()) return no_memory();
    move_to(result_, memory_->data());
    return prepare_linear(context, x, w, b, writable(result_), {}, product_.emplace());
}

Status Projection::keep_rows(const Context::State &context, std::int64_t rows) {
    const ConstView &x = input_.view;
    if (!weight_.view.given() || rows >= x.extent[x.rank - 2]) return {};
    return prepare_linear(context, part_of(x, x.rank - 2, 0, rows), weight_.view, bias_.view,
                          writable(part_of(result_, x.rank - 2, 0, rows)), {}, product_.emplace());
}

Status Projection::run(Context::State &context) const {
    return weight_.view.given() ? run_product(context, *product_, start_of_call()) : Status();
}

}  // namespace attune
