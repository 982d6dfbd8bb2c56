// SPDX-License-Identifier: MIT
// The kernels that are linked in: a table for each op (ops.h), which CMake writes, and the variants registered beside them.
#pragma once
#include "attune/detail/registration.h"
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

using detail::AttentionRecord, detail::Kind, detail::Schedule, detail::VariantRecord;

// The variants of the ops that are linked in (ops.h) and the variants that were registered (detail/registration.h), also later
// than others ran. Listed once for each generation, since every call on a device asks; a list is never destroyed.
using VariantRecords = std::vector<const VariantRecord *>;
const VariantRecords &variant_records();
// Goes up with each registration.
int variant_generation() noexcept;

// missing_variants() (variants.h) of the ops that are linked in.
std::string missing_linked_variants();
// The same of a CPU that runs the targets `usable`, with kernels of the targets `tuned`: the most specific first.
std::string missing_variants(std::span<const std::string_view> usable, std::span<const std::string_view> tuned);

// Null if there is none.
const VariantRecord *find_variant(std::string_view name) noexcept;
// Whether a name is of an op of the library that this program does not call, and so does not have.
bool is_of_unlinked_op(std::string_view name) noexcept;

// A parameter called `name` of a variant, as CMake wrote it: "kv_block=128 tile_q=64".
int parameter_of(const VariantRecord &, std::string_view name, int otherwise);

// Whether this machine runs a target.
bool runs_here(std::string_view target) noexcept;
// Or a device's.
bool is_cpu_target(std::string_view target) noexcept;

}  // namespace attune
