// SPDX-License-Identifier: MIT
// Kernels that archives register: users' attention of attune_add_attention(), variants of attune_add_variants(). For code that
// these make; not meant to be written by hand.
#pragma once
#include "attune/detail/api.h"
#include "attune/detail/array_view.h"
#include "attune/tensor.h"
#include <string_view>

namespace attune::detail {

// A kernel that is linked in. All strings of these records live as long as the program, or the shared object that holds them.
struct VariantRecord {
    std::string_view name, op;
    DType dtype;
    int head_dim;  // 0: any
    std::string_view target, schedule, shape_class, kind, parameters, provenance;
    int tile_q, kv_block;  // of parameters; 1 where the schedule has none
    bool dispatched;
    int (*kernel)(void **);
};

// A capture of the struct. Rank 0: a number.
struct CaptureRecord {
    std::string_view name;
    bool of_scores;  // f64 for f64, else f32; dtype otherwise
    DType dtype;
    int rank;
    // Whether each element is read by one batch entry, or query head, alone; and whether it has a gradient.
    bool by_batch, by_head, has_gradient;
};

struct AttentionRecord {
    std::string_view name, op, backward_op;  // ops of the variants: user_<name>, which no op of the library is named
    ArrayView<const CaptureRecord> captures;
    bool has_mask, mask_by_batch, mask_by_head;
    ArrayView<const VariantRecord> variants;
};

// Registers variants: variants() lists them, and dispatch finds them. One that has the name of a variant of the library, or of
// one that was registered before, takes its place. The records are kept by reference and are never given back.
class ATTUNE_API VariantRegistration {
public:
    explicit VariantRegistration(ArrayView<const VariantRecord>) noexcept;
};

// The same of an attention's, which find_attention() gives from then on.
class ATTUNE_API AttentionRegistration {
public:
    explicit AttentionRegistration(const AttentionRecord &) noexcept;
};
// By its op, or that of its gradients; the latest registered. Null if there is none. The name is read in the call alone.
ATTUNE_API const AttentionRecord *find_attention(std::string_view op) noexcept;

}  // namespace attune::detail
