// SPDX-License-Identifier: MIT
#include "lowering/halide_patches/private_runtime.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <string_view>

namespace attune {
namespace {

// A name's part to replace: at the begin of a C function's name, anywhere in others. The table of names may store one name as
// the end of another, so the length stays.
struct Renamed {
    std::string_view from, to;
};
constexpr Renamed renamed[] = {{"halide_", "attune_"},
                               {"6Halide", "6Attune"},  // the namespace, of C++
                               {"copy_to_device_already_locked", "attune_device_already_locked_"},
                               {"cuda_allocation_pool", "attune_cuda_memories"},
                               {"cuda_device_crop", "attune_cuda_crop"},
                               {"cuda_do_multidimensional", "attune_cuda_of_many_dims"},
                               {"opencl_device_crop", "attune_opencl_crop"},
                               {"opencl_do_multidimensional", "attune_opencl_of_many_dims"}};
static_assert(std::all_of(std::begin(renamed), std::end(renamed), [](Renamed r) { return r.from.size() == r.to.size(); }));

void rename(char *name) {
    const std::string_view is = name;
    if (is.starts_with("attune_")) return;
    for (const auto &[from, to] : renamed) {
        const std::size_t at = is.find(from);
        if (at == is.npos || (from == "halide_" && at != 0) || (from == "6Halide" && !is.starts_with("_Z"))) continue;
        std::memcpy(name + at, to.data(), to.size());
        return;
    }
}

// Renames the symbols in the bytes of an ELF file for this machine; false for any other file.
bool rename_symbols(std::string &bytes) {
    Elf64_Ehdr header;
    if (bytes.size() < sizeof header) return false;
    std::memcpy(&header, bytes.data(), sizeof header);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) || header.e_ident[EI_CLASS] != ELFCLASS64) return false;
    const auto section = [&](std::size_t n) {
        Elf64_Shdr s;
        std::memcpy(&s, bytes.data() + header.e_shoff + n * sizeof s, sizeof s);
        return s;
    };
    const std::size_t count = header.e_shnum ? header.e_shnum : section(0).sh_size;
    for (std::size_t n = 0; n < count; n++) {
        const Elf64_Shdr symbols = section(n);
        if (symbols.sh_type != SHT_SYMTAB) continue;
        const Elf64_Shdr names = section(symbols.sh_link);
        for (std::size_t at = 0; at < symbols.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            std::memcpy(&symbol, bytes.data() + symbols.sh_offset + at, sizeof symbol);
            if (ELF64_ST_BIND(symbol.st_info) != STB_LOCAL) rename(bytes.data() + names.sh_offset + symbol.st_name);
        }
    }
    return true;
}

}  // namespace

bool make_runtime_private(const std::string &object_file) {
    std::ifstream in(object_file, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const bool read = in.is_open() && rename_symbols(bytes);
    if (read && std::ofstream(object_file, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size())).flush())
        return true;
    std::fprintf(stderr, "attune: %s: %s\n", object_file.c_str(),
                 read ? "cannot be written" : "is no object of ELF for 64 bits");
    return false;
}

}  // namespace attune
