// SPDX-License-Identifier: MIT
// Mapping of the pages of kernels' constants before the first call needs them.
#pragma once

namespace attune {

// Maps the read-only data of the program or library that holds this function, if that is at most 64 MiB. Kernels load constants
// under masks, say of lanes that are not numbers; where the mask is empty and the constant's page is not mapped yet, a load
// takes 130 ns on Zen 5, and since a load under an empty mask touches nothing the page stays unmapped
// (docs/adr/0041-mapped-constants-and-unpacked-batch-rows.md).
void map_constants();

}  // namespace attune
