// SPDX-License-Identifier: MIT
#include "options.h"
#include <cstring>
#include <nanobind/stl/string.h>

namespace attune_python {
namespace {

using attune::SdpaOptions;

constexpr Word<attune::Score> scores[] = {{"dot_product", attune::Score::dot_product},
                                          {"general", attune::Score::general},
                                          {"cosine", attune::Score::cosine},
                                          {"gaussian", attune::Score::gaussian}};
constexpr Word<attune::Causal> causals[] = {{"none", attune::Causal::none},
                                            {"top_left", attune::Causal::top_left},
                                            {"bottom_right", attune::Causal::bottom_right},
                                            {"offset", attune::Causal::offset}};
constexpr Word<attune::WeightsMode> weights_modes[] = {{"scaled", attune::WeightsMode::scaled},
                                                       {"capped", attune::WeightsMode::capped},
                                                       {"masked", attune::WeightsMode::masked},
                                                       {"probabilities", attune::WeightsMode::probabilities}};
constexpr Word<attune::RopePairs> rope_pairs[] = {{"halves", attune::RopePairs::halves},
                                                  {"interleaved", attune::RopePairs::interleaved}};

SdpaOptions &sdpa(void *into) { return *static_cast<SdpaOptions *>(into); }
void read_causal(Call &, void *into, nb::handle v, const char *name) { sdpa(into).causal = word_of(name, v, causals); }
void read_weights_mode(Call &, void *into, nb::handle v, const char *name) {
    sdpa(into).weights_mode = word_of(name, v, weights_modes);
}
void read_dropout(Call &, void *into, nb::handle v, const char *name) { sdpa(into).dropout.probability = number_of(name, v); }
void read_seed(Call &call, void *into, nb::handle v, const char *name) {
    // A tensor of one i64 is read when the call runs: a compiled graph draws seeds without leaving the graph.
    if (PyLong_Check(v.ptr())) {
        sdpa(into).dropout.seed = natural_of(name, v);
        return;
    }
    const attune::ConstView seed = call.input(name, v);
    if (seed.place == attune::Place::device) refuse(name, "is on a device; the number is read on the host");
    if (seed.dtype != attune::DType::i64 || seed.rank != 1 || seed.extent[0] != 1 || !seed.data)
        refuse(name, "must be an integer, or an i64 array of one element");
    sdpa(into).dropout.seed = static_cast<std::uint64_t>(*static_cast<const std::int64_t *>(seed.data));
}
// Members of SdpaOptions::dropout of 32 bits.
template<auto member> void dropout_(Call &, void *into, nb::handle v, const char *name) {
    const std::uint64_t number = natural_of(name, v);
    if (number > 0xffffffffu) refuse(name, "must be below 2^32");
    sdpa(into).dropout.*member = static_cast<std::uint32_t>(number);
}
void read_rope_pairs(Call &, void *into, nb::handle v, const char *name) {
    static_cast<attune::RowSteps *>(into)->rope.pairs = word_of(name, v, rope_pairs);
}

using attune::Rope;
using attune::RowSteps;
// Members of RowSteps::rope.
template<auto read_rope> void rope_(Call &call, void *into, nb::handle v, const char *name) {
    read_rope(call, &static_cast<RowSteps *>(into)->rope, v, name);
}

template<typename V> using Read = V (Call::*)(const char *name, nb::handle array);
template<typename V>
attune::BasicPages<V> pages_of(Call &call, const char *name, nb::handle pages, Read<V> read, Read<V> read_scale) {
    if (!PyTuple_Check(pages.ptr())) return {(call.*read)(name, pages)};
    const std::size_t count = nb::len(pages);
    if (count < 1 || count > 3) refuse(name, "must be an array, (rows, scale) or (rows, scale, minimum)");
    const auto member = [&](std::size_t n, const char *what, Read<V> by) {
        const nb::object array = n < count ? nb::object(pages[n]) : nb::none();
        return given(array) ? (call.*by)((name + std::string(what)).c_str(), array) : V{};
    };
    return {member(0, "", read), member(1, ".scale", read_scale), member(2, ".minimum", read)};
}

}  // namespace

void read_score(Call &, attune::Score &score, nb::handle v, const char *name) { score = word_of(name, v, scores); }
void read_window(Call &, attune::Window &window, nb::handle v, const char *name) {
    if (!PySequence_Check(v.ptr()) || nb::len(v) != 2) refuse(name, "must be (left, right)");
    window = {integer_of(name, v[0]), integer_of(name, v[1])};
}

const Keywords &attention_keywords() {
    static const Keywords *const table = new Keywords{
        {"score", "str", "'dot_product'",
         "The score x(i, j): \"dot_product\", scale q . k; \"general\", scale q . (W k) with W = score_weight; \"cosine\"; "
         "\"gaussian\", -scale / 2 |q - k|^2.",
         [](Call &c, void *into, nb::handle v, const char *name) { read_score(c, sdpa(into).score, v, name); }},
        {"score_weight", "ArrayLike | None", "None", "W of the score \"general\": (Dq, Dk), type of query.",
         input_<&SdpaOptions::score_weight>},
        {"scale", "float | None", "None", "Factor of the score; None: 1 / sqrt(Dk) for the dot product, 1 for the others.",
         number_<&SdpaOptions::scale>},
        {"softcap", "float", "0.0", "c > 0: a score x becomes c tanh(x / c). 0: off.", number_<&SdpaOptions::softcap>},
        {"bias", "ArrayLike | None", "None", "Added to scores: broadcasts to (B, Hq, Sq, Sk), type of query; -inf masks.",
         input_<&SdpaOptions::bias>},
        {"alibi", "bool", "False", "Adds -slope(h) |i + off - j| with the standard slopes.", truth_<&SdpaOptions::alibi>},
        {"alibi_slopes", "ArrayLike | None", "None", "Slopes of ALiBi in place of the standard ones: f32 (Hq) or (B, Hq).",
         input_<&SdpaOptions::alibi_slopes>},
        {"mask", "ArrayLike | None", "None", "bool, broadcasts to (B, Hq, Sq, Sk): only keys where it is True take part.",
         input_<&SdpaOptions::mask>},
        {"causal", "str | None", "None",
         "Key j takes part for query i iff j <= i + off: \"top_left\", off 0; \"bottom_right\", off Sk - Sq; \"offset\", off "
         "given by offset or offsets.",
         read_causal},
        {"offset", "int | None", "None", "off of causal, window and ALiBi: the position of query 0 among the keys.",
         integer_<&SdpaOptions::offset>},
        {"offsets", "ArrayLike | Sequence[int] | None", "None", "off of each batch entry: i32 (B).",
         integers_<&SdpaOptions::offsets>},
        {"window", "tuple[int, int] | None", "None",
         "(left, right): key j takes part iff i + off - left <= j <= i + off + right; -1: unbounded.",
         [](Call &c, void *into, nb::handle v, const char *name) { read_window(c, sdpa(into).window, v, name); }},
        {"valid_lens", "ArrayLike | Sequence[int] | None", "None",
         "i32 (B) or (B, Sq), from 0 to Sk: only keys j < valid_lens take part.", integers_<&SdpaOptions::valid_lens>},
        {"cache_lens", "ArrayLike | Sequence[int] | None", "None",
         "i32 (B): rows that the caches key and value hold before the Sq rows of this call.",
         integers_<&SdpaOptions::cache_lens>},
        {"sinks", "ArrayLike | None", "None", "f32 (Hq): a score of each head that joins the normaliser and has no value.",
         input_<&SdpaOptions::sinks>},
        {"dropout_p", "float", "0.0", "Probability with which a weight becomes 0; the others are divided by 1 - dropout_p.",
         read_dropout},
        {"seed", "int | ArrayLike", "0", "Seed of dropout, from 0 to 2^64 - 1, or an i64 array of one element.", read_seed},
        {"dropout_offset", "int", "0", "Selects another dropout mask of the same seed, from 0 to 2^32 - 1.",
         dropout_<&attune::Dropout::offset>},
        {"dropout_first_query", "int", "0",
         "Of a part of a larger call, which keeps the weights that the larger one keeps: the number of query 0 there, modulo "
         "2^32.",
         dropout_<&attune::Dropout::first_query>},
        {"dropout_first_key", "int", "0", "Of a part of a larger call: the number of key 0 there, modulo 2^32.",
         dropout_<&attune::Dropout::first_key>},
        {"dropout_first_head", "int", "0",
         "Of a part of a larger call: the number of query head 0 there, modulo 2^32; head h of batch entry b has the number "
         "b * dropout_heads + h.",
         dropout_<&attune::Dropout::first_head>},
        {"dropout_heads", "int", "0", "Of a part of a larger call: the query heads of the larger call, at least Hq; 0: Hq.",
         dropout_<&attune::Dropout::heads>},
        {"invariant", "bool", "False", "The same bits for a prompt at once, in chunks and token by token.",
         truth_<&SdpaOptions::invariant>},
        {"variant", "str | None", "None", "Run this variant, or fail; None: dispatch chooses.", text_<&SdpaOptions::variant>},
    };
    return *table;
}

const Keywords &attention_outputs() {
    static const Keywords *const table = new Keywords{
        {"out", "ArrayLike | None", "None", "Output, written in place; None: a new array.", handle_<&Wanted::out>},
        {"lse", "bool | ArrayLike | None", "None",
         "True: also return the log-sum-exp of the scores, natural logarithm, -inf for a query without keys; or an array "
         "that is written. f64 for f64, else f32.",
         handle_<&Wanted::lse>},
        {"weights", "bool | ArrayLike | None", "None", "True: also return the weights, (B, Hq, Sq, Sk); or an array.",
         handle_<&Wanted::weights>},
    };
    return *table;
}

const Keywords &weights_keywords() {
    static const Keywords *const table = new Keywords{
        {"weights_mode", "str", "'probabilities'",
         "Content of weights: \"scaled\", \"capped\", \"masked\" scores, or \"probabilities\" before dropout.",
         read_weights_mode},
        {"average_weights", "bool", "False", "weights is the mean over the heads, (B, Sq, Sk).",
         truth_<&SdpaOptions::average_weights>},
    };
    return *table;
}

const Keywords &row_step_keywords() {
    static const Keywords *const table = new Keywords{
        {"norm_weight", "ArrayLike | None", "None", "Weight of the RMS norm of each row: (D) or (H, D); None: no norm.",
         input_<&RowSteps::norm_weight>},
        {"norm_eps", "float", "1e-06", "Added to the mean of the squares.", number_<&RowSteps::norm_eps>},
        {"rope_cos", "ArrayLike | None", "None", "Table of RoPE: f32 (positions, dim / 2); see rope_tables().",
         rope_<input_<&Rope::cos>>},
        {"rope_sin", "ArrayLike | None", "None", "Table of RoPE: f32 (positions, dim / 2).", rope_<input_<&Rope::sin>>},
        {"rope_base", "float", "0.0", "More than 1: the base of RoPE's angles, in place of tables.",
         rope_<number_<&Rope::base>>},
        {"rope_scaling", "float", "1.0", "Positions are divided by it, with rope_base.", rope_<number_<&Rope::scaling>>},
        {"rope_dim", "int", "0", "Channels that RoPE rotates, even; 0: all.", rope_<integer_<&Rope::dim>>},
        {"rope_offset", "int", "0", "The first channel that RoPE rotates.", rope_<integer_<&Rope::offset>>},
        {"rope_pairs", "str", "'halves'",
         "Channels that RoPE rotates together: \"halves\", (t, t + dim / 2), or \"interleaved\", (2t, 2t + 1).",
         read_rope_pairs},
        {"hadamard", "bool", "False", "Normalised Walsh-Hadamard rotation of each row; its own inverse.",
         truth_<&RowSteps::hadamard>},
    };
    return *table;
}

const Keywords &additive_keywords() {
    using attune::AdditiveOptions;
    static const Keywords *const table = new Keywords{
        {"w_query", "ArrayLike | None", "None", "Projection of the query, (h, Dq); None: query is projected, of width h.",
         input_<&AdditiveOptions::w_query>},
        {"w_key", "ArrayLike | None", "None", "Projection of the key, (h, Dk); None: key is projected.",
         input_<&AdditiveOptions::w_key>},
        {"b_query", "ArrayLike | None", "None", "Bias of the query's projection, (h).", input_<&AdditiveOptions::b_query>},
        {"b_key", "ArrayLike | None", "None", "Bias of the key's projection, (h).", input_<&AdditiveOptions::b_key>},
        {"w_score", "ArrayLike | None", "None", "Weight of each unit in the score, (h); None: ones.",
         input_<&AdditiveOptions::w_score>},
        {"b_score", "float", "0.0", "Added to every score.", number_<&AdditiveOptions::b_score>},
    };
    return *table;
}

const Keywords &variant_keyword() {
    static const Keywords *const table = new Keywords{
        {"variant", "str | None", "None", "Run this variant, or fail; None: dispatch chooses.", text_<&Variant::variant>},
    };
    return *table;
}

attune::ConstPages pages_input(Call &call, const char *name, nb::handle pages) {
    return pages_of<attune::ConstView>(call, name, pages, &Call::input, &Call::input);
}

attune::ConstView unpacked_rows(const attune::ConstPages &pages) {
    attune::ConstView rows = pages.rows;
    if (rows.dtype == attune::DType::u8 && rows.rank == 4) rows.extent[3] *= 2;
    return rows;
}

attune::Pages pages_output(Call &call, const char *name, nb::handle pages) {
    return pages_of<attune::View>(call, name, pages, &Call::output, &Call::scale);
}

const Keywords &gradients_keyword() {
    static const Keywords *const table = new Keywords{
        {"gradients", "Sequence[str] | Mapping[str, ArrayLike | None] | None", "None",
         "Names of the gradients wanted, or a mapping of names to arrays that are written (None: a new array); None: those "
         "of the tensors that are positional arguments.",
         handle_<&Wanted::gradients>},
    };
    return *table;
}

attune::Dims lse_extents(const attune::ConstView &query) {
    std::vector<std::int64_t> extents(query.extent, query.extent + std::min(query.rank, attune::max_rank));
    extents.pop_back();
    return attune::Dims(extents);
}

attune::Dims weights_extents(const attune::ConstView &query, const attune::ConstView &key, bool averaged) {
    std::vector<std::int64_t> extents(query.extent, query.extent + std::min(query.rank, attune::max_rank));
    extents.back() = key.rank >= 2 && key.rank <= attune::max_rank ? key.extent[key.rank - 2] : 0;
    if (averaged && extents.size() == 4) extents.erase(extents.begin() + 1);
    return attune::Dims(extents);
}

attune::View wanted_output(Call &call, const char *name, nb::handle wanted, nb::handle like, attune::DType type,
                           const attune::Dims &extents, nb::object &result, Layout layout) {
    if (!given(wanted) || wanted.ptr() == Py_False) return {};
    if (wanted.ptr() == Py_True) return call.make(like, type, extents, result, layout);
    result = nb::borrow(wanted);
    return call.output(name, wanted);
}

nb::object attention_result(const Wanted &wanted, nb::object out, nb::object lse, nb::object weights) {
    const auto asked = [](nb::handle h) { return given(h) && h.ptr() != Py_False; };
    if (!asked(wanted.lse) && !asked(wanted.weights)) return out;
    static const nb::object *type = nullptr;
    if (!type) type = new nb::object(nb::module_::import_("attune._results").attr("Attention"));
    const auto or_none = [](nb::object &o) { return o.is_valid() ? o : nb::none(); };
    return (*type)(out, or_none(lse), or_none(weights));
}

void Outputs::add(Call &call, const Wanted &wanted, nb::handle like, const attune::ConstView &query,
                  const attune::ConstView &key, SdpaOptions &options) {
    if (query.rank < 2 || query.rank > attune::max_rank) return;  // the library says so
    options.lse = wanted_output(call, "lse", wanted.lse, like, lse_type(query.dtype), lse_extents(query), lse);
    options.weights = wanted_output(call, "weights", wanted.weights, like, query.dtype,
                                    weights_extents(query, key, options.average_weights), weights);
}

attune::Dims out_extents(const attune::ConstView &query, const attune::ConstView &value) {
    std::vector<std::int64_t> extents(query.extent, query.extent + std::min(query.rank, attune::max_rank));
    if (value.rank >= 1 && value.rank <= attune::max_rank) extents.back() = value.extent[value.rank - 1];
    extents.resize(static_cast<std::size_t>(query.rank));
    return attune::Dims(extents);
}

Gradients::Gradients(Call &call, nb::handle wanted, std::initializer_list<const char *> standard) : call_(call) {
    if (!given(wanted)) {
        for (const char *name : standard) names_.push_back(name);
        asked_ = names_.size();
        return;
    }
    if (PyUnicode_Check(wanted.ptr())) refuse("gradients", "must be a list of names or a mapping, not one text");
    if (nb::hasattr(wanted, "keys")) {
        wanted_ = nb::steal(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject *>(&PyDict_Type), wanted.ptr(), nullptr));
        if (!wanted_.is_valid()) throw nb::python_error();
        asked_ = nb::len(wanted_);
        return;
    }
    for (nb::handle name : nb::borrow<nb::object>(wanted)) names_.push_back(nb::cast<std::string>(nb::str(name)));
    asked_ = names_.size();
}

