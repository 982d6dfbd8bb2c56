// SPDX-License-Identifier: MIT
// The extension module attune._attune.
#include "options.h"

NB_MODULE(_attune, m) {
    m.doc() = "Functions of the library Attune over arrays.";
    nanobind::object error = nanobind::steal(PyErr_NewExceptionWithDoc(
        "attune.UnsupportedError", "The call is legal, but not served by this build, machine or variant.", PyExc_ValueError,
        nullptr));
    m.attr("UnsupportedError") = error;
    attune_python::bind_facts(m);
    attune_python::bind_attention(m);
    attune_python::bind_gradients(m);
    attune_python::bind_layers(m);
    attune_python::bind_serving(m);
    attune_python::bind_context_parallel(m);
    attune_python::bind_torch(m);
    attune_python::bind_user_attention(m);
}
