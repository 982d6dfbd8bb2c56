// SPDX-License-Identifier: MIT
// Ranks of context parallelism: communicators whose callbacks are functions of Python, and plans of positions.
#pragma once
#include "keywords.h"
#include <attune/context_parallel.h>
#include <memory>

namespace attune_python {

// The communicator of a rank. The library calls its functions from a thread of its own, which takes Python's lock for each. An
// exception of a function is a message that failed: the call then raises ConnectionError, with the exception as its cause.
class RankCommunicator {
public:
    RankCommunicator(int rank, int size, nb::object start_send_receive, nb::object wait, nb::object abandon, double time_limit,
                     bool any_thread);
    RankCommunicator(const RankCommunicator &) = delete;
    RankCommunicator &operator=(const RankCommunicator &) = delete;

    const attune::Communicator &callbacks() const { return callbacks_; }

    // Functions of Python often refer to what holds their communicator, and so Python's garbage collector has to see them.
    static PyType_Slot slots[];

    // The use by one call at a time, and the cause of its failure.
    class Use {
    public:
        explicit Use(RankCommunicator &);
        Use(const Use &) = delete;
        Use &operator=(const Use &) = delete;
        ~Use();
        // The first exception of a function during this call, or null.
        nb::object take_cause() { return std::move(of_.cause_); }

    private:
        RankCommunicator &of_;
    };

private:
    struct Request;
    // Runs f() under Python's lock; an exception of Python becomes -1.
    template<typename F> int in_python(const F &f);
    int start(const void *send, std::size_t send_bytes, int to, void *receive, std::size_t receive_bytes, int from,
              void **request);
    int wait(void *request, double seconds);
    int abandon(void *request);

    attune::Communicator callbacks_;
    nb::object start_, wait_, abandon_, cause_;
    bool used_ = false;
};

// Runs run(), which makes the communicator's one call at a time; the cause of its failure becomes that of the exception.
template<typename Run> void use_ranks(RankCommunicator &communicator, const Run &run) {
    RankCommunicator::Use use(communicator);
    try {
        run();
    } catch (nb::python_error &error) {
        if (nb::object cause = use.take_cause(); cause.is_valid())
            PyException_SetCause(error.value().ptr(), cause.release().ptr());
        throw;
    }
}

// Runs f(Context &, const Communicator &) without Python's lock, and raises the exception of its status.
template<typename F> void run_on_ranks(Call &call, RankCommunicator &communicator, const F &f) {
    use_ranks(communicator, [&] { call.run([&](attune::Context &context) { return f(context, communicator.callbacks()); }); });
}

// The figures of a call, a dict that is filled when the call returns.
struct Report {
    nb::handle into;
    attune::ParallelReport figures;

    attune::ParallelReport *wanted() { return given(into) ? &figures : nullptr; }
    void fill() const;
};
const Keywords &report_keyword();

}  // namespace attune_python
