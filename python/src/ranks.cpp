// SPDX-License-Identifier: MIT
#include "ranks.h"
#include <cxxabi.h>
#include <unistd.h>

namespace attune_python {
namespace {

// Python's lock in a thread of the library.
class Locked {
public:
    Locked() {
        // A thread that comes to an interpreter that is ending stops here for good: Python before 3.14 would unwind it.
        try {
            state_ = PyGILState_Ensure();
        } catch (abi::__forced_unwind &) {
            for (;;) ::pause();
        }
    }
    Locked(const Locked &) = delete;
    Locked &operator=(const Locked &) = delete;
    ~Locked() { PyGILState_Release(state_); }

private:
    PyGILState_STATE state_ = PyGILState_UNLOCKED;
};

// The memory of a message as a memoryview; None where a rank has no such half.
nb::object memory_of(const void *memory, std::size_t bytes, int rank, int access) {
    static char nothing = 0;
    if (rank < 0) return nb::none();
    char *const from = bytes > 0 ? static_cast<char *>(const_cast<void *>(memory)) : &nothing;
    nb::object view = nb::steal(PyMemoryView_FromMemory(from, static_cast<Py_ssize_t>(bytes), access));
    if (!view.is_valid()) throw nb::python_error();
    return view;
}

nb::object rank_or_none(int rank) { return rank < 0 ? nb::none() : nb::object(nb::int_(rank)); }

// Ends a memoryview, so that nobody reads memory that is no more. A function of Python that keeps another view of that memory
// must not use it afterwards.
void release(nb::object &view) {
    if (view.is_none()) return;
    const nb::object done = nb::steal(PyObject_CallMethod(view.ptr(), "release", nullptr));
    if (!done.is_valid()) PyErr_Clear();
}

}  // namespace

struct RankCommunicator::Request {
    nb::object send, receive, request;
};

RankCommunicator::RankCommunicator(int rank, int size, nb::object start_send_receive, nb::object wait, nb::object abandon,
                                   double time_limit, bool any_thread)
    : start_(std::move(start_send_receive)), wait_(std::move(wait)), abandon_(std::move(abandon)) {
    const bool several = size > 1;
    for (const auto &[name, function, needed] : {std::tuple("start_send_receive", &start_, several),
                                                 std::tuple("wait", &wait_, several), std::tuple("abandon", &abandon_, false)})
        if (function->is_none() ? needed : !PyCallable_Check(function->ptr())) refuse(name, "must be a function");
    if (size < 1) refuse("size", "must be at least 1, got " + std::to_string(size));
    if (rank < 0 || rank >= size)
        refuse("rank", "must be from 0 to " + std::to_string(size - 1) + ", got " + std::to_string(rank));
    if (!(time_limit > 0)) refuse("time_limit", "must be above 0, got " + std::to_string(time_limit));
    callbacks_.rank = rank, callbacks_.size = size, callbacks_.time_limit = time_limit, callbacks_.any_thread = any_thread;
    callbacks_.user = this;
    callbacks_.start_send_receive = [](void *user, const void *send, std::size_t send_bytes, int to, void *receive,
                                       std::size_t receive_bytes, int from, void **request) {
        return static_cast<RankCommunicator *>(user)->start(send, send_bytes, to, receive, receive_bytes, from, request);
    };
    callbacks_.wait = [](void *user, void *request, double seconds) {
        return static_cast<RankCommunicator *>(user)->wait(request, seconds);
    };
    callbacks_.abandon = [](void *user, void *request) { return static_cast<RankCommunicator *>(user)->abandon(request); };
}

PyType_Slot RankCommunicator::slots[] = {
    {Py_tp_traverse, reinterpret_cast<void *>(+[](PyObject *self, visitproc visit, void *arg) {
         Py_VISIT(Py_TYPE(self));
         if (!nb::inst_ready(self)) return 0;
         const RankCommunicator &c = *nb::inst_ptr<RankCommunicator>(self);
         for (const nb::object *held : {&c.start_, &c.wait_, &c.abandon_, &c.cause_}) Py_VISIT(held->ptr());
         return 0;
     })},
    {Py_tp_clear, reinterpret_cast<void *>(+[](PyObject *self) {
         RankCommunicator &c = *nb::inst_ptr<RankCommunicator>(self);
         for (nb::object *held : {&c.start_, &c.wait_, &c.abandon_, &c.cause_}) held->reset();
         return 0;
     })},
    {0, nullptr}};

RankCommunicator::Use::Use(RankCommunicator &of) : of_(of) {
    if (of_.used_) refuse("communicator", "is in use by a call of another thread");
    of_.used_ = true;
    of_.cause_.reset();
}
RankCommunicator::Use::~Use() {
    of_.used_ = false;
    of_.cause_.reset();
}

template<typename F> int RankCommunicator::in_python(const F &f) {
    const Locked lock;
    nb::object raised;
    try {
        return f();
    } catch (nb::python_error &error) {
        raised = nb::borrow(error.value());
    } catch (const std::exception &error) {
        raised = nb::steal(PyObject_CallFunction(PyExc_RuntimeError, "s", error.what()));
        if (!raised.is_valid()) PyErr_Clear();
    }
    if (!cause_.is_valid()) cause_ = std::move(raised);
    return -1;
}

int RankCommunicator::start(const void *send, std::size_t send_bytes, int to, void *receive, std::size_t receive_bytes,
                            int from, void **request) {
    return in_python([&] {
        auto made = std::make_unique<Request>();
        made->send = memory_of(send, send_bytes, to, PyBUF_READ);
        made->receive = memory_of(receive, receive_bytes, from, PyBUF_WRITE);
        made->request = start_(made->send, rank_or_none(to), made->receive, rank_or_none(from));
        *request = made.release();
        return 0;
    });
}

int RankCommunicator::wait(void *request, double seconds) {
    return in_python([&] {
        std::unique_ptr<Request> own(static_cast<Request *>(request));
        if (!nb::cast<bool>(wait_(own->request, seconds))) {
            own.release();
            return 1;
        }
        release(own->send), release(own->receive);
        return 0;
    });
}

int RankCommunicator::abandon(void *request) {
    return in_python([&] {
        const std::unique_ptr<Request> own(static_cast<Request *>(request));
        if (abandon_.is_none() || !nb::cast<bool>(abandon_(own->request))) return 1;
        release(own->send), release(own->receive);
        return 0;
    });
}

void Report::fill() const {
    if (!given(into)) return;
    nb::dict d = nb::borrow<nb::dict>(into);
    d["bytes_sent"] = figures.bytes_sent, d["seconds"] = figures.seconds;
    d["waiting_seconds"] = figures.waiting_seconds;
}

const Keywords &report_keyword() {
    static const Keywords *const table = new Keywords{
        {"report", "dict[str, Any] | None", "None",
         "Is filled when the call returns: bytes_sent by this rank, seconds, waiting_seconds.",
         [](Call &, void *into, nb::handle v, const char *name) {
             if (!PyDict_Check(v.ptr())) refuse(name, "must be a dict");
             static_cast<Report *>(into)->into = v;
         }},
    };
    return *table;
}

}  // namespace attune_python
