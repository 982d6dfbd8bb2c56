// SPDX-License-Identifier: MIT
// Reading and writing .npy files, versions 1 to 3 of the format. Dense arrays of floats, integers or bool, nothing pickled.
#pragma once
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attune::program {

enum class ElementType { f32, f64, f16, bf16, i32, i64, boolean, i8, u8 };
enum class ElementKind { floats, integers, booleans };
using Shape = std::vector<std::int64_t>;

// "float32", ... as NumPy calls them, and "bfloat16", which is in no file
const char *name_of(ElementType);
std::size_t size_of(ElementType);

// "(2, 3, 4)"
std::string text_of(const Shape &);
// Number of elements; none if the product of the extents that are not 0 does not fit, as in NumPy.
std::optional<std::int64_t> elements_of(const Shape &);

// In C order. Owns its elements; they are not initialised.
struct Array {
    ElementType type = ElementType::f32;
    Shape shape;
    std::unique_ptr<std::byte[]> data;

    Array() = default;
    Array(ElementType, Shape shape);  // throws std::bad_alloc if that does not fit

    int rank() const { return static_cast<int>(shape.size()); }
    std::int64_t elements() const { return *elements_of(shape); }
    std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(type); }
    template<typename T> T *as() { return reinterpret_cast<T *>(data.get()); }
    template<typename T> const T *as() const { return reinterpret_cast<const T *>(data.get()); }
};

// A .npy file of that kind, of which the header is read: what it says is checked against the size of the file and the limits of
// the library before anything is allocated. Throws InputError naming `argument` for everything else.
class NpyFile {
public:
    NpyFile(const std::string &argument, const std::string &path, ElementKind);
    ElementType type() const { return type_; }
    const Shape &shape() const { return shape_; }
    // The elements, once. Fortran order is turned into C order.
    Array read();

    struct Stream {
        std::string argument, path;
        std::ifstream stream = {};
        std::uint64_t size = 0;

        [[noreturn]] void fail(const std::string &what) const;
        void read(void *to, std::uint64_t bytes);
    };

private:
    Stream file_;
    ElementType type_ = ElementType::f32;
    Shape shape_;
    bool fortran_order_ = false;
};

// Throws InputError if a finite value does not fit. Floats are rounded to the nearest. To boolean: from bool or any integers,
// where every value is 0 or 1.
Array converted(Array, ElementType, const std::string &argument);
// Element n of an array of floats, whatever its type.
double float_at(const Array &, std::int64_t n);

// What stands before the elements in the file.
std::string npy_header(ElementType, const Shape &);

}  // namespace attune::program
