// What CMake knows of the kernels that are linked in (cmake/attune_add_op.cmake writes the definitions).
#pragma once
#include "attune/tensor.h"
#include <cstdint>
#include <span>
#include <string_view>

namespace attune {

struct VariantRecord {
    std::string_view name, op;
    DType dtype;
    int head_dim;  // 0: any
    std::string_view target, schedule, shape_class, kind, numbers, provenance;
    int tile_q, chunk;  // of numbers; 1 where the schedule has none
    bool dispatched;
    int (*kernel)(void **);
};

// Boundaries of the classes of shapes, from schedules/targets.json.
struct SdpaShapeClasses {
    std::int64_t decode_rows_at_most, decode_keys_at_least, split_queries_at_most, short_queries_at_most, short_keys_at_most;
    std::int64_t long_padding_percent_at_most;  // queries that the last tile is padded with, of all
};

std::span<const VariantRecord> variant_records() noexcept;
const SdpaShapeClasses &sdpa_shape_classes() noexcept;

// Null if there is none.
const VariantRecord *find_variant(std::string_view name) noexcept;

// Whether this machine runs a target; asked once per process.
bool runs_here(std::string_view target) noexcept;

}  // namespace attune
