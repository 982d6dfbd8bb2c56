// How attention in the form of fragment_stages.h is computed: on a GPU. No equation, no Func of its own.
#pragma once
#include "generators/sdpa/fragment_stages.h"

namespace attune {

// A block is one tile of queries of one head. Its warps stage the keys and values of a chunk in shared memory, together, and
// hold all else in registers.
void schedule_fragments(FragmentStages &, Halide::Func out, const FragmentShape &);

// Of tensor cores. `type`: float16, or uint16 that holds bf16.
FragmentInstructions fragment_instructions(const Halide::Target &, const Halide::Type &type);

}  // namespace attune
