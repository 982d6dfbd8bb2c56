// SPDX-License-Identifier: MIT
// One call from Python: arrays as views that are kept alive until the call ends, results as new arrays, errors as exceptions.
#pragma once
#include "contexts.h"
#include "dlpack.h"
#include <attune/attune.h>
#include <nanobind/nanobind.h>
#include <string>
#include <vector>

namespace attune_python {

namespace nb = nanobind;

// ValueError "<name>: <what>", as the library words its messages.
[[noreturn]] void refuse(const char *name, const std::string &what);
// The message of an exception, without the trace that some libraries add.
std::string first_line_of(const nb::python_error &);
// The exception of a status that is not ok: ValueError, attune.UnsupportedError, MemoryError or RuntimeError.
void check(const attune::Status &);

// Where the elements of a new array stand: in C order, or, of rank 4, with heads within rows, (B, S, H, D).
enum class Layout { dense, heads_in_rows };

// Takes Python's lock again. A thread that comes back to an interpreter that is ending stops here for good: Python before 3.14
// would end the thread by unwinding, past frames that hold Python's objects.
void lock_again(PyThreadState *);

class Call {
public:
    enum class Places { any, host };
    explicit Call(Places places = Places::any) : places_(places) {}
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;
    ~Call();

    // The view of an array: NumPy's and other buffers, DLPack, __array_interface__. `name` is the argument, for messages.
    attune::ConstView input(const char *name, nb::handle array);
    // The view of an array that is written.
    attune::View output(const char *name, nb::handle array);
    // The view of a scale of pages that are written: one of the caller's own, of rank 1 or 2, is only read.
    attune::View scale(const char *name, nb::handle array);
    // The view of lengths or indices: an array, or a list or tuple of integers, which becomes an i32 array.
    attune::ConstView integers(const char *name, nb::handle array);
    // A new array of the library that `like` is of (torch.Tensor for one of torch, NumPy's otherwise), and its view.
    attune::View make(nb::handle like, attune::DType, const attune::Dims &extents, nb::object &made,
                      Layout layout = Layout::dense);
    // The given output, or a new array.
    attune::View output_or_new(const char *name, nb::handle given, nb::handle like, attune::DType, const attune::Dims &,
                               nb::object &result, Layout layout = Layout::dense);

    // A text that lives as long as the call, such as the name of a variant.
    std::string_view text(const char *name, nb::handle);

    // Tensors that require a gradient are refused unless this is set: the functions here take no part in autograd.
    bool takes_tensors_of_autograd = false;
    // Negated views of torch are refused, or, where this is set, marked.
    bool marks_negated = false, negated = false;
    Contexts *contexts = nullptr;  // null: the default Contexts of the process
    Layout layout = Layout::dense;

    Contexts &contexts_of_call() const { return contexts ? *contexts : default_contexts(); }

    // Runs f() without Python's lock, and raises the exception of its status.
    template<typename F> void run_unlocked(F &&f) {
        attune::Status status;
        PyThreadState *const python = PyEval_SaveThread();
        status = f();
        lock_again(python);
        if (!status.ok()) check(status);
    }
    // The same for f(Context &).
    template<typename F> void run(F &&f) {
        Contexts &from = contexts_of_call();
        Contexts::Lease lease(from, queue_);
        run_unlocked([&] { return f(lease.context()); });
        from.remember(lease.context().last_variant());
    }

private:
    struct Held {
        enum Kind { buffer, managed, versioned, object } kind;
        union {
            Py_buffer memory;
            dlpack::Managed *plain;
            dlpack::ManagedVersioned *with_version;
            PyObject *reference;
        };
    };
    Held &hold(Held::Kind);
    attune::View read(const char *name, nb::handle array, bool writes);
    attune::View of_buffer(const char *name, PyObject *array, bool writes);
    attune::View of_numpy(const char *name, PyObject *array, bool writes);
    attune::View of_dlpack(const char *name, nb::handle array, bool writes);
    attune::View of_tensor(const char *name, const dlpack::Tensor &, const dlpack::ExchangeApi * = nullptr);
    // Whether an array of this device is on the host. One on a CUDA device sets the queue of the call: the device of all of its
    // arrays, and the stream that its Context names, or that is current in the library of the first of them.
    bool on_host(const char *name, const dlpack::Device &, const dlpack::ExchangeApi *);

    const Places places_;
    Queue queue_;
    static constexpr int inline_holds = 24;
    Held held_[inline_holds];
    int held_count_ = 0;
    std::vector<std::unique_ptr<Held>> more_;
};

// A call that refuses arrays on a device: of a function that reads what arrays hold, or whose library knows no device.
struct HostCall : Call {
    HostCall() : Call(Places::host) {}
};

// Extents of a view with some replaced; a wrong rank stays wrong, so that the library refuses it in its own words.
attune::Dims extents_of(const attune::ConstView &);

// Whether an argument was given: anything but None.
inline bool given(nb::handle h) { return h.is_valid() && !h.is_none(); }

}  // namespace attune_python
