// SPDX-License-Identifier: MIT
// The constants of kernels, in memory before they are needed.
#pragma once

namespace attune {

// Maps the read-only data of the program or library that this one is linked into, if that is at most 64 MiB. Kernels load
// constants under masks, say of lanes that are not numbers; where the mask is empty and the page of the constant is not mapped
// yet, a load takes 130 ns on Zen 5, and since it touches nothing the page stays so
// (docs/adr/0041-mapped-constants-and-unpacked-batch-rows.md).
void map_constants();

}  // namespace attune
