// SPDX-License-Identifier: MIT
// Arrays of Python as views, without copies: buffers, NumPy, DLPack.
#include "call.h"
#include "libraries.h"
#include <cstring>
#include <nanobind/stl/string.h>

namespace attune_python {
namespace {

using attune::DType;

// Element type of a buffer's format (module struct), such as "<f".
DType type_of(const char *name, const char *format, Py_ssize_t bytes) {
    const char *f = format ? format : "B";
    const bool swapped = *f == '>' || *f == '!';
    if (std::strchr("@=<>!", *f) && *f) f++;
    if (swapped && bytes > 1) refuse(name, "its byte order is not this machine's (format \"" + std::string(format) + "\")");
    if (f[0] && !f[1]) switch (*f) {
        case '?': return DType::boolean;
        case 'e': return DType::f16;
        case 'f': return DType::f32;
        case 'd': return DType::f64;
        case 'b': return DType::i8;
        case 'B': return DType::u8;
        case 'i':
        case 'l':
        case 'q': return bytes == 8 ? DType::i64 : DType::i32;
        case 'O': refuse(name, "its elements are Python objects, not numbers");
        }
    refuse(name, "its elements (format \"" + std::string(format ? format : "") +
                     "\") are none of f32, f64, bf16, f16, i32, i64, i8, u8, bool");
}

DType type_of(const char *name, const dlpack::DataType &type) {
    if (type.lanes == 1) switch (type.code << 8 | type.bits) {
        case dlpack::real << 8 | 32: return DType::f32;
        case dlpack::real << 8 | 64: return DType::f64;
        case dlpack::real << 8 | 16: return DType::f16;
        case dlpack::bfloat << 8 | 16: return DType::bf16;
        case dlpack::boolean << 8 | 8: return DType::boolean;
        case dlpack::integer << 8 | 32: return DType::i32;
        case dlpack::integer << 8 | 64: return DType::i64;
        case dlpack::integer << 8 | 8: return DType::i8;
        case dlpack::unsigned_integer << 8 | 8: return DType::u8;
        }
    refuse(name, "its elements (DLPack's code " + std::to_string(type.code) + ", " + std::to_string(type.bits) +
                     " bits) are none of f32, f64, bf16, f16, i32, i64, i8, u8, bool");
}

// A view whose rank the caller of this function found; ranks that no function takes are refused by the function, as wrong.
attune::View start(const char *name, void *data, DType type, std::int64_t rank) {
    if (rank == 0) refuse(name, "is zero-dimensional; a tensor has a dimension or more");
    attune::View view;
    view.data = data, view.dtype = type;
    view.rank = rank <= attune::max_rank ? static_cast<int>(rank) : attune::max_rank + 1;
    return view;
}

void check_alignment(const char *name, const attune::View &view) {
    const int bytes = attune::size_of(view.dtype);
    if (reinterpret_cast<std::uintptr_t>(view.data) % static_cast<std::uintptr_t>(bytes) != 0)
        refuse(name, "its memory is not aligned to its elements of " + std::to_string(bytes) + " bytes");
}

}  // namespace

attune::View Call::of_buffer(const char *name, PyObject *array, bool writes) {
    Py_buffer found;
    if (PyObject_GetBuffer(array, &found, PyBUF_STRIDES | PyBUF_FORMAT)) throw nb::python_error();
    hold(Held::buffer).memory = found;
    if (writes && found.readonly) refuse(name, "is read-only, and would be written");
    attune::View view = start(name, found.buf, type_of(name, found.format, found.itemsize), found.ndim);
    bool empty = false;
    for (int n = 0; n < found.ndim; n++) empty |= found.shape[n] == 0;
    for (int n = 0; n < view.rank && n < attune::max_rank; n++) {
        view.extent[n] = found.shape[n];
        view.stride[n] = found.strides[n] / found.itemsize;
        if (found.shape[n] > 1 && !empty && found.strides[n] % found.itemsize != 0)
            refuse(name, "stride " + std::to_string(n) + " is " + std::to_string(found.strides[n]) +
                             " bytes, no multiple of its elements of " + std::to_string(found.itemsize));
    }
    if (!empty) check_alignment(name, view);
    return view;
}

attune::View Call::of_numpy(const char *name, PyObject *array, bool writes) {
    const NumPy &np = numpy();
    if (Py_TYPE(array) != reinterpret_cast<PyTypeObject *>(np.array.ptr()) &&
        PyObject_TypeCheck(array, reinterpret_cast<PyTypeObject *>(np.masked_array.ptr())))
        refuse(name, "is a masked array, whose mask would be ignored; fill it, or give its data");
    try {
        return of_buffer(name, array, writes);
    } catch (nb::python_error &error) {
        // NumPy has no buffer of types that other packages define, such as ml_dtypes' bfloat16.
        const nb::object type = nb::handle(array).attr("dtype");
        const std::string type_name = nb::cast<std::string>(nb::str(type.attr("name")));
        if (type_name != "bfloat16") refuse(name, "NumPy's type " + type_name + " is none that can be used");
    }
    if (!nb::cast<bool>(nb::handle(array).attr("dtype").attr("isnative"))) refuse(name, "its byte order is not this machine's");
    const nb::object shape = nb::handle(array).attr("shape"), strides = nb::handle(array).attr("strides");
    const auto rank = static_cast<std::int64_t>(nb::len(shape));
    const nb::object address = nb::handle(array).attr("__array_interface__")["data"][0];
    if (writes && !nb::cast<bool>(nb::handle(array).attr("flags").attr("writeable")))
        refuse(name, "is read-only, and would be written");
    attune::View view = start(name, PyLong_AsVoidPtr(address.ptr()), DType::bf16, rank);
    bool empty = false;
    for (std::int64_t n = 0; n < rank; n++) empty |= nb::cast<std::int64_t>(shape[n]) == 0;
    for (int n = 0; n < view.rank && n < attune::max_rank; n++) {
        view.extent[n] = nb::cast<std::int64_t>(shape[n]);
        const auto bytes = nb::cast<std::int64_t>(strides[n]);
        view.stride[n] = bytes / 2;
        if (view.extent[n] > 1 && !empty && bytes % 2 != 0)
            refuse(name,
                   "stride " + std::to_string(n) + " is " + std::to_string(bytes) + " bytes, no multiple of its elements of 2");
    }
    if (!empty) check_alignment(name, view);
    Py_INCREF(array);
    hold(Held::object).reference = array;
    return view;
}

bool Call::on_host(const char *name, const dlpack::Device &device, const dlpack::ExchangeApi *api) {
    if (device.type == dlpack::cpu || device.type == dlpack::cuda_host || device.type == dlpack::rocm_host) return true;
    const std::string place =
        " device (DLPack's type " + std::to_string(device.type) + ", number " + std::to_string(device.id) + ")";
    if (places_ == Places::host) refuse(name, "is on a" + place + "; this function computes on the host only");
    if (device.type != dlpack::cuda && device.type != dlpack::cuda_managed)
        refuse(name, "is on a" + place + "; the host and CUDA are served");
    const std::optional<void *> &named = contexts_of_call().cuda_stream();
    Queue queue{device.id, named.value_or(nullptr)};
    if (api && api->current_stream && api->current_stream(dlpack::cuda, device.id, &queue.stream)) throw nb::python_error();
    if (named && queue.stream != *named)
        refuse(name, "the current stream of its library is not the one that the Context names");
    if (queue_.device >= 0 && queue_.device != queue.device)
        refuse(name, "is on CUDA device " + std::to_string(queue.device) + ", other arrays of the call are on device " +
                         std::to_string(queue_.device));
    if (queue_.device >= 0 && queue_.stream != queue.stream)
        refuse(name, "the current stream of its library is not that of the arrays before it");
    queue_ = queue;
    return false;
}

attune::View Call::of_tensor(const char *name, const dlpack::Tensor &tensor, const dlpack::ExchangeApi *api) {
    const bool host = on_host(name, tensor.device, api);
    attune::View view =
        start(name, static_cast<char *>(tensor.data) + tensor.byte_offset, type_of(name, tensor.type), tensor.rank);
    if (!host) view.place = attune::Place::device;
    bool empty = false;
    std::int64_t dense = 1;
    for (int n = tensor.rank; n-- > 0; dense *= tensor.shape[n]) {
        empty |= tensor.shape[n] == 0;
        if (n >= attune::max_rank || view.rank > attune::max_rank) continue;
        view.extent[n] = tensor.shape[n];
        view.stride[n] = tensor.strides ? tensor.strides[n] : dense;
    }
    if (!tensor.data) view.data = nullptr;
    if (!empty) check_alignment(name, view);
    return view;
}

attune::View Call::of_dlpack(const char *name, nb::handle array, bool writes) {
    // The device first: an array elsewhere may refuse to be exported, or copy itself.
    const nb::object device = array.attr("__dlpack_device__")();
    const dlpack::Device said{nb::cast<std::int32_t>(nb::int_(device[0])), nb::cast<std::int32_t>(nb::int_(device[1]))};
    nb::dict stream;
    // The array's library makes the stream of the call wait for the array's pending kernels. DLPack's default stream is 1.
    if (!on_host(name, said, nullptr))
        stream["stream"] = queue_.stream ? nb::int_(reinterpret_cast<std::uintptr_t>(queue_.stream)) : nb::int_(1);
    nb::object capsule;
    try {
        capsule = array.attr("__dlpack__")(nb::arg("max_version") = nb::make_tuple(1, 0), **stream);
    } catch (nb::python_error &error) {
        if (!error.matches(PyExc_TypeError)) refuse(name, "its __dlpack__ failed: " + first_line_of(error));
        capsule = array.attr("__dlpack__")(**stream);  // a version before 1.0
    }
    const dlpack::Tensor *tensor = nullptr;
    if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
        auto *managed = static_cast<dlpack::ManagedVersioned *>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
        PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
        hold(Held::versioned).with_version = managed;
        if (managed->version.major != 1) refuse(name, "its DLPack has another version than 1");
        if (writes && managed->flags & dlpack::read_only_flag) refuse(name, "is read-only, and would be written");
        tensor = &managed->tensor;
    } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
        auto *managed = static_cast<dlpack::Managed *>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
        PyCapsule_SetName(capsule.ptr(), "used_dltensor");
        hold(Held::managed).plain = managed;
        if (writes) refuse(name, "its DLPack is older than 1.0, and does not say whether its memory may be written");
        tensor = &managed->tensor;
    } else {
        refuse(name, "its __dlpack__ gives no capsule of DLPack");
    }
    if (tensor->device.type != said.type) refuse(name, "its __dlpack_device__ names another device than its DLPack capsule");
    return of_tensor(name, *tensor);
}

