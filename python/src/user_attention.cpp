// SPDX-License-Identifier: MIT
// Attention of attune.define(): its shared object, and calls of its functions.
#include "options.h"
#include "user_module.h"
#include <dlfcn.h>
#include <map>
#include <nanobind/stl/string.h>

namespace attune_python {
namespace {

using attune::ConstView;
using attune::Context;
using attune::SdpaOptions;
using attune::View;
using attune::detail::CaptureArgument;
using attune::detail::CaptureRecord;

// Arguments that a capture cannot be called as.
bool is_argument(std::string_view name) {
    for (const char *taken : {"query", "key", "value", "forward", "lse", "grad_out"})
        if (name == taken) return true;
    for (const Keywords *table : {&attention_keywords(), &attention_outputs(), &weights_keywords(), &grad_lse_keyword(),
                                  &gradients_keyword(), &common_keywords()})
        for (const Keyword &row : table->rows())
            if (name == row.name) return true;
    return false;
}

class UserAttention {
public:
    explicit UserAttention(const std::string &file) {
        // The object stays loaded: its threads may run until the process ends.
        void *const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
        const auto entry = library ? reinterpret_cast<UserModuleEntry *>(::dlsym(library, "attune_user_module")) : nullptr;
        if (!entry) {
            PyErr_Format(PyExc_ImportError, "attune: %s", ::dlerror());
            throw nb::python_error();
        }
        module_ = entry();
        if (module_->version != std::string(ATTUNE_VERSION_STRING) || module_->sizes != user_module_sizes()) {
            PyErr_Format(PyExc_ImportError, "attune: %s is of version %s of the library, and this package of %s", file.c_str(),
                         module_->version, ATTUNE_VERSION_STRING);
            throw nb::python_error();
        }
        if (!module_->attention) {
            PyErr_Format(PyExc_ImportError, "attune: %s registers no attention", file.c_str());
            throw nb::python_error();
        }
        for (const CaptureRecord &c : captures())
            if (is_argument(c.name))
                refuse(std::string(c.name).c_str(),
                       "is a capture and has the name of an argument of attention; call it otherwise");
    }

    nb::list describe() const {
        nb::list list;
        for (const CaptureRecord &c : captures()) {
            nb::dict d;
            d["name"] = nb::str(c.name.data(), c.name.size()), d["rank"] = c.rank, d["has_gradient"] = c.has_gradient;
            d["dtype"] = c.of_scores ? nb::object(nb::none()) : nb::object(nb::str(attune::name_of(c.dtype)));
            list.append(d);
        }
        return list;
    }

    nb::object forward(nb::handle query, nb::handle key, nb::handle value, const nb::kwargs &given_options) {
        Call call;
        SdpaOptions options;
        Wanted wanted;
        nb::dict of_captures;
        const nb::kwargs others = divide(given_options, of_captures);
        read_keywords(call, name().c_str(), others,
                      {{attention_keywords(), &options}, {attention_outputs(), &wanted}, {weights_keywords(), &options}});
        const std::vector<CaptureArgument> arguments = read_captures(call, of_captures);
        const ConstView q = call.input("query", query), k = call.input("key", key), v = call.input("value", value);
        Outputs made;
        const View out = call.output_or_new("out", wanted.out, query, q.dtype, out_extents(q, v), made.out, call.layout);
        made.add(call, wanted, query, q, k, options);
        run(call,
            [&](Context &c) { return module_->forward(c, *module_->attention, q, k, v, out, options, arguments, nullptr); });
        return made.result(wanted);
    }

    nb::object backward(nb::handle query, nb::handle key, nb::handle value, nb::handle out, nb::handle lse, nb::handle grad_out,
                        const nb::kwargs &given_options) {
        Call call;
        SdpaOptions options;
        Wanted wanted;
        GradLse of_lse;
        nb::dict of_captures;
        const nb::kwargs others = divide(given_options, of_captures);
        read_keywords(call, (name() + ".backward").c_str(), others,
                      {{attention_keywords(), &options}, {grad_lse_keyword(), &of_lse}, {gradients_keyword(), &wanted}});
        const std::vector<CaptureArgument> arguments = read_captures(call, of_captures);
        const ConstView q = call.input("query", query), k = call.input("key", key), v = call.input("value", value);
        const attune::SdpaForward forward{call.input("out", out), call.input("lse", lse), call.input("grad_out", grad_out),
                                          of_lse.grad_lse};
        Gradients gradients(call, wanted.gradients, {"query", "key", "value"});
        attune::SdpaGradients into;
        gradients.add("query", query, q, into.query), gradients.add("key", query, k, into.key);
        gradients.add("value", query, v, into.value);
        add_score_gradients(gradients, query, options, q, into);
        std::vector<View> of_each(arguments.size());
        for (std::size_t n = 0; n < arguments.size(); n++)
            if (captures()[n].has_gradient)
                gradients.add(std::string(captures()[n].name).c_str(), query, arguments[n].buffer, of_each[n]);
        nb::dict result = gradients.finish();
        run(call, [&](Context &c) {
            return module_->backward(c, *module_->attention, q, k, v, forward, into, of_each, options, arguments, nullptr);
        });
        return result;
    }

private:
    attune::detail::ArrayView<const CaptureRecord> captures() const { return module_->attention->captures; }
    std::string name() const { return std::string(module_->attention->name); }

