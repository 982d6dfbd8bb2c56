// SPDX-License-Identifier: MIT
// Reads and writes .npy files; the text of the header is parsed in npy_header.cpp.
#include "tools/files/npy.h"
#include "tools/error.h"
#include "tools/files/input_file.h"
#include "tools/files/npy_header.h"
#include <algorithm>
#include <attune/half.h>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>

namespace attune::program {
namespace {

constexpr std::uint64_t max_header_bytes = 10000;  // NumPy's limit; an array's header has about a hundred

struct TypeFacts {
    ElementType type;
    const char *descr, *name;
    std::size_t bytes;
};
// Element types, in the order of ElementType.
constexpr TypeFacts types[] = {
    {ElementType::f32, "<f4", "float32", 4},  {ElementType::f64, "<f8", "float64", 8}, {ElementType::f16, "<f2", "float16", 2},
    {ElementType::bf16, "", "bfloat16", 2},   {ElementType::i32, "<i4", "int32", 4},   {ElementType::i64, "<i8", "int64", 8},
    {ElementType::boolean, "|b1", "bool", 1}, {ElementType::i8, "|i1", "int8", 1},     {ElementType::u8, "|u1", "uint8", 1},
};
const TypeFacts &facts_of(ElementType type) { return types[static_cast<int>(type)]; }

bool is_float(ElementType type) { return type <= ElementType::bf16; }

bool is_of(ElementKind kind, ElementType type) {
    const bool floats = type == ElementType::f32 || type == ElementType::f64 || type == ElementType::f16;
    const bool integers = type == ElementType::i32 || type == ElementType::i64;
    const bool quantised = type == ElementType::i8 || type == ElementType::u8;
    return kind == ElementKind::floats     ? floats
           : kind == ElementKind::pages    ? floats || quantised
           : kind == ElementKind::integers ? integers
                                           : !floats;
}
constexpr const char *expected_of[] = {"expected float32, float64 or float16",
                                       "expected float32, float64, float16, int8 or uint8", "expected int32 or int64",
                                       "expected bool, or 0 and 1 as uint8, int8, int32 or int64"};

// Copies a Fortran-ordered array, whose element (i0, i1, ...) is at i0 + i1 * n0 + ..., row by row into C order.
template<typename T> void transpose_into(T *to, const T *from, const Shape &shape) {
    const std::size_t rank = shape.size();
    std::vector<std::int64_t> stride(rank, 1), at(rank, 0);
    for (std::size_t n = 1; n < rank; n++) stride[n] = stride[n - 1] * shape[n - 1];
    const std::int64_t count = *elements_of(shape);
    std::int64_t source = 0;
    for (std::int64_t n = 0; n < count; n++) {
        to[n] = from[source];
        for (std::size_t d = rank; d-- > 0;) {
            source += stride[d];
            if (++at[d] < shape[d]) break;
            source -= stride[d] * shape[d];
            at[d] = 0;
        }
    }
}

Array in_c_order(const Array &fortran) {
    Array out(fortran.type, fortran.shape);
    if (size_of(out.type) == 1)
        transpose_into(out.as<std::uint8_t>(), fortran.as<std::uint8_t>(), out.shape);
    else if (size_of(out.type) == 2)
        transpose_into(out.as<std::uint16_t>(), fortran.as<std::uint16_t>(), out.shape);
    else if (size_of(out.type) == 4)
        transpose_into(out.as<std::uint32_t>(), fortran.as<std::uint32_t>(), out.shape);
    else
        transpose_into(out.as<std::uint64_t>(), fortran.as<std::uint64_t>(), out.shape);
    return out;
}

NpyHeader read_header(NpyFile::Stream &file, std::uint64_t &data_at) {
    unsigned char prefix[12] = {};
    if (file.size < 6) file.fail("is not a .npy file");
    file.read(prefix, 6);
    if (std::memcmp(prefix, "PK\x03\x04", 4) == 0) file.fail("is an archive (.npz?), expected one array (.npy)");
    if (std::memcmp(prefix, "\x93NUMPY", 6) != 0) file.fail("is not a .npy file");
    if (file.size < 10) file.fail("is truncated in its header");
    file.read(prefix + 6, 4);
    const int version = prefix[6], minor = prefix[7];
    if (version < 1 || version > 3 || minor != 0)
        file.fail("has version " + std::to_string(version) + "." + std::to_string(minor) +
                  " of the format, expected 1.0, 2.0 or 3.0");
    if (version > 1 && file.size < 12) file.fail("is truncated in its header");
    std::uint64_t length = prefix[8] | std::uint64_t(prefix[9]) << 8;
    if (version > 1) {
        file.read(prefix + 10, 2);
        length |= std::uint64_t(prefix[10]) << 16 | std::uint64_t(prefix[11]) << 24;
    }
    data_at = (version > 1 ? 12 : 10) + length;
    if (data_at > file.size) file.fail("is truncated in its header");
    if (length > max_header_bytes)
        file.fail("has a header of " + std::to_string(length) + " bytes, expected at most " + std::to_string(max_header_bytes));
    std::string text(length, '\0');
    file.read(text.data(), length);
    NpyHeader header;
    if (const std::string wrong = parse_npy_header(text, version < 3, header); !wrong.empty()) file.fail(wrong);
    return header;
}

ElementType type_of(const NpyFile::Stream &file, const NpyHeader &header, ElementKind kind) {
    const std::string &descr = header.descr;
    const std::string expected = expected_of[static_cast<int>(kind)];
    if (descr.find('O') != std::string::npos) file.fail("holds Python objects, which are never unpickled; " + expected);
    for (const TypeFacts &known : types)
        if (descr == known.descr && !descr.empty() && is_of(kind, known.type)) return known.type;
    if (!descr.empty() && descr[0] == '>') file.fail("is big-endian (" + name_of_descr(descr) + "), expected little-endian");
    file.fail("its elements are " + name_of_descr(descr) + ", " + expected);
}

void set_number(Array &array, std::int64_t n, double x) {
    switch (array.type) {
    case ElementType::f64: array.as<double>()[n] = x; break;
    case ElementType::f16: array.as<float16>()[n] = to_float16(x); break;
    case ElementType::bf16: array.as<bfloat16>()[n] = to_bfloat16(x); break;
    default: array.as<float>()[n] = static_cast<float>(x);
    }
}

void convert_floats(Array &to, const Array &from, std::int64_t count, const std::string &argument) {
    for (std::int64_t n = 0; n < count; n++) {
        const double x = float_at(from, n);
        set_number(to, n, x);
        if (std::isfinite(x) && !std::isfinite(float_at(to, n))) {
            char text[32];
            std::snprintf(text, sizeof text, "%.6g", x);
            throw InputError(argument, std::string("holds ") + text + ", beyond the range of " + name_of(to.type));
        }
    }
}

void narrow_integers(std::int32_t *to, const std::int64_t *from, std::int64_t count, const std::string &argument) {
    for (std::int64_t n = 0; n < count; n++) {
        if (from[n] < std::numeric_limits<std::int32_t>::min() || from[n] > std::numeric_limits<std::int32_t>::max())
            throw InputError(argument, "holds " + std::to_string(from[n]) + ", beyond the range of int32");
        to[n] = static_cast<std::int32_t>(from[n]);
    }
}

template<typename From> void to_booleans(bool *to, const From *from, std::int64_t count, const std::string &argument) {
    for (std::int64_t n = 0; n < count; n++) {
        if (from[n] != 0 && from[n] != 1)
            throw InputError(argument, "holds " + std::to_string(from[n]) + ", expected True and False, or 0 and 1");
        to[n] = from[n] == 1;
    }
}

}  // namespace

const char *name_of(ElementType type) { return facts_of(type).name; }

std::size_t size_of(ElementType type) { return facts_of(type).bytes; }

std::string text_of(const Shape &shape) {
    std::string text = "(";
    for (std::size_t n = 0; n < shape.size(); n++) text += (n ? ", " : "") + std::to_string(shape[n]);
    return text + (shape.size() == 1 ? ",)" : ")");
}

std::optional<std::int64_t> elements_of(const Shape &shape) {
    std::int64_t count = 1, all = 1;
    for (std::int64_t e : shape) {
        count *= e != 0;
        if (e != 0 && __builtin_mul_overflow(all, e, &all)) return {};
    }
    // The size in bytes must fit as well.
    if (all > std::numeric_limits<std::int64_t>::max() / 8) return {};
    return count ? all : 0;
}

Array::Array(ElementType type_, Shape shape_) : type(type_), shape(std::move(shape_)) {
    const std::optional<std::int64_t> count = elements_of(shape);
    if (!count) throw std::bad_alloc();
    data = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(*count) * size_of(type));
}

