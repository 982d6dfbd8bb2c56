// SPDX-License-Identifier: MIT
#include "execution/constant_pages.h"
#include <cstddef>
#include <cstdint>
#include <link.h>
#include <unistd.h>

namespace attune {
namespace {

// Largest segment that is touched: in a larger program constants are a small part, and touching all pages takes long.
constexpr std::size_t most_bytes = 64 << 20;

bool holds(const dl_phdr_info &object, const ElfW(Phdr) & segment, std::uintptr_t address) {
    return segment.p_type == PT_LOAD && address - (object.dlpi_addr + segment.p_vaddr) < segment.p_memsz;
}

[[gnu::no_sanitize_address]] void touch(std::uintptr_t begin, std::size_t bytes) {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    for (std::uintptr_t at = begin / page * page; at < begin + bytes; at += page)
        (void)*reinterpret_cast<const volatile char *>(at);
}

// Touches the segments of constants, neither writable nor executable; some linkers keep constants beside the code.
int touch_constants_of_this(dl_phdr_info *object, std::size_t, void *) {
    const auto within = reinterpret_cast<std::uintptr_t>(&touch);
    bool ours = false, apart = false;
    for (int n = 0; n < object->dlpi_phnum; n++) {
        const ElfW(Phdr) &segment = object->dlpi_phdr[n];
        ours |= holds(*object, segment, within);
        apart |= segment.p_type == PT_LOAD && segment.p_flags == PF_R;
    }
    if (!ours) return 0;
    for (int n = 0; n < object->dlpi_phnum; n++) {
        const ElfW(Phdr) &segment = object->dlpi_phdr[n];
        const bool constants = segment.p_flags == PF_R || (!apart && segment.p_flags == (PF_R | PF_X));
        if (segment.p_type == PT_LOAD && constants && segment.p_memsz <= most_bytes)
            touch(object->dlpi_addr + segment.p_vaddr, segment.p_memsz);
    }
    return 1;
}

}  // namespace

void map_constants() { dl_iterate_phdr(touch_constants_of_this, nullptr); }

}  // namespace attune
