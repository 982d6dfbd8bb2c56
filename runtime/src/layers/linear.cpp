// SPDX-License-Identifier: MIT
#include "attune/linear.h"
#include "device/device_call.h"
#include "dispatch/op_call.h"
#include "layers/linear_call.h"
#include <array>

namespace attune {
namespace {

Status linear_on_device(Context::State &context, const ConstView &x, const ConstView &weight, const ConstView &bias,
                        const View &out, const LinearOptions &options) {
    const CallStart start = start_of_call();
    const std::array<NamedView, 4> all{{{"x", x}, {"weight", weight}, {"bias", bias}, {"out", out}}};
    if (Status s = check_places(all, "x"); !s.ok()) return s;
    DeviceProduct product;
    if (Status s = prepare_linear_on_device(context, as_host(x), as_host(weight), as_host(bias), as_host(out), options.variant,
                                            product);
        !s.ok())
        return s;
    return run_product_on_device(context, product, start);
}

Status linear_here(Context::State &context, const ConstView &x, const ConstView &weight, const ConstView &bias, const View &out,
                   const LinearOptions &options, std::string_view why_here) {
    const CallStart start = start_of_call();
    ProductCall call;
    if (Status s = prepare_linear(context, x, weight, bias, out, options.variant, call); !s.ok()) return s;
    return run_product(context, call, start, why_here);
}

}  // namespace

Status check_linear(const ConstView &x, const ConstView &weight, const ConstView &bias, const View &out, Product &p) {
    if (x.rank < 1 || x.rank > max_rank) return invalid("x", "rank must be from 1 to 4, got " + text(x.rank));
    if (Status s = check_rows("x", x); !s.ok()) return s;
    const bool packed = weight.rank == packed_rank;
    if (weight.rank != 2 && !packed) return invalid("weight", "rank must be 2 (N, K) or 3 (packed), got " + text(weight.rank));
    if (packed) {
        if (Status s = check_rows("weight", weight, "x", x.dtype); !s.ok()) return s;
    } else {
        if (Status s = check_weight("weight", weight, "x", x); !s.ok()) return s;
        if (Status s = check_bias("bias", bias, "weight", weight); !s.ok()) return s;
    }
    if (Status s = check_rank("out", out.rank, "x", x.rank); !s.ok()) return s;
    if (Status s = check_rows("out", out, "x", x.dtype); !s.ok()) return s;
    if (Status s = check_leading(out, "out", x, "x", x.rank - 1); !s.ok()) return s;
    const std::int64_t columns = out.extent[out.rank - 1], depth = x.extent[x.rank - 1];
    if (packed) {
        if (Status s = check_packed_extents("weight", weight, columns, depth); !s.ok()) return s;
        ConstView unpacked = weight;  // the same weight (N, K)
        unpacked.extent[0] = columns;
        if (Status s = check_bias("bias", bias, "out", unpacked); !s.ok()) return s;
    } else if (columns != weight.extent[0]) {
        return invalid("out",
                       "last extent is " + text(columns) + ", the number of rows of weight is " + text(weight.extent[0]));
    }
    const std::array<NamedView, 3> inputs{{{"x", x}, {"weight", weight}, {"bias", bias}}};
    const std::array<NamedView, 1> outputs{{{"out", out}}};
    if (Status s = check_overlaps(inputs, outputs); !s.ok()) return s;
    p = {packed ? ops::linear_packed : ops::linear, as_rank4(x, false), weight, bias, as_rank4(out, false), columns, depth};
    join_rows(p.x, p.out);  // a register tile may hold rows of several entries
    return {};
}

Status prepare_linear(const Context::State &context, const ConstView &x, const ConstView &weight, const ConstView &bias,
                      const View &out, std::string_view variant, ProductCall &call) {
    if (Status s = check_linear(x, weight, bias, out, call.given); !s.ok()) return s;
    return choose_product(context, variant, call);
}

Status linear(Context &context, const ConstView &x, const ConstView &weight, const ConstView &bias, const View &out,
              const LinearOptions &options) noexcept {
    const auto body = [&](Context::State &state, const ConstView &a, const ConstView &w, const ConstView &b,
                          const View &o) -> Status {
        if (a.place != Place::device) return linear_here(state, a, w, b, o, options, {});
        std::string instead;
        if (Status s = find_device(state, "x", instead); !s.ok()) return s;
        if (instead.empty()) return linear_on_device(state, a, w, b, o, options);
        return linear_here(state, as_host(a), as_host(w), as_host(b), as_host(o), options, instead);
    };
    return answer(context, body, x, weight, bias, out);
}

}  // namespace attune
