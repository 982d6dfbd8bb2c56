// SPDX-License-Identifier: MIT
// Variants for the device of the backend that a program is linked with.
#pragma once
#include "device/device_call.h"
#include "dispatch/variant_table.h"
#include "tensors/views.h"
#include "tests/support/catch.h"
#include "tests/support/half_elements.h"
#include <algorithm>

namespace attune_test {

template<typename V> V on_device(V view) {
    view.place = attune::Place::device;
    return view;
}

// An argument whose tensors are on the device.
template<typename Argument> Argument there(Argument argument) {
    attune::each_view(argument, [](auto &v) {
        if (v.given()) v.place = attune::Place::device;
    });
    return argument;
}

// Whether the backend takes negative strides: Halide copies no such tensors to a device of OpenCL.
inline bool takes_reversed_rows() { return attune::device_backend()->target.find("opencl") == std::string_view::npos; }

// Whether there is a device; a test without one is skipped.
inline bool has_device() {
    const std::string missing = attune::device_backend()->missing();
    if (!missing.empty()) WARN("SKIPPED: " << missing);
    return missing.empty();
}

// Calls f(variant, a zero of its type) for each variant of an op and of these kinds.
template<typename F> void for_each_device_variant(std::string_view op, const std::vector<std::string_view> &kinds, const F &f) {
    REQUIRE(attune::device_backend());
    if (!has_device()) return;
    int found = 0;
    for (const attune::VariantRecord *v : attune::variant_records()) {
        if (v->target != attune::device_backend()->target || v->op != op) continue;
        if (std::find(kinds.begin(), kinds.end(), v->kind) == kinds.end()) continue;
        INFO(v->name);
        found++;
        if (v->dtype == attune::DType::f32) f(*v, 0.0f);
        if (v->dtype == attune::DType::bf16) f(*v, BFloat16(0));
        if (v->dtype == attune::DType::f16) f(*v, Float16(0));
    }
    CHECK(found > 0);
}

}  // namespace attune_test