NpyFile::NpyFile(const std::string &argument, const std::string &path, ElementKind kind) : file_{argument, path} {
    file_.stream = std::make_unique<std::ifstream>(open_input(argument, path, file_.size));
    read_header_of(kind);
}

NpyFile::NpyFile(const std::string &argument, const std::string &path, std::unique_ptr<std::istream> stream,
                 std::uint64_t bytes, ElementKind kind)
    : file_{argument, path, std::move(stream), bytes} {
    read_header_of(kind);
}

void NpyFile::read_header_of(ElementKind kind) {
    std::uint64_t data_at = 0;
    const NpyHeader header = read_header(file_, data_at);
    type_ = type_of(file_, header, kind), shape_ = header.shape, fortran_order_ = header.fortran_order;
    const std::optional<std::int64_t> count = elements_of(shape_);
    if (!count) file_.fail("its header says shape " + text_of(shape_) + ", which is too large");
    const std::uint64_t expected = static_cast<std::uint64_t>(*count) * size_of(type_), found = file_.size - data_at;
    if (found < expected)
        file_.fail("is truncated: shape " + text_of(shape_) + " takes " + std::to_string(expected) + " bytes, the file has " +
                   std::to_string(found));
    if (found > expected) file_.fail("has " + std::to_string(found - expected) + " bytes after the array");
    if (*count > std::numeric_limits<std::int32_t>::max())
        file_.fail("has shape " + text_of(shape_) + ", more than 2^31 - 1 elements");
}

