// SPDX-License-Identifier: MIT
// The variants of the library that this machine runs and dispatch may choose, listed once for each op, type, head size and
// kind.
#pragma once
#include "dispatch/ops.h"
#include "dispatch/variant_table.h"
#include <cstdint>
#include <span>
#include <string_view>

namespace attune {

// Needs of a call that a variant must serve. Ops other than attention have one kind, "", and no head size.
struct VariantNeeds {
    Op op;
    DType dtype = DType::f32;
    Kind kind = Kind::none;
    std::int64_t head_dim = 0, value_dim = 0;
};

// A variant with its parameters as numbers.
struct Runnable {
    const VariantRecord *record;
    bool on_device;                            // for tensors there
    bool few_rows, full_tiles, rank_k_update;  // of products
    std::int64_t tile_rows, tile_columns;      // of attention: queries, or rows, of a tile; 1 column
    std::int64_t block;                        // keys of a KV block; the depth of a depth block
    std::int64_t key_step;                     // of decode: keys that it computes at once, the last ones padded to as many
    std::int64_t task_rows;                    // of products
    std::int64_t channels, split_keys;         // of attention on a device; 0 split_keys: keys are not cut
    detail::CostCoefficients cost;
};
Runnable runnable_of(const VariantRecord &);
// Whether a kernel of products multiplies by AMX tiles.
inline bool multiplies_amx_tiles(const VariantRecord &v) {
    return v.schedule_id == Schedule::amx || v.schedule_id == Schedule::amx_gemv;
}
// Whether a kernel of products takes only sizes that fill its tiles: Runnable::full_tiles.
bool takes_full_tiles(const VariantRecord &);

// The variants that offer what a call needs: for each schedule and class the one of the most specific target, of the kind with
// the fewest options, and for the head size of the call if there is one. Root schedules are listed only where there is nothing
// else.
std::span<const Runnable> runnables(const VariantNeeds &);

// The variants of an op for a device target, those with the fewest options first.
std::span<const Runnable> device_runnables(const Op &, DType, std::string_view target);

// A kind of attention that offers every option of another. "weights" is another output and offers nothing else.
bool offers(Kind kind, Kind needed);

}  // namespace attune
