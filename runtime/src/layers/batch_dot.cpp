// SPDX-License-Identifier: MIT
#include "attune/linear.h"
#include "layers/linear_call.h"
#include <array>

namespace attune {
namespace {

// Checks a matrix product's operand. Its inner extent may be 0, unlike the last extent of any other view.
Status check_matrices(std::string_view name, const ConstView &v, const ConstView &a) {
    if (Status s = check_real(name, v); !s.ok()) return s;
    if (Status s = check_same_type(name, v.dtype, "a", a.dtype); !s.ok()) return s;
    if (Status s = check_memory(name, v); !s.ok()) return s;
    return check_dense(name, v);
}

Status check_batch_dot(const ConstView &a, const ConstView &x, const View &out, Product &p) {
    const int rank = a.rank;
    if (rank < 2 || rank > max_rank) return invalid("a", "rank must be from 2 to 4, got " + text(rank));
    if (Status s = check_matrices("a", a, a); !s.ok()) return s;
    if (Status s = check_rank("x", x.rank, "a", rank); !s.ok()) return s;
    if (Status s = check_matrices("x", x, a); !s.ok()) return s;
    if (x.extent[rank - 1] < 1) return invalid("x", "last extent must be at least 1, got " + text(x.extent[rank - 1]));
    if (Status s = check_leading(x, "x", a, "a", rank - 2); !s.ok()) return s;
    if (x.extent[rank - 2] != a.extent[rank - 1])
        return invalid("x", "number of rows is " + text(x.extent[rank - 2]) + ", the last extent of a is " +
                                text(a.extent[rank - 1]));
    if (Status s = check_rank("out", out.rank, "a", rank); !s.ok()) return s;
    if (Status s = check_rows("out", out, "a", a.dtype); !s.ok()) return s;
    if (Status s = check_leading(out, "out", a, "a", rank - 1); !s.ok()) return s;
    if (Status s = check_extent("out", "last extent", out.extent[rank - 1], "x", x.extent[rank - 1]); !s.ok()) return s;
    p = {ops::batch_dot,       as_rank4(a, false), as_rank4(x, false), {},
         as_rank4(out, false), x.extent[rank - 1], a.extent[rank - 1]};
    return {};
}

}  // namespace

Status prepare_batch_dot(const Context::State &context, const ConstView &a, const ConstView &x, const View &out,
                         std::string_view variant, ProductCall &call) {
    if (Status s = check_batch_dot(a, x, out, call.given); !s.ok()) return s;
    return choose_product(context, variant, call);
}

Status batch_dot(Context &context, const ConstView &a, const ConstView &x, const View &out,
                 const LinearOptions &options) noexcept {
    const auto body = [&](Context::State &state, const ConstView &left, const ConstView &right, const View &o) -> Status {
        const CallStart start = start_of_call();
        ProductCall call;
        if (Status s = check_batch_dot(left, right, o, call.given); !s.ok()) return s;
        const std::array<NamedView, 2> inputs{{{"a", left}, {"x", right}}};
        const std::array<NamedView, 1> outputs{{{"out", o}}};
        if (Status s = check_overlaps(inputs, outputs); !s.ok()) return s;
        if (Status s = choose_product(state, options.variant, call); !s.ok()) return s;
        return run_product(state, call, start);
    };
    return answer(context, body, a, x, out);
}

}  // namespace attune
