// SPDX-License-Identifier: MIT
// Peaks of this machine, measured when called: multiply-adds and reads per second, at the widest vectors of this CPU; its
// caches and clock; and its description in words.
#pragma once
#include "attune/tensor.h"
#include "team.h"
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace bench {

// Vectors of both measures, "avx512f", "avx2+fma", "sse2", "neon" or "scalar"; and the bytes of one.
const char *vector_isa();
int vector_bytes();

// Cycles per second of one core at work, by additions that wait for one another; the best of a few trials of about 3 ms.
double clock_rate();

// FLOP/s of independent multiply-adds on registers, all threads of the team; the best of a few trials of about 10 ms.
double fma_peak(Team &, attune::DType);

// FLOP/s of vdpbf16ps or bfdot, which add the products of two pairs of bf16 to a float: 4 FLOPs per 32-bit element. 0 where the
// CPU has neither.
double bf16_dot_peak(Team &);

// FLOP/s of tdpbf16ps, the product of two AMX tiles of bf16; 0 where the CPU has none.
double bf16_tile_peak(Team &);

// The highest of these peaks for products of elements of this type.
double product_peak(Team &, attune::DType);

// Reads every element of the arrays once and adds them up, in vectors: the least work of a kernel that must read them.
struct Bytes {
    const void *data;
    std::size_t size;
};
void plain_sum(Team &, attune::DType, const std::vector<Bytes> &arrays);

// bytes/s of plain_sum over an array beyond any cache (256 MiB), the best of a few.
double read_bandwidth(Team &);

// bytes/s of such a sum on one thread over an array of so many bytes, read again and again; the best of a few.
double cached_read_rate(std::size_t bytes);

// The caches of data of the first core, as Linux lists them; empty where it lists none.
struct Cache {
    int level;
    std::size_t bytes;
};
std::vector<Cache> data_caches();

// CPU seconds that other processes have taken so far, including time withheld by the hypervisor; 0 where /proc is not readable.
// Its growth during a measurement shows the foreign load.
double cpu_seconds_of_others();

// CPU model, cores, clock governor, kernel, compiler... as key and value.
std::vector<std::pair<std::string, std::string>> describe_machine();

}  // namespace bench
