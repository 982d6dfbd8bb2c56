// Products of matrices, which the lanes of a warp compute together.
#pragma once
#include "lanes.h"

namespace ptx {

float float_of_f16(std::uint16_t bits);
float float_of_bf16(std::uint16_t bits);

// mma.m16n8k16, rows by columns: which lane has which element is that of PTX ISA 7.0, section 9.7.13.4.8. Each product is added
// with a rounding of its own; the order of a GPU is not documented.
void multiply_matrices(Registers &, const Instruction &, float (*element)(std::uint16_t));

// ldmatrix.m8n8.x4 of 16-bit elements (same manual, 9.7.13.4.10): rows holds the row of 16 bytes that each lane points to, row
// lane % 8 of matrix lane / 8.
void load_matrices(Registers &, const Instruction &, const char *const (&rows)[lanes], bool transposed);

}  // namespace ptx
