// SPDX-License-Identifier: MIT
// Records of kernels that archives register: users' attention of attune_add_attention(), variants of attune_add_variants(). For
// generated code; not meant to be written by hand.
#pragma once
#include "attune/detail/api.h"
#include "attune/detail/array_view.h"
#include "attune/tensor.h"
#include <array>
#include <string_view>

namespace attune::detail {

// Coefficients of a predicted time: nanoseconds for each unit of the cost terms of a call (attune/detail/cost.h).
using CostCoefficients = std::array<float, 7>;
// Cost terms of a call for one variant: calls, tasks, multiply-adds and bytes (runtime/src/dispatch/cost.h).
using CostTerms = std::array<double, std::tuple_size_v<CostCoefficients>>;

// The schedules that the runtime tells apart; of a user's op it knows none.
enum class Schedule : unsigned char {
    root,
    rows,
    prefill,
    bf16_dot,
    amx,
    decode,
    split,
    mma,
    mma_split,
    panels,
    amx_gemv,
    blocked,
    blocks,
    other
};
constexpr Schedule schedule_of(std::string_view name) {
    constexpr std::string_view names[] = {"root", "rows",      "prefill", "bf16_dot", "amx",     "decode", "split",
                                          "mma",  "mma_split", "panels",  "amx_gemv", "blocked", "blocks"};
    int n = 0;
    for (const std::string_view known : names) {
        if (known == name) return static_cast<Schedule>(n);
        n++;
    }
    return Schedule::other;
}

// The options that a kernel of attention knows (VariantInfo::kind); none for other ops.
enum class Kind : unsigned char { none, plain, scored, training, weights };
constexpr std::string_view kind_names[] = {"", "plain", "scored", "training", "weights"};
constexpr std::string_view name_of(Kind kind) { return kind_names[static_cast<int>(kind)]; }
constexpr Kind kind_of(std::string_view name) {
    int n = 0;
    for (const std::string_view known : kind_names) {
        if (known == name) return static_cast<Kind>(n);
        n++;
    }
    return Kind::none;
}

// A kernel that is linked in. The strings of all records live as long as the program, or the shared object that holds them.
struct VariantRecord {
    std::string_view name, op;
    DType dtype;
    int head_dim;  // 0: any
    std::string_view target, schedule, shape_class, kind, parameters, provenance;
    int tile_q, kv_block;  // as in `parameters`; 1 where the schedule has none
    CostCoefficients cost;
    std::string_view cost_target;  // the target that the coefficients were measured on; empty: none were, they follow a rule
    bool dispatched;
    int (*kernel)(void **);
    int (*pages_kernel)(void **) = nullptr;  // the same, with rows of keys and values in pages; null: there is none
    // The same as the texts `schedule` and `kind`.
    Schedule schedule_id = schedule_of(schedule);
    Kind kind_id = kind_of(kind);
};

// A capture of a user's struct. Rank 0: a number.
struct CaptureRecord {
    std::string_view name;
    bool of_scores;  // its type is f64 in f64 kernels, else f32; otherwise it is `dtype`
    DType dtype;
    int rank;
    // Whether each element is read by a single batch entry, by a single query head; and whether the capture has a gradient.
    bool by_batch, by_head, has_gradient;
};

struct AttentionRecord {
    std::string_view name, op, backward_op;  // ops of the variants: user_<name>, a prefix that no op of the library has
    ArrayView<const CaptureRecord> captures;
    bool has_mask, mask_by_batch, mask_by_head;
    ArrayView<const VariantRecord> variants;
};

// Registers variants: variants() lists them, and dispatch finds them. A variant with the name of one of the library, or of one
// that was registered before, replaces it. The records are kept by reference and stay registered.
class ATTUNE_API VariantRegistration {
public:
    explicit VariantRegistration(ArrayView<const VariantRecord>) noexcept;
};

// Registers an attention and its variants in the same way; find_attention() returns it from then on.
class ATTUNE_API AttentionRegistration {
public:
    explicit AttentionRegistration(const AttentionRecord &) noexcept;
};
// The latest attention registered with that op or backward op; null if there is none. The name is not kept.
ATTUNE_API const AttentionRecord *find_attention(std::string_view op) noexcept;

}  // namespace attune::detail
