// SPDX-License-Identifier: MIT
// The header of a .npy file: a Python literal such as {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attune::program {

struct NpyHeader {
    std::string descr;  // empty: a structured type
    bool fortran_order = false;
    std::vector<std::int64_t> shape;
};

// Parses the header; returns its fault, empty if there is none. Throws std::bad_alloc only. NumPy's reader accepts all that is
// accepted here; `of_python_2`: extents may end with L, as in versions 1 and 2 of the format.
std::string parse_npy_header(std::string_view text, bool of_python_2, NpyHeader &);

// "float16" for "<f2"; the text itself, if it is short and printable, for types without a name.
std::string name_of_descr(std::string_view descr);

}  // namespace attune::program
