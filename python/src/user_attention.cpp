// SPDX-License-Identifier: MIT
// Attention of attune.define(): its shared object, and calls of its functions.
#include "options.h"
#include "ranks.h"
#include "user_module.h"
#include <array>
#include <dlfcn.h>
#include <map>
#include <nanobind/stl/string.h>

namespace attune_python {
namespace {

using attune::ConstView;
using attune::Context;
using attune::ParallelPlan;
using attune::View;
using attune::detail::CaptureArgument;
using attune::detail::CaptureRecord;
using attune::detail::Collective;

// Arguments that a capture cannot be called as.
bool is_argument(std::string_view name) {
    for (const char *taken : {"query", "key", "value", "forward", "lse", "grad_out", "communicator", "plan"})
        if (name == taken) return true;
    for (const Keywords *table : {&attention_keywords(), &attention_outputs(), &weights_keywords(), &grad_lse_keyword(),
                                  &gradients_keyword(), &report_keyword(), &common_keywords()})
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
        HostCall call;
        Forward f;
        read_forward(call, f, name(), query, key, value, given_options, nullptr);
        run(call, [&](Context &c) {
            return module_->forward(c, *module_->attention, f.query, f.key, f.value, f.out, f.options.attention, f.captures,
                                    nullptr);
        });
        return f.made.result(f.wanted);
    }

    nb::object backward(nb::handle query, nb::handle key, nb::handle value, nb::handle out, nb::handle lse, nb::handle grad_out,
                        const nb::kwargs &given_options) {
        HostCall call;
        Backward b;
        nb::dict result =
            read_backward(call, b, name() + ".backward", query, key, value, {out, lse, grad_out}, given_options, nullptr);
        run(call, [&](Context &c) {
            return module_->backward(c, *module_->attention, b.query, b.key, b.value, b.results, b.into, b.of_captures,
                                     b.options.attention, b.captures, nullptr);
        });
        return result;
    }

    nb::object over_ranks(Collective function, const char *called, RankCommunicator &communicator, const ParallelPlan &plan,
                          nb::handle query, nb::handle key, nb::handle value, const nb::kwargs &given_options) {
        HostCall call;
        Forward f;
        Report report;
        read_forward(call, f, name() + "." + called, query, key, value, given_options, &report);
        use_ranks(communicator, [&] {
            run(call, [&](Context &c) {
                return module_->forward_over_ranks(c, function, communicator.callbacks(), plan, *module_->attention, f.query,
                                                   f.key, f.value, f.out, f.options, f.captures);
            });
        });
        report.fill();
        return f.made.result(f.wanted);
    }

    nb::object backward_over_ranks(RankCommunicator &communicator, ParallelPlan plan, nb::handle query, nb::handle key,
                                   nb::handle value, nb::handle out, nb::handle lse, nb::handle grad_out,
                                   const nb::kwargs &given_options) {
        HostCall call;
        Backward b;
        Report report;
        nb::dict result = read_backward(call, b, name() + ".ring_attention_backward", query, key, value, {out, lse, grad_out},
                                        given_options, &report);
        use_ranks(communicator, [&] {
            run(call, [&](Context &c) {
                return module_->backward_over_ranks(c, communicator.callbacks(), plan, *module_->attention, b.query, b.key,
                                                    b.value, b.results, b.into, b.of_captures, b.options, b.captures);
            });
        });
        report.fill();
        return result;
    }

private:
    // The arguments that both passes have. Of a call on one machine ParallelOptions holds the options of attention alone.
    struct Arguments {
        attune::ParallelOptions options;
        Wanted wanted;
        std::vector<CaptureArgument> captures;
        ConstView query, key, value;
    };
    struct Forward : Arguments {
        View out;
        Outputs made;
    };
    struct Backward : Arguments {
        attune::SdpaForward results;
        attune::SdpaGradients into;
        std::vector<View> of_captures;
    };

    // `report`: of a call over ranks, else null.
    void read_forward(Call &call, Forward &f, const std::string &function, nb::handle query, nb::handle key, nb::handle value,
                      const nb::kwargs &all, Report *report) {
        nb::dict of_captures;
        const nb::kwargs others = divide(all, of_captures);
        const Into attention{attention_keywords(), &f.options.attention}, outputs{attention_outputs(), &f.wanted},
            weights{weights_keywords(), &f.options.attention};
        if (report)
            read_keywords(call, function.c_str(), others, {attention, outputs, weights, {report_keyword(), report}});
        else
            read_keywords(call, function.c_str(), others, {attention, outputs, weights});
        if (report) f.options.report = report->wanted();
        f.captures = read_captures(call, of_captures);
        f.query = call.input("query", query), f.key = call.input("key", key), f.value = call.input("value", value);
        f.out = call.output_or_new("out", f.wanted.out, query, f.query.dtype, out_extents(f.query, f.value), f.made.out,
                                   call.layout);
        f.made.add(call, f.wanted, query, f.query, f.key, f.options.attention);
    }

