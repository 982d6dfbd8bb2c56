// SPDX-License-Identifier: MIT
// Tables of the options that several functions share.
#pragma once
#include "keywords.h"

namespace attune_python {

// attune::SdpaOptions but its outputs.
const Keywords &attention_keywords();
// The outputs out, lse and weights, into Wanted.
const Keywords &attention_outputs();
// weights_mode and average_weights, into SdpaOptions.
const Keywords &weights_keywords();
void read_score(Call &, attune::Score &, nb::handle, const char *name);
void read_window(Call &, attune::Window &, nb::handle, const char *name);
// attune::RowSteps.
const Keywords &row_step_keywords();
// attune::AdditiveOptions but those of attention.
const Keywords &additive_keywords();
// variant, into the options of functions that have nothing else.
struct Variant {
    std::string_view variant = {};
};
const Keywords &variant_keyword();

// attune::PagedOptions but its outputs.
const Keywords &paged_keywords();

// Pages that a function reads, or writes: an array, or (rows, scale), or (rows, scale, minimum).
attune::ConstPages pages_input(Call &, const char *name, nb::handle);
attune::Pages pages_output(Call &, const char *name, nb::handle);
// The rows of pages with the channels that they hold: a byte of u8 holds two.
attune::ConstView unpacked_rows(const attune::ConstPages &);

// Extents of lse and weights of a query: without the last dimension; with that of keys in its place.
attune::Dims lse_extents(const attune::ConstView &query);
attune::Dims weights_extents(const attune::ConstView &query, const attune::ConstView &key, bool averaged);
// lse is f64 for f64, else f32.
inline attune::DType lse_type(attune::DType type) { return type == attune::DType::f64 ? type : attune::DType::f32; }

// An output that is asked for by True or given as an array.
attune::View wanted_output(Call &, const char *name, nb::handle wanted, nb::handle like, attune::DType, const attune::Dims &,
                           nb::object &result, Layout = Layout::dense);

// out alone, or the named tuple Attention(out, lse, weights) where lse or weights was asked for.
nb::object attention_result(const Wanted &, nb::object out, nb::object lse, nb::object weights);

// Gradients that are asked for: names, or a mapping of names to arrays. The arrays made or written are returned as a dict.
class Gradients {
public:
    // `wanted` is None for `standard`.
    Gradients(Call &call, nb::handle wanted, std::initializer_list<const char *> standard);
    // The gradient of the tensor `of`, called `name`, if it is asked for. Its type and extents are those of `of`.
    void add(const char *name, nb::handle like, const attune::ConstView &of, attune::View &into);
    void add(const char *name, nb::handle like, attune::DType, const attune::Dims &, attune::View &into);
    // The dict; ValueError for names that no gradient has, or whose tensor was not given.
    nb::dict finish();

private:
    nb::object given_for(const char *name, bool &wanted);
    Call &call_;
    nb::object wanted_;
    std::vector<std::string> names_;  // of a list
    nb::dict made_;
    std::size_t asked_ = 0, known_ = 0;
    std::string known_names_;
};
const Keywords &gradients_keyword();
// Gradients of what the score reads: bias, slopes and sinks.
void add_score_gradients(Gradients &, nb::handle like, const attune::SdpaOptions &, const attune::ConstView &query,
                         attune::SdpaGradients &);
struct GradLse {
    attune::ConstView grad_lse;
};
const Keywords &grad_lse_keyword();

// Outputs of a function that takes SdpaOptions: lse and weights go into the options.
struct Outputs {
    nb::object out, lse, weights;
    void add(Call &, const Wanted &, nb::handle like, const attune::ConstView &query, const attune::ConstView &key,
             attune::SdpaOptions &);
    nb::object result(const Wanted &wanted) { return attention_result(wanted, out, lse, weights); }
};
// Extents of out: those of query with the last one of value.
attune::Dims out_extents(const attune::ConstView &query, const attune::ConstView &value);

void bind_attention(nb::module_ &);
void bind_gradients(nb::module_ &);
void bind_layers(nb::module_ &);
void bind_serving(nb::module_ &);
void bind_facts(nb::module_ &);
void bind_context_parallel(nb::module_ &);
void bind_torch(nb::module_ &);
void bind_user_attention(nb::module_ &);

// Adds a function with the signature and docstring of its description.
template<typename F, typename... Arguments>
void add(nb::module_ &module, const Description &description, F &&f, const Arguments &...arguments) {
    const std::string signature = description.signature(), docstring = description.docstring();
    module.def(description.name, std::forward<F>(f), arguments..., nb::sig(signature.c_str()), docstring.c_str());
}

}  // namespace attune_python
