// The constants of kernels, in memory before they are needed.
#pragma once

namespace attune {

// Maps the read-only data of the program or library that this one is linked into, if that is at most 64 MiB. x86 loads a constant
// under a mask, say of lanes that are not numbers; where the mask is empty and the page of the constant is not mapped yet, the load
// takes 130 ns, and since it touches nothing the page stays so: measured on Zen 5, where a loop that narrows sums to f16 took 40 times as long.
void map_constants();

}  // namespace attune
