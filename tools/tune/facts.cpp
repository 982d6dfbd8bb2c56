// SPDX-License-Identifier: MIT
// Facts about a target and this machine that constraints may name.
#include "space.h"
#include <unistd.h>

namespace attune::tune {

Facts facts_of(const std::string &halide_target, const std::string &dtype, int head_dim, const Caches &caches) {
    const bool avx512 = halide_target.find("avx512") != std::string::npos,
               avx2 = halide_target.find("avx2") != std::string::npos;
    const int vector_bytes = avx512 ? 64 : avx2 ? 32 : 16;
    const int registers = avx512 || halide_target.starts_with("arm-64") ? 32 : 16;
    const int element = dtype == "bool" ? 1 : dtype == "f64" ? 8 : dtype == "f32" ? 4 : 2, sum = dtype == "f64" ? 8 : 4;
    return {vector_bytes / sum, registers, element, sum, caches.l1_bytes, caches.l2_bytes, head_dim, dtype == "bf16"};
}

Caches caches_here() {
    // Defaults where the system does not know them: sizes that most machines have at least.
    Caches caches{32 << 10, 256 << 10};
#ifdef _SC_LEVEL2_CACHE_SIZE
    if (const long bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE); bytes > 0) caches.l1_bytes = int(bytes);
    if (const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE); bytes > 0) caches.l2_bytes = int(bytes);
#endif
    return caches;
}

}  // namespace attune::tune
