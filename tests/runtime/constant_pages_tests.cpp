// SPDX-License-Identifier: MIT
// Pages of constants are mapped when a kernel runs (runtime/src/execution/constant_pages.h).
#include "tests/support/catch.h"
#include <attune/attune.h>
#include <cstdint>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

namespace {

struct Pages {
    std::uint64_t all = 0, mapped = 0;
};

// Counts pages of the segments of this program that are neither writable nor executable.
int count_read_only(dl_phdr_info *object, std::size_t, void *counted) {
    Pages &pages = *static_cast<Pages *>(counted);
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const int map = open("/proc/self/pagemap", O_RDONLY);
    for (int n = 0; n < object->dlpi_phnum; n++) {
        const auto &segment = object->dlpi_phdr[n];
        if (segment.p_type != PT_LOAD || segment.p_flags != PF_R) continue;
        const std::uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
        for (std::uintptr_t at = begin / page; at * page < begin + segment.p_memsz; at++) {
            std::uint64_t entry = 0;
            const bool read = pread(map, &entry, sizeof entry, static_cast<off_t>(at * sizeof entry)) == sizeof entry;
            pages.all++, pages.mapped += read && entry >> 63;
        }
    }
    close(map);
    return 1;  // the first object is the program
}

}  // namespace

TEST_CASE("constants are mapped before a kernel needs them", "[runtime][memory]") {
    if (access("/proc/self/pagemap", R_OK) != 0) {
        WARN("SKIPPED: /proc/self/pagemap is not readable here");
        return;
    }
    attune::Context context;
    float x[2] = {1, 2}, out[2];
    REQUIRE(attune::masked_softmax(context, attune::ConstView(x, {1, 2}), attune::View(out, {1, 2})).ok());
    Pages pages;
    dl_iterate_phdr(count_read_only, &pages);
    CHECK(pages.all > 0);
    CHECK(pages.mapped == pages.all);
}
