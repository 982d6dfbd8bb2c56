// SPDX-License-Identifier: MIT
// Reading and writing .npy files, versions 1 to 3 of the format. Dense arrays of floats, integers or bool, nothing pickled.
#pragma once
#include <cstddef>
#include <cstdint>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attune::program {

enum class ElementType { f32, f64, f16, bf16, i32, i64, boolean, i8, u8 };
enum class ElementKind { floats, pages, integers, booleans };  // pages: floats, or int8 or uint8 where they are quantised
using Shape = std::vector<std::int64_t>;

// Names of types as in NumPy, "float32", ..., and "bfloat16", which no file has
const char *name_of(ElementType);
std::size_t size_of(ElementType);

// "(2, 3, 4)"
std::string text_of(const Shape &);
// Number of elements; empty if the product of the nonzero extents does not fit, as in NumPy.
std::optional<std::int64_t> elements_of(const Shape &);

// An array in C order. Owns its elements, which are not initialised.
struct Array {
    ElementType type = ElementType::f32;
    Shape shape;
    std::unique_ptr<std::byte[]> data;

    Array() = default;
    Array(ElementType, Shape shape);  // throws std::bad_alloc

    int rank() const { return static_cast<int>(shape.size()); }
    std::int64_t elements() const { return *elements_of(shape); }
    std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(type); }
    template<typename T> T *as() { return reinterpret_cast<T *>(data.get()); }
    template<typename T> const T *as() const { return reinterpret_cast<const T *>(data.get()); }
};

// A .npy file of a kind, whose header is read: it is checked against the size of the file and the limits of the library before
// anything is allocated. Throws InputError naming `argument` for any other file.
class NpyFile {
public:
    NpyFile(const std::string &argument, const std::string &path, ElementKind);
    // The same of a stream of so many bytes, which messages call `path`.
    NpyFile(const std::string &argument, const std::string &path, std::unique_ptr<std::istream>, std::uint64_t bytes,
            ElementKind);
    ElementType type() const { return type_; }
    const Shape &shape() const { return shape_; }
    // Reads the elements, once. Fortran order becomes C order.
    Array read();

    struct Stream {
        std::string argument, path;
        std::unique_ptr<std::istream> stream = {};
        std::uint64_t size = 0;

        [[noreturn]] void fail(const std::string &what) const;
        void read(void *to, std::uint64_t bytes);
    };

private:
    void read_header_of(ElementKind);

    Stream file_;
    ElementType type_ = ElementType::f32;
    Shape shape_;
    bool fortran_order_ = false;
};

// Converts an array; floats are rounded to nearest. To boolean: from bool or any integers whose values are all 0 or 1. Throws
// InputError if a finite value does not fit.
Array converted(Array, ElementType, const std::string &argument);
// Element n of an array of floats, whatever its type.
double float_at(const Array &, std::int64_t n);

// The bytes before the elements in the file.
std::string npy_header(ElementType, const Shape &);

}  // namespace attune::program