attune::View Call::read(const char *name, nb::handle array, bool writes) {
    if (is_numpy(array)) return of_numpy(name, array.ptr(), writes);
    if (const Exchange exchange = exchange_of(Py_TYPE(array.ptr())); const dlpack::ExchangeApi *api = exchange.api) {
        if (exchange.is_torch) {
            static PyObject *const is_neg = PyUnicode_InternFromString("is_neg");
            static PyObject *const requires_grad = PyUnicode_InternFromString("requires_grad");
            if (!takes_tensors_of_autograd && nb::getattr(array, nb::handle(requires_grad)).ptr() == Py_True)
                refuse(name, "requires a gradient, which this function does not record; use attune.torch, or detach()");
            if (is_true(array.ptr(), is_neg)) {  // its memory holds the numbers with the other sign
                if (!marks_negated) refuse(name, "is a negated view (is_neg); give resolve_neg() of it");
                negated = true;
            }
        }
        dlpack::ManagedVersioned *managed = nullptr;
        if (api->from_object(array.ptr(), &managed)) {
            const nb::python_error error;  // takes the exception of the array's library
            refuse(name, "its library gives no memory of it: " + first_line_of(error));
        }
        hold(Held::versioned).with_version = managed;
        if (writes && managed->flags & dlpack::read_only_flag) refuse(name, "is read-only, and would be written");
        return of_tensor(name, managed->tensor, api);
    }
    if (nb::hasattr(array, "__dlpack__") && nb::hasattr(array, "__dlpack_device__")) return of_dlpack(name, array, writes);
    if (nb::hasattr(array, "__array_interface__")) {
        const nb::object view = numpy().asarray(array);
        return of_numpy(name, view.ptr(), writes);
    }
    if (PyObject_CheckBuffer(array.ptr())) return of_buffer(name, array.ptr(), writes);
    PyErr_Format(PyExc_TypeError,
                 "%s: must be an array with DLPack, __array_interface__ or a buffer, such as one of NumPy or torch, not %S",
                 name, Py_TYPE(array.ptr()));
    throw nb::python_error();
}

}  // namespace attune_python
