// SPDX-License-Identifier: MIT
// Views, parsed options, and the statuses of the library as errors of the program.
#include "tools/calls/library_call.h"
#include "tools/error.h"
#include "tools/text.h"
#include <algorithm>
#include <limits>

namespace attune::program {
namespace {

template<typename Data> BasicView<Data> dense_view(Data *data, const Array &array, int kept) {
    BasicView<Data> view;
    if (array.rank() == 0) return view;
    view.data = data;
    view.dtype = array.type == ElementType::f64       ? DType::f64
                 : array.type == ElementType::bf16    ? DType::bf16
                 : array.type == ElementType::f16     ? DType::f16
                 : array.type == ElementType::i32     ? DType::i32
                 : array.type == ElementType::i64     ? DType::i64
                 : array.type == ElementType::i8      ? DType::i8
                 : array.type == ElementType::u8      ? DType::u8
                 : array.type == ElementType::boolean ? DType::boolean
                                                      : DType::f32;
    Shape shape = array.shape;
    const int folded = array.rank() - kept;
    if (folded > 1) {
        shape.erase(shape.begin(), shape.begin() + folded);
        shape.insert(shape.begin(), *elements_of({array.shape.begin(), array.shape.begin() + folded}));
    }
    view.rank = static_cast<int>(shape.size());
    std::int64_t dense = 1;
    for (int n = view.rank; n-- > 0; dense *= shape[static_cast<std::size_t>(n)])
        if (n < max_rank) view.extent[n] = shape[static_cast<std::size_t>(n)], view.stride[n] = dense;
    return view;
}

// Options for the library's names of parameters, most of which are the same. A name stands before names that it contains.
constexpr std::pair<std::string_view, std::string_view> other_names[] = {
    {"gradients.weights.query_bias", "grad_b_query"},
    {"gradients.weights.key_bias", "grad_b_key"},
    {"gradients.weights.value_bias", "grad_b_value"},
    {"gradients.weights.out_bias", "grad_b_out"},
    {"gradients.weights.query", "grad_w_query"},
    {"gradients.weights.key", "grad_w_key"},
    {"gradients.weights.value", "grad_w_value"},
    {"gradients.weights.out", "grad_w_out"},
    {"gradients.attention.bias", "grad_bias"},
    {"gradients.attention.alibi_slopes", "grad_slopes"},
    {"gradients.attention.sinks", "grad_sinks"},
    {"weights.query_bias", "b_query"},
    {"weights.key_bias", "b_key"},
    {"weights.value_bias", "b_value"},
    {"weights.out_bias", "b_out"},
    {"weights.query", "w_query"},
    {"weights.key", "w_key"},
    {"weights.value", "w_value"},
    {"weights.out", "w_out"},
    {"key_heads", "kv_heads"},
    {"offsets", "offset"},
    {"alibi_slopes", "alibi"},
    {"dropout.probability", "dropout"},
    {"forward.out", "in_out"},
    {"forward.lse", "in_lse"},
    {"forward.grad_out", "grad_out"},
    {"forward.grad_lse", "grad_lse"},
    {"gradients.query", "grad_query"},
    {"gradients.key", "grad_key"},
    {"gradients.value", "grad_value"},
    {"gradients.bias", "grad_bias"},
    {"gradients.sinks", "grad_sinks"},
    {"gradients.alibi_slopes", "grad_slopes"},
    {"gradients.score_weight", "grad_score_weight"},
    {"gradients.weight", "grad_weight"},
    {"gradients.x", "grad_x"},
    {"key_pages.rows", "key_pages"},
    {"key_pages.scale", "key_scale"},
    {"key_pages.minimum", "key_minimum"},
    {"value_pages.rows", "value_pages"},
    {"value_pages.scale", "value_scale"},
    {"value_pages.minimum", "value_minimum"},
    {"prefix.block_table", "prefix_table"},
    {"prefix.lens", "prefix_lens"},
    {"prefix.of", "prefix_of"},
    {"key_steps.norm_weight", "norm_weight"},
    {"key_steps.norm_eps", "norm_eps"},
    {"key_steps.hadamard", "hadamard"},
    {"key_steps.rope.base", "rope_base"},
    {"key_steps.rope.scaling", "rope_scaling"},
    {"key_steps.rope.dim", "rope_dim"},
    {"key_steps.rope.offset", "rope_offset"},
    {"key_steps.rope.cos", "cos"},
    {"key_steps.rope.sin", "sin"},
    {"rope.base", "rope_base"},
    {"rope.scaling", "rope_scaling"},
    {"rope.dim", "rope_dim"},
    {"rope.offset", "rope_offset"},
    {"rope.cos", "cos"},
    {"rope.sin", "sin"},
};

std::string option_of(std::string name) {
    for (auto [library, ours] : other_names)
        if (name == library) name = ours;
    std::replace(name.begin(), name.end(), '_', '-');
    return "--" + name;
}

// Replaces the library's names with a dot everywhere, since such a name means nothing else.
std::string in_our_words(std::string text) {
    for (auto [library, ours] : other_names)
        if (library.find('.') != library.npos)
            for (std::size_t at = text.find(library); at != text.npos; at = text.find(library, at))
                text.replace(at, library.size(), option_of(std::string(library)));
    return text;
}

}  // namespace

ConstView view_of(const Array &array, int kept) { return dense_view<const void>(array.data.get(), array, kept); }
View output_view(Array &array, int kept) { return dense_view<void>(array.data.get(), array, kept); }
ConstView per_batch_view(const Array &array, int leading) {
    return view_of(array, leading > 1 ? array.rank() - leading : array.rank());
}

void check_leading(const char *argument, const Array &array, const Shape &leading, const char *first) {
    if (array.shape.size() < leading.size() || !std::equal(leading.begin(), leading.end(), array.shape.begin()))
        throw InputError(argument, "has shape " + text_of(array.shape) + ", expected the leading extents " + text_of(leading) +
                                       " of " + first);
}

ContextOptions context_options(const CallArguments &given) {
    ContextOptions options;
    if (!given.threads) return options;
    const std::optional<std::int64_t> n = integer_in(*given.threads);
    if (!n || *n > std::numeric_limits<int>::max())
        throw InputError("--threads", "'" + *given.threads + "' is not a number of threads");
    if (*n < 0) throw InputError("--threads", "must be at least 1, or 0 for one a core, got " + *given.threads);
    options.threads = static_cast<int>(*n);
    return options;
}

std::string_view variant_of(const CallArguments &given) { return given.variant ? std::string_view(*given.variant) : ""; }

Dropout dropout_of(const DropoutArguments &given) {
    Dropout dropout;
    if (given.probability) dropout.probability = number_of("--dropout", *given.probability);
    const auto natural = [&](const char *argument, const Given &text, std::uint64_t most, const char *range) {
        if (!text) return std::uint64_t(0);
        if (!given.probability) throw InputError(argument, "is only for --dropout");
        const std::optional<std::uint64_t> n = natural_in(*text);
        if (!n || *n > most) throw InputError(argument, "'" + *text + "' is not a whole number from 0 to " + range);
        return *n;
    };
    dropout.seed = natural("--seed", given.seed, std::numeric_limits<std::uint64_t>::max(), "2^64 - 1");
    const auto counter = [&](const char *argument, const Given &text) {
        return static_cast<std::uint32_t>(natural(argument, text, std::numeric_limits<std::uint32_t>::max(), "2^32 - 1"));
    };
    dropout.offset = counter("--dropout-offset", given.offset);
    dropout.first_query = counter("--dropout-first-query", given.first_query);
    dropout.first_key = counter("--dropout-first-key", given.first_key);
    dropout.first_head = counter("--dropout-first-head", given.first_head);
    dropout.heads = counter("--dropout-heads", given.heads);
    return dropout;
}

MaskFill fill_of(const Given &text) {
    if (!text || *text == "zero") return MaskFill::zero;
    if (*text == "seed") return MaskFill::seed;
    throw InputError("--fill", "'" + *text + "' is not zero or seed");
}

double number_of(const char *argument, const std::string &text) {
    if (const std::optional<double> number = number_in(text)) return *number;
    throw InputError(argument, "'" + text + "' is not a number");
}

std::int64_t whole_number_of(const char *argument, const std::string &text) {
    if (const std::optional<std::int64_t> number = integer_in(text)) return *number;
    throw InputError(argument, "'" + text + "' is not a whole number in range");
}

void check(const Status &status) {
    if (status.ok()) return;
    const std::string &message = status.message();
    const std::size_t colon = message.find(": ");
    std::string argument = message.substr(0, colon), what = colon == message.npos ? "failed" : message.substr(colon + 2);
    if (status.code() != StatusCode::invalid_argument && status.code() != StatusCode::unsupported)
        throw MachineError(status.code() == StatusCode::out_of_memory ? "memory" : "internal", message);
    // Names of environment variables stay as they are.
    if (argument.find_first_not_of("abcdefghijklmnopqrstuvwxyz_.") == argument.npos) argument = option_of(argument);
    throw InputError(argument, in_our_words(what));
}

}  // namespace attune::program
