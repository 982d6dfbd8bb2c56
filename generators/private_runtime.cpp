#include "generators/private_runtime.h"
#include <cstdio>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <string_view>

namespace attune {
namespace {

// The begin of a name of C, or the namespace of one of C++.
struct Renamed {
    std::string_view from, to;
    bool of_cpp;
};
constexpr Renamed renamed[] = {{"halide_", "attune_", false},
                               {"copy_to_device_already_locked", "attune_device_already_locked", false},
                               {"6Halide7Runtime", "6Attune7Runtime", true}};

void rename(char *name) {
    const std::string_view is = name;
    for (const auto &[from, to, of_cpp] : renamed) {
        const std::size_t at = is.find(from);
        if (at == is.npos || of_cpp != is.starts_with("_Z") || (!of_cpp && at != 0)) continue;
        std::memcpy(name + at, to.data(), to.size());
        std::memmove(name + at + to.size(), name + at + from.size(), is.size() - at - from.size() + 1);
        return;
    }
}

// The symbols of an ELF file of this machine, in its bytes; false where it is none.
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
