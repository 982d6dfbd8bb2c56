// Loads of matrix tiles.
#pragma once

namespace attune {

// Of the kernel that this program makes: matrix tiles are loaded past L1. What is in L1 stays there, such as the factor that was just
// written and that all tiles of the other meet. LLVM knows the instruction and no pass that chooses it (lowering/instructions/stand_ins.h).
void load_tiles_past_l1();

}  // namespace attune
