// SPDX-License-Identifier: MIT
#include "libraries.h"
#include <vector>

namespace attune_python {

using attune::DType;

NumPy::NumPy() {
    const nb::module_ module = nb::module_::import_("numpy");
    array = module.attr("ndarray"), masked_array = module.attr("ma").attr("MaskedArray");
    empty = module.attr("empty"), asarray = module.attr("asarray");
    const char *names[] = {"float32", "float64", "int32", "bool", "", "float16", "int8", "uint8", "int64"};
    for (int n = 0; n < 9; n++)
        if (*names[n]) types[n] = module.attr("dtype")(names[n]);
}
const NumPy &numpy() {
    // Python's lock guards this, not a guard of C++: an import may hand the lock to a thread that would wait for the guard.
    static const NumPy *found = nullptr;
    if (!found) found = new NumPy;
    return *found;
}

const nb::object &numpy_type(DType type) {
    auto &known = const_cast<nb::object &>(numpy().types[static_cast<int>(type)]);
    if (!known.is_valid()) {  // NumPy has no bfloat16 of its own
        try {
            known = nb::module_::import_("numpy").attr("dtype")(nb::module_::import_("ml_dtypes").attr("bfloat16"));
        } catch (nb::python_error &) {
            throw nb::value_error("out: a bf16 array needs the package ml_dtypes, which is not installed; or give out");
        }
    }
    return known;
}

// Types are few and live long: the list is searched by address.
Exchange exchange_of(PyTypeObject *type) {
    static std::vector<Exchange> *const known = new std::vector<Exchange>;
    for (const Exchange &k : *known)
        if (k.type == type) return k;
    const dlpack::ExchangeApi *api = nullptr;
    const nb::handle of(reinterpret_cast<PyObject *>(type));
    if (const nb::object capsule = nb::getattr(of, "__dlpack_c_exchange_api__", nb::none());
        PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) {
        api = static_cast<const dlpack::ExchangeApi *>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
        while (api && api->version.major > 1) api = api->previous;
        if (api && api->version.major != 1) api = nullptr;
    }
    const Exchange found{type, api, api && nb::hasattr(of, "is_neg") && nb::hasattr(of, "requires_grad")};
    if (known->size() < 64) {
        of.inc_ref();  // the address names this type as long as the process lives
        known->push_back(found);
    }
    return found;
}

// A call of a method without arguments, whose result is True.
bool is_true(PyObject *object, PyObject *method) {
    const nb::object answer = nb::steal(PyObject_VectorcallMethod(method, &object, 1, nullptr));
    if (!answer.is_valid()) throw nb::python_error();
    return answer.ptr() == Py_True;
}

bool is_numpy(nb::handle array) {
    return PyObject_TypeCheck(array.ptr(), reinterpret_cast<PyTypeObject *>(numpy().array.ptr()));
}

dlpack::DataType dlpack_type(DType type) {
    switch (type) {
    case DType::bf16: return {dlpack::bfloat, 16, 1};
    case DType::boolean: return {dlpack::boolean, 8, 1};
    case DType::i32: return {dlpack::integer, 32, 1};
    case DType::i64: return {dlpack::integer, 64, 1};
    case DType::i8: return {dlpack::integer, 8, 1};
    case DType::u8: return {dlpack::unsigned_integer, 8, 1};
    default: return {dlpack::real, static_cast<std::uint8_t>(8 * attune::size_of(type)), 1};
    }
}

}  // namespace attune_python
