// SPDX-License-Identifier: MIT
// NumPy and torch as calls use them: objects and function tables that are looked up once.
#pragma once
#include "dlpack.h"
#include <attune/tensor.h>
#include <nanobind/nanobind.h>

namespace attune_python {

namespace nb = nanobind;

// Objects of NumPy. Never released: a module may outlive the interpreter's modules.
struct NumPy {
    nb::object array, masked_array, empty, asarray, types[9];
    NumPy();
};
const NumPy &numpy();
// NumPy's type of an element type; of bf16 that of the package ml_dtypes, ValueError without it.
const nb::object &numpy_type(attune::DType);
bool is_numpy(nb::handle array);

// The facts kept of a type: the function table of its __dlpack_c_exchange_api__, or null, and whether it is torch's, whose
// arrays may be negated views and require gradients.
struct Exchange {
    PyTypeObject *type;
    const dlpack::ExchangeApi *api;
    bool is_torch;
};
Exchange exchange_of(PyTypeObject *);

// A call of a method without arguments, whose result is True.
bool is_true(PyObject *object, PyObject *method);

// DLPack's name of an element type.
dlpack::DataType dlpack_type(attune::DType);

}  // namespace attune_python
