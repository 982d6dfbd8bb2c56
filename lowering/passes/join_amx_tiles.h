// SPDX-License-Identifier: MIT
// Join of AMX tiles that share their factors.
//
// Halide 21 has one form of a sum in a tile register: zeroed, added to in a loop over steps, stored, one tile after the other
// (halide/Halide#5818, #6054). So a factor that four tiles share is loaded four times, and every product waits for the one
// before. Halide 22 recognises more (#9122, #9261) and may join tiles by unrolling.
//
//     allocate t; zero(t); for (k) t += a0(k) b0(k); store(t);  allocate t; zero(t); for (k) t += a0(k) b1(k); store(t)
//     ->  allocate t.0, t.1; zero both; for (k) { t.0 += a0(k) b0(k); t.1 += a0(k) b1(k) } store both
//
// Refused: an allocation of tiles that is no such sum, adjacent tiles whose loops differ, and a kernel without tiles.
#pragma once
#include "Halide.h"

namespace attune {

void join_amx_tiles(Halide::Pipeline);

}  // namespace attune
