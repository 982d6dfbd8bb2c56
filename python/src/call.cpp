// SPDX-License-Identifier: MIT
// A call of Python: the objects that it holds until it ends, new arrays, errors.
#include "call.h"
#include "libraries.h"
#include <cxxabi.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

namespace attune_python {

using attune::DType;

void refuse(const char *name, const std::string &what) { throw nb::value_error((std::string(name) + ": " + what).c_str()); }

std::string first_line_of(const nb::python_error &error) {
    const std::string text = nb::cast<std::string>(nb::str(error.value()));
    return text.substr(0, text.find('\n'));
}

void check(const attune::Status &status) {
    using attune::StatusCode;
    switch (status.code()) {
    case StatusCode::ok: return;
    case StatusCode::invalid_argument: throw nb::value_error(status.message().c_str());
    case StatusCode::unsupported: {
        static const nb::object *type = nullptr;
        if (!type) type = new nb::object(nb::module_::import_("attune._attune").attr("UnsupportedError"));
        PyErr_SetString(type->ptr(), status.message().c_str());
        break;
    }
    case StatusCode::out_of_memory: PyErr_SetString(PyExc_MemoryError, status.message().c_str()); break;
    case StatusCode::internal: PyErr_SetString(PyExc_RuntimeError, status.message().c_str()); break;
    case StatusCode::communication: PyErr_SetString(PyExc_ConnectionError, status.message().c_str()); break;
    }
    throw nb::python_error();
}

void lock_again(PyThreadState *python) {
    try {
        PyEval_RestoreThread(python);
    } catch (abi::__forced_unwind &) {
        for (;;) ::pause();
    }
}

attune::Dims extents_of(const attune::ConstView &v) {
    std::vector<std::int64_t> extents(v.extent, v.extent + std::min(v.rank, attune::max_rank));
    extents.resize(static_cast<std::size_t>(v.rank));
    return attune::Dims(extents);
}

Call::~Call() {
    const auto release = [](Held &held) {
        switch (held.kind) {
        case Held::buffer: PyBuffer_Release(&held.memory); break;
        case Held::managed:
            if (held.plain && held.plain->deleter) held.plain->deleter(held.plain);
            break;
        case Held::versioned:
            if (held.with_version && held.with_version->deleter) held.with_version->deleter(held.with_version);
            break;
        case Held::object: Py_XDECREF(held.reference); break;
        }
    };
    for (auto &held : more_) release(*held);
    while (held_count_ > 0) release(held_[--held_count_]);
}

Call::Held &Call::hold(Held::Kind kind) {
    Held *held = nullptr;
    if (held_count_ < inline_holds)
        held = &held_[held_count_++];
    else
        held = more_.emplace_back(std::make_unique<Held>()).get();
    held->kind = kind;
    return *held;
}

attune::ConstView Call::input(const char *name, nb::handle array) { return read(name, array, false); }
attune::View Call::output(const char *name, nb::handle array) { return read(name, array, true); }

attune::View Call::scale(const char *name, nb::handle array) {
    const attune::View view = read(name, array, false);
    return view.rank <= 2 ? view : read(name, array, true);
}

attune::ConstView Call::integers(const char *name, nb::handle array) {
    if (!PyList_Check(array.ptr()) && !PyTuple_Check(array.ptr())) return input(name, array);
    nb::object made;
    try {
        made = numpy().asarray(array, numpy_type(DType::i32));
    } catch (nb::python_error &error) {
        refuse(name, "is no list of 32-bit integers: " + first_line_of(error));
    }
    return input(name, made);  // the buffer keeps the array alive
}

std::string_view Call::text(const char *name, nb::handle value) {
    if (!PyUnicode_Check(value.ptr())) refuse(name, "must be a text");
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
    if (!text) throw nb::python_error();
    Py_INCREF(value.ptr());
    hold(Held::object).reference = value.ptr();
    return {text, static_cast<std::size_t>(size)};
}

attune::View Call::make(nb::handle like, DType type, const attune::Dims &extents, nb::object &made, Layout how) {
    std::int64_t shape[attune::max_rank] = {}, strides[attune::max_rank] = {};
    const int rank = std::min(extents.rank(), attune::max_rank);
    if (extents.rank() > attune::max_rank) {  // a wrong rank of an input, which the library refuses in its own words
        made = nb::none();
        attune::View wrong;
        wrong.rank = attune::max_rank + 1;
        return wrong;
    }
    const bool turned = how == Layout::heads_in_rows && rank == 4;
    for (int n = 0; n < rank; n++) shape[n] = extents[n];
    if (turned) std::swap(shape[1], shape[2]);
    for (int n = 0; n < rank; n++)
        if (shape[n] < 0) refuse("out", "cannot be made: an extent would be negative");
    if (const dlpack::ExchangeApi *api = !given(like) || is_numpy(like) ? nullptr : exchange_of(Py_TYPE(like.ptr())).api) {
        const bool host = queue_.device < 0;
        dlpack::Tensor prototype{nullptr, {host ? dlpack::cpu : dlpack::cuda, host ? 0 : std::int32_t(queue_.device)},
                                 rank,    dlpack_type(type),
                                 shape,   strides,
                                 0};
        std::int64_t dense = 1;
        for (int n = rank; n-- > 0; dense *= shape[n]) strides[n] = dense;
        dlpack::ManagedVersioned *managed = nullptr;
        std::string message;
        const auto set_error = [](void *into, const char *, const char *text) { *static_cast<std::string *>(into) = text; };
        if (api->allocate(&prototype, &managed, &message, set_error)) {
            PyErr_SetString(PyExc_MemoryError, ("out: " + message).c_str());
            throw nb::python_error();
        }
        if (turned) {
            std::swap(managed->tensor.shape[1], managed->tensor.shape[2]);
            std::swap(managed->tensor.strides[1], managed->tensor.strides[2]);
        }
        attune::View view = of_tensor("out", managed->tensor, api);
        void *object = nullptr;
        if (api->to_object(managed, &object)) throw nb::python_error();
        made = nb::steal(static_cast<PyObject *>(object));
        return view;
    }
    if (queue_.device >= 0 && given(like) && !is_numpy(like))
        refuse("out", "must be given: its library has no table of DLPack's to make arrays on a device");
    // The array has the query's own type where that is a bfloat16: NumPy has several, by package.
    nb::object kind = type == DType::bf16 && given(like) && is_numpy(like) ? nb::object(like.attr("dtype")) : numpy_type(type);
    const nb::object size = nb::steal(PyTuple_New(rank));
    for (int n = 0; n < rank; n++) PyTuple_SetItem(size.ptr(), n, PyLong_FromLongLong(shape[n]));
    PyObject *const arguments[] = {size.ptr(), kind.ptr()};
    made = nb::steal(PyObject_Vectorcall(numpy().empty.ptr(), arguments, 2, nullptr));
    if (!made.is_valid()) throw nb::python_error();
    if (turned) made = made.attr("swapaxes")(1, 2);
    return output("out", made);
}

attune::View Call::output_or_new(const char *name, nb::handle array, nb::handle like, DType type, const attune::Dims &extents,
                                 nb::object &result, Layout how) {
    if (given(array)) {
        result = nb::borrow(array);
        return output(name, array);
    }
    return make(like, type, extents, result, how);
}

}  // namespace attune_python