    // The keyword arguments that are no captures; the others go into `of_captures`.
    nb::kwargs divide(const nb::kwargs &all, nb::dict &of_captures) const {
        nb::dict others;
        PyObject *word = nullptr, *value = nullptr;
        for (Py_ssize_t at = 0; PyDict_Next(all.ptr(), &at, &word, &value);) {
            bool captured = false;
            for (const CaptureRecord &c : captures())
                captured |= PyUnicode_CompareWithASCIIString(word, std::string(c.name).c_str()) == 0;
            (captured ? of_captures : others)[nb::handle(word)] = nb::handle(value);
        }
        return nb::borrow<nb::kwargs>(others);
    }

    // One argument for each capture; the library refuses a call without one.
    std::vector<CaptureArgument> read_captures(Call &call, const nb::dict &from) const {
        std::vector<CaptureArgument> arguments(captures().size());
        for (std::size_t n = 0; n < arguments.size(); n++) {
            const CaptureRecord &record = captures()[n];
            const std::string word(record.name);
            PyObject *const value = PyDict_GetItemString(from.ptr(), word.c_str());
            if (!value || value == Py_None) continue;
            if (record.rank == 0)
                arguments[n].number = number_of(word.c_str(), value);
            else
                arguments[n].buffer = call.input(word.c_str(), value);
        }
        return arguments;
    }

    // Runs f(Context &) in a Context of the module, with the options of the Context of the call.
    template<typename F> void run(Call &call, F &&f) {
        Contexts &asked = call.contexts_of_call();
        const attune::ContextOptions &options = asked.options();
        std::vector<Context *> &free = free_[{options.threads, options.scratch_bytes_per_thread}];
        Context *context = nullptr;
        if (free.empty()) {
            context = module_->make(options);
            if (!context) throw std::bad_alloc();
        } else {
            context = free.back();
            free.pop_back();
        }
        struct Return {
            std::vector<Context *> &to;
            Context *context;
            ~Return() { to.push_back(context); }
        } at_end{free, context};
        check(module_->status(*context));
        call.run_unlocked([&] { return f(*context); });
        asked.remember(module_->last_variant(*context));
    }

    const UserModule *module_ = nullptr;
    // Contexts that no call uses, by their options; Python's lock guards them. Never destroyed, as those of contexts.h.
    std::map<std::pair<int, std::size_t>, std::vector<Context *>> free_;
};

}  // namespace

void bind_user_attention(nb::module_ &m) {
    using namespace nb::literals;
    nb::class_<UserAttention>(m, "UserAttention", "The shared object of an attention; a part of attune.define().")
        .def(nb::init<const std::string &>(), "file"_a)
        .def("captures", &UserAttention::describe, nb::sig("def captures(self) -> list[dict[str, Any]]"),
             "Captures: name, rank (0: a number), dtype (None: that of the scores), has_gradient.")
        .def("forward", &UserAttention::forward, "query"_a.none(), "key"_a.none(), "value"_a.none(), "options"_a,
             nb::sig("def forward(self, query: ArrayLike, key: ArrayLike, value: ArrayLike, **options: Any) "
                     "-> Array | Attention"),
             "The forward pass: options of scaled_dot_product_attention(), and captures.")
        .def("backward", &UserAttention::backward, "query"_a.none(), "key"_a.none(), "value"_a.none(), "out"_a.none(),
             "lse"_a.none(), "grad_out"_a.none(), "options"_a,
             nb::sig("def backward(self, query: ArrayLike, key: ArrayLike, value: ArrayLike, out: ArrayLike, lse: ArrayLike, "
                     "grad_out: ArrayLike, **options: Any) -> dict[str, Array]"),
             "The gradients: options of scaled_dot_product_attention_backward(), and captures.");
}

}  // namespace attune_python