    // The dict of gradients, which the call fills. `results`: out, lse and grad_out.
    nb::dict read_backward(Call &call, Backward &b, const std::string &function, nb::handle query, nb::handle key,
                           nb::handle value, const std::array<nb::handle, 3> &results, const nb::kwargs &all, Report *report) {
        nb::dict of_captures;
        const nb::kwargs others = divide(all, of_captures);
        GradLse of_lse;
        const Into attention{attention_keywords(), &b.options.attention}, grad_lse{grad_lse_keyword(), &of_lse},
            wanted{gradients_keyword(), &b.wanted};
        if (report)
            read_keywords(call, function.c_str(), others, {attention, grad_lse, wanted, {report_keyword(), report}});
        else
            read_keywords(call, function.c_str(), others, {attention, grad_lse, wanted});
        if (report) b.options.report = report->wanted();
        b.captures = read_captures(call, of_captures);
        b.query = call.input("query", query), b.key = call.input("key", key), b.value = call.input("value", value);
        b.results = {call.input("out", results[0]), call.input("lse", results[1]), call.input("grad_out", results[2]),
                     of_lse.grad_lse};
        Gradients gradients(call, b.wanted.gradients, {"query", "key", "value"});
        gradients.add("query", query, b.query, b.into.query), gradients.add("key", query, b.key, b.into.key);
        gradients.add("value", query, b.value, b.into.value);
        add_score_gradients(gradients, query, b.options.attention, b.query, b.into);
        b.of_captures.resize(b.captures.size());
        for (std::size_t n = 0; n < b.captures.size(); n++)
            if (captures()[n].has_gradient)
                gradients.add(std::string(captures()[n].name).c_str(), query, b.captures[n].buffer, b.of_captures[n]);
        return gradients.finish();
    }

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

// Adds a method of the call of a function of context_parallel.h.
template<Collective function> void add_collective(nb::class_<UserAttention> &of, const char *name) {
    using namespace nb::literals;
    const std::string signature = std::string("def ") + name +
                                  "(self, communicator: Communicator, plan: ParallelPlan, query: ArrayLike, key: ArrayLike, "
                                  "value: ArrayLike, **options: Any) -> Array | Attention";
    const std::string docstring = std::string("Over ranks: options of ") + name + "(), and captures.";
    of.def(
        name,
        [name](UserAttention &self, RankCommunicator &communicator, const ParallelPlan &plan, nb::handle query, nb::handle key,
               nb::handle value, const nb::kwargs &options) {
            return self.over_ranks(function, name, communicator, ParallelPlan(plan), query, key, value, options);
        },
        "communicator"_a, "plan"_a, "query"_a.none(), "key"_a.none(), "value"_a.none(), "options"_a, nb::sig(signature.c_str()),
        docstring.c_str());
}

}  // namespace

void bind_user_attention(nb::module_ &m) {
    using namespace nb::literals;
    nb::class_<UserAttention> attention(m, "UserAttention", "The shared object of an attention; a part of attune.define().");
    attention.def(nb::init<const std::string &>(), "file"_a)
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
             "The gradients: options of scaled_dot_product_attention_backward(), and captures.")
        .def("ring_attention_backward", &UserAttention::backward_over_ranks, "communicator"_a, "plan"_a, "query"_a.none(),
             "key"_a.none(), "value"_a.none(), "out"_a.none(), "lse"_a.none(), "grad_out"_a.none(), "options"_a,
             nb::sig("def ring_attention_backward(self, communicator: Communicator, plan: ParallelPlan, query: ArrayLike, "
                     "key: ArrayLike, value: ArrayLike, out: ArrayLike, lse: ArrayLike, grad_out: ArrayLike, **options: Any) "
                     "-> dict[str, Array]"),
             "The gradients over ranks: options of ring_attention_backward(), and captures.");
    add_collective<Collective::ring_attention>(attention, "ring_attention");
    add_collective<Collective::gathered_attention>(attention, "gathered_attention");
    add_collective<Collective::head_parallel_attention>(attention, "head_parallel_attention");
    add_collective<Collective::sharded_decode>(attention, "sharded_decode");
}

}  // namespace attune_python
