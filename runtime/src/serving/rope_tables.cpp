// SPDX-License-Identifier: MIT
#include "serving/row_steps.h"
#include "tensors/checks.h"
#include <array>

namespace attune {

static Status make_rope_tables(double base, double scaling, const View &cos, const View &sin) {
    if (Status s = check_rope_base("", base, scaling); !s.ok()) return s;
    for (const auto &[name, v] : {std::pair("cos", &cos), {"sin", &sin}}) {
        if (v->rank != 2) return invalid(name, "rank must be 2 (positions, dim / 2), got " + text(v->rank));
        if (v->dtype != DType::f32) return invalid(name, std::string("type must be f32, got ") + name_of(v->dtype));
        if (Status s = check_memory(name, *v); !s.ok()) return s;
        if (Status s = check_dense(name, *v); !s.ok()) return s;
    }
    const ExtentMatch matches[] = {{"sin", "number of positions", sin.extent[0], "cos", cos.extent[0]},
                                   {"sin", "last extent", sin.extent[1], "cos", cos.extent[1]}};
    if (Status s = check_extents(matches); !s.ok()) return s;
    const std::array<NamedView, 2> outputs{{{"cos", cos}, {"sin", sin}}};
    if (Status s = check_overlaps({}, outputs); !s.ok()) return s;
    fill_rope_tables(base, scaling, {}, cos, sin);
    return {};
}

Status rope_tables(Context &context, double base, double scaling, const View &cos, const View &sin) noexcept {
    const auto body = [&](Context::State &, const View &c, const View &s) { return make_rope_tables(base, scaling, c, s); };
    return answer(context, body, cos, sin);
}

}  // namespace attune
