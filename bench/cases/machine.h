// SPDX-License-Identifier: MIT
// What this machine can do at most, measured here and now: multiply-adds and reads per second, at the widest vectors of this
// CPU. And what the machine is, in words.
#pragma once
#include "attune/tensor.h"
#include "team.h"
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace bench {

// "avx512f", "avx2+fma", "sse2" or "scalar": the vectors that both measures use.
const char *vector_isa();

// FLOP/s of independent multiply-adds on registers, all threads of the team; the best of a few trials of about 10 ms.
double fma_peak(Team &, attune::DType);

// The same of vdpbf16ps, which adds the products of two pairs of bf16 to a float: 4 FLOPs an element of 32 bits. 0 where the
// CPU has none.
double bf16_dot_peak(Team &);

// The same of tdpbf16ps, the product of two AMX tiles of bf16.
double bf16_tile_peak(Team &);

// The most of all that products of elements of this type can be made with.
double product_peak(Team &, attune::DType);

// Reads every element of the arrays once and adds them up, in vectors: what a kernel that must read them takes at least.
struct Bytes {
    const void *data;
    std::size_t size;
};
void plain_sum(Team &, attune::DType, const std::vector<Bytes> &arrays);

// bytes/s of plain_sum over an array beyond any cache (256 MiB), the best of a few.
double read_bandwidth(Team &);

// CPU seconds that everything but this process has taken so far, what the hypervisor withheld included; 0 where /proc is not
// readable. Its growth during a measurement says whether the machine was ours.
double cpu_seconds_of_others();

// CPU model, cores, clock governor, kernel, compiler... as key and value.
std::vector<std::pair<std::string, std::string>> describe_machine();

}  // namespace bench