Array NpyFile::read() {
    Array array(type_, shape_);
    file_.read(array.data.get(), array.bytes());
    return fortran_order_ && array.rank() > 1 ? in_c_order(array) : std::move(array);
}

void NpyFile::Stream::fail(const std::string &what) const { throw InputError(argument, path + ": " + what); }

void NpyFile::Stream::read(void *to, std::uint64_t bytes) {
    if (!stream->read(static_cast<char *>(to), static_cast<std::streamsize>(bytes))) fail("cannot be read to its end");
}

Array converted(Array from, ElementType type, const std::string &argument) {
    if (from.type == type && type != ElementType::boolean) return from;  // a file may hold any bytes as bool
    Array to(type, from.shape);
    const std::int64_t count = to.elements();
    if (is_float(type) && is_float(from.type))
        convert_floats(to, from, count, argument);
    else if (type == ElementType::i32 && from.type == ElementType::i64)
        narrow_integers(to.as<std::int32_t>(), from.as<std::int64_t>(), count, argument);
    else if (type == ElementType::i64 && from.type == ElementType::i32)
        std::copy_n(from.as<std::int32_t>(), count, to.as<std::int64_t>());
    else if (type == ElementType::boolean && from.type == ElementType::i32)
        to_booleans(to.as<bool>(), from.as<std::int32_t>(), count, argument);
    else if (type == ElementType::boolean && from.type == ElementType::i64)
        to_booleans(to.as<bool>(), from.as<std::int64_t>(), count, argument);
    else if (type == ElementType::boolean && from.type == ElementType::i8)
        to_booleans(to.as<bool>(), from.as<std::int8_t>(), count, argument);
    else if (type == ElementType::boolean && (from.type == ElementType::u8 || from.type == ElementType::boolean))
        to_booleans(to.as<bool>(), from.as<std::uint8_t>(), count, argument);
    else
        throw MachineError(argument, std::string("no conversion from ") + name_of(from.type) + " to " + name_of(type));
    return to;
}

double float_at(const Array &array, std::int64_t n) {
    switch (array.type) {
    case ElementType::f64: return array.as<double>()[n];
    case ElementType::f16: return static_cast<double>(to_float(array.as<float16>()[n]));
    case ElementType::bf16: return static_cast<double>(to_float(array.as<bfloat16>()[n]));
    default: return static_cast<double>(array.as<float>()[n]);
    }
}

std::string npy_header(ElementType type, const Shape &shape) {
    std::string text =
        std::string("{'descr': '") + facts_of(type).descr + "', 'fortran_order': False, 'shape': " + text_of(shape) + ", }";
    // The format asks for spaces and a line end up to a multiple of 64 bytes, where the elements begin.
    text.append(63 - (10 + text.size()) % 64, ' ');
    text += '\n';
    std::string header = "\x93NUMPY";
    header += '\x01';
    header += '\0';
    header += static_cast<char>(text.size() & 255);
    header += static_cast<char>(text.size() >> 8);
    return header + text;
}

}  // namespace attune::program
