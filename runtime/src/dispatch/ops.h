// SPDX-License-Identifier: MIT
// The operations that variants compute. Each has an object of its own in the archive, with the table of its kernels
// (cmake/op_variants.cpp.in): a program that calls no function of an op links none of its kernels.
#pragma once
#include "attune/detail/registration.h"
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

// Marks a pointer of linked_ops(). A section and not a list that constructors fill: calls before main() and in constructors see
// all of it, nothing is allocated, and nothing outside the object names the op.
#if __has_attribute(retain)
#define ATTUNE_LINKED_OP __attribute__((section("attune_ops"), used, retain))
#else
#define ATTUNE_LINKED_OP __attribute__((section("attune_ops"), used))
#endif

// Every op of cmake/attune_ops.cmake.
#define ATTUNE_OPS(X) \
    X(sdpa) \
    X(sdpa_int8) \
    X(sdpa_int4) \
    X(cosine) \
    X(gaussian) \
    X(additive) \
    X(additive_separable) \
    X(sdpa_backward) \
    X(capture_gradient) \
    X(cosine_backward) \
    X(cosine_capture_gradient) \
    X(gaussian_backward) \
    X(gaussian_capture_gradient) \
    X(additive_backward) \
    X(additive_capture_gradient) \
    X(capture_sum) \
    X(capture_sum_of_f64) \
    X(backward_rows) \
    X(sink_gradient) \
    X(linear) \
    X(linear_packed) \
    X(pack_linear_weight) \
    X(batch_dot) \
    X(transposed_dot) \
    X(masked_softmax) \
    X(masked_softmax_backward) \
    X(dropout_mask) \
    X(max_magnitude) \
    X(merge) \
    X(head_mean) \
    X(weight_sums) \
    X(transform_rows) \
    X(quantise_rows) \
    X(dequantise_rows) \
    X(queries_to_kernel) \
    X(out_of_kernel) \
    X(transform_rows_backward)

namespace attune {

using detail::VariantRecord;

#define ATTUNE_OP(name) name,
enum class OpId : std::uint8_t { ATTUNE_OPS(ATTUNE_OP) of_user };
#undef ATTUNE_OP
#define ATTUNE_OP(name) #name,
constexpr std::string_view op_names[] = {ATTUNE_OPS(ATTUNE_OP)};
#undef ATTUNE_OP

// An op and the library's variants of it. A user's is its name alone: its variants are registered.
struct Op {
    OpId id = OpId::of_user;
    std::string_view name;
    std::span<const VariantRecord> variants = {};
    const std::span<const VariantRecord> *fallback = nullptr;  // of attune_fallback, where that is linked
};
// A variant of an op of a user (registration.h).
inline bool is_of_user(const VariantRecord &v) { return v.op.starts_with("user_"); }
inline Op op_of_user(std::string_view name) { return {.name = name}; }

// Constant-initialised, as are the tables, so that calls before main() find them.
namespace ops {
#define ATTUNE_OP(name) extern const Op name;
ATTUNE_OPS(ATTUNE_OP)
#undef ATTUNE_OP
}  // namespace ops

// The ops of the library that are linked into this program or shared object, in no order.
std::span<const Op *const> linked_ops() noexcept;

}  // namespace attune
