#include "lowering/instructions/amx.h"
#include "lowering/instructions/stand_ins.h"

namespace attune {

void load_tiles_past_l1() {
    if (leaves_as_assembly()) let_stand_in("tileloadd\t", "tileloaddt1\t");
}

}  // namespace attune
