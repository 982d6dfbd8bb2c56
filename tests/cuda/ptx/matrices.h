// SPDX-License-Identifier: MIT
// Matrix instructions, which the lanes of a warp compute together.
#pragma once
#include "lanes.h"
#include <array>

namespace ptx {

// The elements of a word: two 16-bit ones, or one tf32 and a 0. The last 13 bits of a tf32 are not read.
using ElementsOf = std::array<float, 2> (*)(std::uint32_t word);
std::array<float, 2> elements_of_f16(std::uint32_t word);
std::array<float, 2> elements_of_bf16(std::uint32_t word);
std::array<float, 2> elements_of_tf32(std::uint32_t word);

// mma.m16n8k16 of 16-bit types and m16n8k8 of tf32, rows by columns; the layout of words in lanes is that of PTX ISA 7.0,
// sections 9.7.13.4.8 and 9.7.13.4.6. Each product is added with a rounding of its own; a GPU's order is not documented.
void multiply_matrices(Registers &, const Instruction &, ElementsOf elements);

// ldmatrix.m8n8.x4 of 16-bit elements (same manual, 9.7.13.4.10): rows has each lane's pointer to a row of 16 bytes, row lane %
// 8 of matrix lane / 8.
void load_matrices(Registers &, const Instruction &, const char *const (&rows)[lanes], bool transposed);

}  // namespace ptx