nb::object Gradients::given_for(const char *name, bool &wanted) {
    wanted = false;
    known_names_ += std::string(known_names_.empty() ? "" : ", ") + name;
    if (wanted_.is_valid()) {
        PyObject *found = PyDict_GetItemString(wanted_.ptr(), name);
        wanted = found;
        return found ? nb::borrow(found) : nb::none();
    }
    for (const std::string &n : names_) wanted |= n == name;
    return nb::none();
}

void Gradients::add(const char *name, nb::handle like, attune::DType type, const attune::Dims &extents, attune::View &into) {
    bool wanted = false;
    const nb::object array = given_for(name, wanted);
    if (!wanted) return;
    known_++;
    nb::object result;
    const bool of_rows = std::strcmp(name, "query") == 0 || std::strcmp(name, "key") == 0 || std::strcmp(name, "value") == 0;
    into = call_.output_or_new((std::string("gradients[\"") + name + "\"]").c_str(), array, like, type, extents, result,
                               of_rows ? call_.layout : Layout::dense);
    made_[name] = result;
}

void Gradients::add(const char *name, nb::handle like, const attune::ConstView &of, attune::View &into) {
    if (of.given()) add(name, like, of.dtype, extents_of(of), into);
}

nb::dict Gradients::finish() {
    if (known_ == asked_) return made_;
    refuse("gradients", "names a tensor that this call does not have (" + known_names_ + "), or one twice");
}

}  // namespace attune_python
