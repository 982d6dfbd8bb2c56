// SPDX-License-Identifier: MIT
// Options of attention, from words and files to SdpaOptions; its calls; its results.
#include "tools/calls/attention.h"
#include "tools/error.h"
#include "tools/text.h"
#include <algorithm>
#include <cstring>

namespace attune::program {
namespace {

Window parse_window(const std::string &text) {
    const std::size_t comma = text.find(',');
    if (comma != std::string::npos) {
        const auto left = integer_in(std::string_view(text).substr(0, comma)),
                   right = integer_in(std::string_view(text).substr(comma + 1));
        if (left && right) {
            if (*left < -1 || *right < -1) throw InputError("--window", "must be at least -1 on each side, got " + text);
            return {*left, *right};
        }
    }
    throw InputError("--window", "'" + text + "' is not two numbers LEFT,RIGHT");
}

Causal parse_causal(const std::string &text) {
    if (text == "top-left") return Causal::top_left;
    if (text == "bottom-right") return Causal::bottom_right;
    if (text == "offset") return Causal::offset;
    throw InputError("--causal", "'" + text + "' is not top-left, bottom-right or offset");
}

WeightsMode parse_weights_mode(const std::string &text) {
    static constexpr WeightsMode modes[] = {WeightsMode::scaled, WeightsMode::capped, WeightsMode::masked,
                                            WeightsMode::probabilities};
    const std::optional<std::uint64_t> n = natural_in(text);
    if (!n || *n > 3) throw InputError("--weights-mode", "'" + text + "' is not 0, 1, 2 or 3");
    return modes[*n];
}

// Folds the extents of a mask or bias before (Hq, Sq, Sk) with those of query, if all are 1, or once they are repeated to those
// of query.
Array with_leading(Array array, const Shape &leading, const char *argument) {
    constexpr std::size_t inner_rank = 3;
    if (leading.size() <= 1 || array.shape.size() <= inner_rank) return array;
    const std::size_t own = array.shape.size() - inner_rank;
    const Shape inner(array.shape.end() - inner_rank, array.shape.end());
    Shape wanted = leading;
    bool repeated = false, broadcast = own <= leading.size();
    for (std::size_t n = 0; n < std::min(own, leading.size()); n++) {
        const std::int64_t here = array.shape[own - 1 - n], there = leading[leading.size() - 1 - n];
        repeated |= here != 1;
        broadcast &= here == 1 || here == there;
    }
    if (!broadcast)
        throw InputError(argument, "has shape " + text_of(array.shape) + ", which does not broadcast to the leading extents " +
                                       text_of(leading) + " of --query");
    if (!repeated) wanted = {1};
    wanted.insert(wanted.end(), inner.begin(), inner.end());
    if (!repeated || wanted == array.shape) {
        array.shape = wanted;
        return array;
    }
    Array out = output_array(argument, array.type, wanted);
    const std::size_t block = static_cast<std::size_t>(*elements_of(inner)) * size_of(array.type);
    const std::int64_t blocks = *elements_of(leading);
    for (std::int64_t n = 0; n < blocks && block > 0; n++) {
        std::int64_t rest = n, from = 0, stride = 1;
        for (std::size_t d = 0; d < own; d++) {
            const std::int64_t here = array.shape[own - 1 - d], there = leading[leading.size() - 1 - d];
            from += here == 1 ? 0 : rest % there * stride;
            rest /= there, stride *= here;
        }
        std::memcpy(out.data.get() + static_cast<std::size_t>(n) * block,
                    array.data.get() + static_cast<std::size_t>(from) * block, block);
    }
    return out;
}

}  // namespace

SdpaOptions options_of(const AttentionArguments &a) {
    SdpaOptions options;
    if (a.scale) options.scale = number_of("--scale", *a.scale);
    if (a.softcap) options.softcap = number_of("--softcap", *a.softcap);
    options.alibi = a.alibi == "auto";
    if (a.causal) options.causal = parse_causal(*a.causal);
    if (options.causal == Causal::offset && !a.offset && !a.cache_lens) throw InputError("--causal", "offset needs --offset");
    if (a.offset) {
        options.offset = integer_in(*a.offset);
        if (!options.offset && looks_like_number(*a.offset))
            throw InputError("--offset", "'" + *a.offset + "' is not a whole number in range");
    }
    if (a.window) options.window = parse_window(*a.window);
    options.dropout = dropout_of(a.dropout);
    if (a.weights_mode) options.weights_mode = parse_weights_mode(*a.weights_mode);
    options.average_weights = a.average_weights;
    options.invariant = a.invariant;
    options.variant = variant_of(a.call);
    return options;
}

Score score_of(const Given &text) {
    if (!text || *text == "dot") return Score::dot_product;
    if (*text == "general") return Score::general;
    if (*text == "cosine") return Score::cosine;
    if (*text == "gaussian") return Score::gaussian;
    throw InputError("--score", "'" + *text + "' is not dot, general, cosine or gaussian");
}

Attention::Attention(const AttentionArguments &given, CommandFiles &files, Heads heads)
    : given_(given), files_(files), heads_(heads), kept_(heads == Heads::given ? 3 : 2),
      context_options_(context_options(given.call)), picture_(given.picture, files) {
    parse();
    const Ranks arrays =
        heads == Heads::given ? Ranks{2, any_rank, "(B, H, S, D), (B, S, D) or (S, D)"} : Ranks{3, any_rank, "(B, S, E)"};
    files.input("--query", given.query, query, arrays);
    files.input("--key", given.key, key, arrays);
    files.input("--value", given.value, value, arrays);
    const Ranks broadcast = {1, any_rank, "one that broadcasts to (B, Hq, Sq, Sk)"};
    files.input("--mask", given.mask, mask_, broadcast, Role::booleans);
    files.input("--bias", given.bias, bias, broadcast);
    if (given.alibi && !options.alibi)
        files.input("--alibi", given.alibi, alibi, {1, any_rank, "(Hq,) or (B, Hq)"}, Role::single_floats);
    files.input("--sinks", given.sinks, sinks, {1, 1, "(Hq,)"}, Role::single_floats);
    files.input("--valid-lens", given.valid_lens, valid_lens_, {1, any_rank, "(B,) or (B, Sq)"}, Role::integers);
    files.input("--cache-lens", given.cache_lens, cache_lens_, {1, any_rank, "(B,)"}, Role::integers);
    if (given.offset && !options.offset) files.input("--offset", given.offset, offsets_, {1, any_rank, "(B,)"}, Role::integers);
    files.output("--out", given.out);
    files.output("--lse", given.lse);
    files.output("--weights", given.weights);
    files.output("--heatmap", given.picture.file);
}

void Attention::parse() {
    options = options_of(given_);
    if (given_.weights_mode && !given_.weights) throw InputError("--weights-mode", "is only for --weights");
    if (given_.average_weights && !given_.weights && !picture_.wanted())
        throw InputError("--average-weights", "is only for --weights and --heatmap");
}

void Attention::add_arrays() {
    // Extents that the library takes as one batch extent.
    const int leading_rank = std::max(1, query.rank() - kept_);
    const bool folded = leading_rank > 1;
    const Shape leading(query.shape.begin(), query.shape.begin() + leading_rank);
    for (auto [argument, array] : {std::pair("--key", &key), {"--value", &value}}) {
        if (array->rank() != query.rank())
            throw InputError(argument, "has shape " + text_of(array->shape) + ", expected as many extents as --query has, " +
                                           std::to_string(query.rank()));
        if (folded) check_leading(argument, *array, leading, "--query");
    }
    if (folded) {
        for (auto [argument, array] :
             {std::pair("--valid-lens", &valid_lens_), {"--cache-lens", &cache_lens_}, {"--offset", &offsets_}})
            if (array->rank() > 0) check_leading(argument, *array, leading, "--query");
        if (alibi.rank() > 1) check_leading("--alibi", alibi, leading, "--query");
    }
    mask_ = with_leading(std::move(mask_), leading, "--mask");
    bias_shape = bias.shape;
    bias = with_leading(std::move(bias), leading, "--bias");
    // A mask with more extents than (Hq, Sq, Sk) is refused, not folded.
    options.mask = view_of(mask_, folded ? 3 : any_rank), options.bias = view_of(bias, folded ? 3 : any_rank);
    options.valid_lens = per_batch_view(valid_lens_, leading_rank);
    options.cache_lens = per_batch_view(cache_lens_, leading_rank);
    options.offsets = per_batch_view(offsets_, leading_rank);
    options.alibi_slopes = alibi.rank() > 1 ? per_batch_view(alibi, leading_rank) : view_of(alibi);
    options.sinks = view_of(sinks);
}

void Attention::check_batch(const char *argument, const Array &array, int kept) const {
    if (array.rank() - kept != query.rank() - kept_)
        throw InputError(argument, "has shape " + text_of(array.shape) + ", and --query " + text_of(query.shape));
    const int leading_rank = query.rank() - kept_;
    if (leading_rank > 1) check_leading(argument, array, {query.shape.begin(), query.shape.begin() + leading_rank}, "--query");
}

std::int64_t Attention::length(std::int64_t b, std::int64_t i) const {
    if (cache_lens_.rank() > 0) return cache_lens_.as<std::int32_t>()[b] + query.shape[query.shape.size() - 2];
    if (valid_lens_.rank() == 0) return key.shape[key.shape.size() - 2];
    const bool per_query = valid_lens_.rank() > std::max(1, query.rank() - kept_);
    return valid_lens_.as<std::int32_t>()[per_query ? b * query.shape[query.shape.size() - 2] + i : b];
}

void Attention::run(std::int64_t out_width, const Call &call, std::int64_t heads) {
    add_arrays();
    Context context(context_options_);
    check(context.status());

    const Shape outer(query.shape.begin(), query.shape.end() - 2);
    const std::int64_t queries = query.shape[outer.size()], keys = key.shape[key.shape.size() - 2];
    const auto joined = [](Shape shape, std::initializer_list<std::int64_t> more) {
        shape.insert(shape.end(), more);
        return shape;
    };
    Array out = output_array("--out", files_.type(), joined(outer, {queries, out_width}));
    Shape of_heads = outer;
    if (heads_ == Heads::made) of_heads.push_back(heads);
    Array lse;
    if (given_.lse) {
        lse = output_array("--lse", files_.sum_type(), joined(of_heads, {queries}));
        options.lse = output_view(lse, 2);
    }
    Shape of_weights = of_heads;
    bool has_heads = heads_ == Heads::made || outer.size() > 1;
    if (has_heads && options.average_weights) of_weights.pop_back(), has_heads = false;
    of_weights = joined(of_weights, {queries, keys});
    if (picture_.wanted()) picture_.prepare(of_weights, has_heads);
    const int kept_of_weights = options.average_weights ? 2 : 3;

    Array weights;
    const char *argument = given_.weights ? "--weights" : "--heatmap";
    if (given_.weights || picture_.wanted()) {
        weights = output_array(argument, files_.type(), of_weights);
        options.weights = output_view(weights, kept_of_weights);
    }
    check(call(context, output_view(out, kept_), options));

    files_.write("--out", out);
    if (given_.lse) files_.write("--lse", lse);
    if (given_.weights) files_.write("--weights", weights);
    if (picture_.wanted()) {
        // The picture always shows the weights; where the file has scores, the weights take a call of their own.
        if (options.weights_mode != WeightsMode::probabilities) {
            options.weights_mode = WeightsMode::probabilities;
            check(call(context, output_view(out, kept_), options));
        }
        picture_.draw(weights, [this](std::int64_t b, std::int64_t i) { return length(b, i); });
    }
    files_.commit();
}

}  // namespace attune::program
