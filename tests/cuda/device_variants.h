// SPDX-License-Identifier: MIT
// Variants for the device of the backend that a program is linked with.
#pragma once
#include "device/device_call.h"
#include "dispatch/variant_table.h"
#include "tensors/views.h"
#include "tests/support/catch.h"
#include "tests/support/half_elements.h"
#include "tests/support/sdpa_arrays.h"
#include "tests/support/sdpa_backward_case.h"
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

inline bool is_opencl() { return attune::device_backend()->target.find("opencl") != std::string_view::npos; }
// Whether the backend takes negative strides: Halide copies no such tensors to a device of OpenCL.
inline bool takes_reversed_rows() { return !is_opencl(); }
// Gradients in `wanted` that this program has kernels for. By bias and slopes there are none for OpenCL, which compiles a
// kernel for each size, these in minutes.
inline unsigned linked_gradients(unsigned wanted) { return is_opencl() ? wanted & ~(want_bias | want_slopes) : wanted; }

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

// Fault of out and lse of one of the sequences in `packed`, whose first query is number `first`; empty if there is none.
struct SequenceRows {
    attune::View query, key, value;  // (1, H, rows, D)
};
template<typename T, typename Packed>
std::string packed_defect(const SequenceRows &of, Packed &packed, std::int64_t first, const attune::SdpaOptions &options) {
    std::vector<T> out;
    std::vector<Sum<T>> lse;
    for (std::int64_t h = 0; h < of.query.extent[1]; h++)
        for (std::int64_t i = first; i < first + of.query.extent[2]; i++) {
            lse.push_back(packed.lse.data()[h * packed.lse.view().stride[0] + i]);
            for (std::int64_t d = 0; d < of.value.extent[3]; d++) out.push_back(packed.out(i, h, d));
        }
    const auto exact = sdpa_reference<Reference<T>, T>(of.query, of.key, of.value, options);
    const auto plain = plain_sdpa<T>(of.query, of.key, of.value, options);
    const Verdict of_out = judge(exact.out, plain.out, out), of_lse = judge(exact.lse, plain.lse, lse);
    return of_out.right ? of_lse.right ? "" : "lse: " + of_lse.why : "out: " + of_out.why;
}

}  // namespace attune_test
