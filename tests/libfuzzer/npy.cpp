// SPDX-License-Identifier: MIT
// Bytes as a .npy file of every kind: read, or refused by an InputError; a read array converts, and its header reads again.
#include "tools/files/npy.h"
#include "tests/libfuzzer/file_of_bytes.h"
#include "tools/error.h"
#include "tools/files/npy_header.h"
#include <cstring>
#include <new>

using namespace attune::program;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t count) {
    NpyHeader header;
    parse_npy_header({reinterpret_cast<const char *>(bytes), count}, count % 2, header);
    const FileOfBytes file(bytes, count);
    for (const ElementKind kind : {ElementKind::floats, ElementKind::pages, ElementKind::integers, ElementKind::booleans}) {
        try {
            NpyFile npy("--query", file.path(), kind);
            const Shape shape = npy.shape();
            Array array = npy.read();
            if (array.shape != shape || array.bytes() > count) std::abort();
            const std::string written = npy_header(array.type, array.shape);
            NpyHeader again;
            if (!parse_npy_header(written.substr(10), true, again).empty() || again.shape != array.shape) std::abort();
            const ElementType to = kind == ElementKind::floats     ? ElementType::f16
                                   : kind == ElementKind::integers ? ElementType::i32
                                   : kind == ElementKind::booleans ? ElementType::boolean
                                                                   : array.type;
            if (to != array.type) converted(std::move(array), to, "--query");
        } catch (const InputError &) {}
    }
    return 0;
}
