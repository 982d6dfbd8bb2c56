// SPDX-License-Identifier: MIT
// Bytes as a .npy file of a kind, which the last byte chooses: read, or refused by an InputError; a read array converts, and
// its header reads again. One kind an execution, for most of its time is that of the exceptions.
#include "tools/files/npy.h"
#include "tools/error.h"
#include "tools/files/npy_header.h"
#include <cstring>
#include <new>
#include <sstream>

using namespace attune::program;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t count) {
    const std::string text(reinterpret_cast<const char *>(bytes), count);
    const auto kind = static_cast<ElementKind>(count > 0 ? bytes[count - 1] % 4 : 0);
    try {
        NpyFile npy("--query", "bytes", std::make_unique<std::istringstream>(text), count, kind);
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
    return 0;
}
