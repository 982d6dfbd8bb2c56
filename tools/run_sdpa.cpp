// attune run sdpa: arrays from files, through the library, into files.
#include "commands.h"
#include "error.h"
#include "heatmap.h"
#include "npy.h"
#include "outputs.h"
#include "text.h"
#include <attune/attune.h>
#include <cstdlib>
#include <limits>
#include <string_view>

namespace attune::program {
namespace {

struct Problem {
    Array query, key, value, valid_lens, offsets;
    SdpaOptions options;
    ContextOptions context;
};

template<typename Data> BasicView<Data> view_of(Data *data, ElementType type, const std::vector<std::int64_t> &shape) {
    BasicView<Data> view;
    view.data = data;
    view.dtype = type == ElementType::f64 ? DType::f64 : type == ElementType::f32 ? DType::f32 : DType::i32;
    view.rank = static_cast<int>(shape.size());
    std::int64_t dense = 1;
    for (std::size_t n = shape.size(); n-- > 0; dense *= shape[n]) view.extent[n] = shape[n], view.stride[n] = dense;
    return view;
}
ConstView view_of(const Array &array) { return view_of<const void>(array.data.get(), array.type, array.shape); }
View output_view(Array &array) { return view_of<void>(array.data.get(), array.type, array.shape); }

// The library names its own parameters; here they are options of the command line.
std::string in_our_words(const std::string &message) {
    static constexpr std::pair<std::string_view, std::string_view> names[] = {
        {"query", "--query"},    {"key", "--key"},       {"value", "--value"},           {"out", "--out"},
        {"lse", "--lse"},        {"scale", "--scale"},   {"causal", "--causal"},         {"offset", "--offset"},
        {"offsets", "--offset"}, {"window", "--window"}, {"valid_lens", "--valid-lens"}, {"variant", "--variant"},
        {"threads", "--threads"}};
    for (auto [name, option] : names)
        if (message.starts_with(name) && message.substr(name.size()).starts_with(":"))
            return std::string(option) + message.substr(name.size());
    return message;
}

void check(const Status &status, const std::string &prefix = "") {
    if (status.ok()) return;
    const std::string message = prefix.empty() ? in_our_words(status.message()) : prefix + ": " + status.message();
    const std::size_t colon = message.find(": ");
    const std::string argument = message.substr(0, colon), what = colon == message.npos ? "failed" : message.substr(colon + 2);
    if (status.code() == StatusCode::invalid_argument || status.code() == StatusCode::unsupported)
        throw InputError(argument, what);
    throw MachineError(status.code() == StatusCode::out_of_memory ? "memory" : "internal", message);
}

std::int64_t parse_threads(const std::string &text) {
    const std::optional<std::int64_t> n = integer_in(text);
    if (!n || *n > std::numeric_limits<int>::max()) throw InputError("--threads", "'" + text + "' is not a number of threads");
    if (*n < 1) throw InputError("--threads", "must be at least 1, got " + text);
    return *n;
}

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

// What needs no file; the variant's name must outlive the options.
void parse_options(const RunSdpaArguments &given, Problem &problem) {
    SdpaOptions &options = problem.options;
    if (given.scale) {
        options.scale = number_in(*given.scale);
        if (!options.scale) throw InputError("--scale", "'" + *given.scale + "' is not a number");
    }
    if (given.causal) options.causal = parse_causal(*given.causal);
    if (options.causal == Causal::offset && !given.offset) throw InputError("--causal", "offset needs --offset");
    if (given.offset) {
        options.offset = integer_in(*given.offset);
        if (!options.offset && looks_like_number(*given.offset))
            throw InputError("--offset", "'" + *given.offset + "' is not a whole number in range");
    }
    if (given.window) options.window = parse_window(*given.window);
    if (given.threads) problem.context.threads = static_cast<int>(parse_threads(*given.threads));
    if (given.variant) options.variant = *given.variant;
    if (given.dtype && *given.dtype != "f32" && *given.dtype != "f64")
        throw InputError("--dtype", "'" + *given.dtype + "' is not f32 or f64");
    if (!given.labels_query.empty() && !given.heatmap) throw InputError("--labels-query", "is only for --heatmap");
    if (!given.labels_key.empty() && !given.heatmap) throw InputError("--labels-key", "is only for --heatmap");
}

void announce_files(const RunSdpaArguments &given, const Problem &problem, Outputs &outputs) {
    outputs.add_input("--query", given.query);
    outputs.add_input("--key", given.key);
    outputs.add_input("--value", given.value);
    if (given.valid_lens) outputs.add_input("--valid-lens", *given.valid_lens);
    if (given.offset && !problem.options.offset) outputs.add_input("--offset", *given.offset);
    for (const std::string &path : given.labels_query) outputs.add_input("--labels-query", path);
    for (const std::string &path : given.labels_key) outputs.add_input("--labels-key", path);
    outputs.add("--out", given.out);
    if (given.lse) outputs.add("--lse", *given.lse);
    if (given.weights) outputs.add("--weights", *given.weights);
    if (given.heatmap) outputs.add("--heatmap", *given.heatmap);
}

void load_arrays(const RunSdpaArguments &given, Problem &problem) {
    const auto floats = [&](const char *argument, const std::string &path) {
        Array array = read_npy(argument, path, ElementKind::floats);
        if (array.rank() != 3 && array.rank() != 4)
            throw InputError(argument, "has shape " + text_of(array.shape) + ", expected (B, H, S, D) or (B, S, D)");
        if (given.dtype)
            array = converted(std::move(array), *given.dtype == "f32" ? ElementType::f32 : ElementType::f64, argument);
        return array;
    };
    problem.query = floats("--query", given.query);
    problem.key = floats("--key", given.key);
    problem.value = floats("--value", given.value);
    for (auto [argument, array] : {std::pair("--key", &problem.key), std::pair("--value", &problem.value)})
        if (array->type != problem.query.type)
            throw InputError(argument, std::string("is ") + name_of(array->type) + " and --query is " +
                                           name_of(problem.query.type) + "; --dtype converts");
    if (given.valid_lens) {
        problem.valid_lens =
            converted(read_npy("--valid-lens", *given.valid_lens, ElementKind::integers), ElementType::i32, "--valid-lens");
        if (const int rank = problem.valid_lens.rank(); rank != 1 && rank != 2)
            throw InputError("--valid-lens", "has shape " + text_of(problem.valid_lens.shape) + ", expected (B,) or (B, Sq)");
        problem.options.valid_lens = view_of(problem.valid_lens);
    }
    if (given.offset && !problem.options.offset) {
        problem.offsets = converted(read_npy("--offset", *given.offset, ElementKind::integers), ElementType::i32, "--offset");
        if (problem.offsets.rank() != 1)
            throw InputError("--offset", "has shape " + text_of(problem.offsets.shape) + ", expected (B,)");
        problem.options.offsets = view_of(problem.offsets);
    }
}

// Extents of query, but for the last.
Array output_like(const char *argument, const Array &query, std::optional<std::int64_t> last) {
    std::vector<std::int64_t> shape(query.shape.begin(), query.shape.end() - 1);
    if (last) shape.push_back(*last);
    const std::optional<std::int64_t> count = elements_of(shape);
    if (!count || *count > std::numeric_limits<std::int32_t>::max())
        throw InputError(argument, "would have shape " + text_of(shape) + ", more than 2^31 - 1 elements");
    return Array(query.type, shape);
}

// ATTUNE_FORCE_VARIANT and --variant name one that may be for one size of value; the weights have as many as keys.
bool takes_any_sizes(std::string_view variant) {
    for (const VariantInfo &info : variants())
        if (info.name == variant) return info.head_dim == 0;
    return false;
}

// out is the weights where value is the identity. Its rows start one element earlier each in a row of zeros with a one in
// the middle, so that it takes 2 Sk elements and not Sk * Sk.
template<typename T> Array weights_of(const char *argument, const Context &main_context, Problem &problem) {
    const std::int64_t keys = problem.key.shape[problem.key.shape.size() - 2];
    Array weights = output_like(argument, problem.query, keys);
    if (weights.elements() == 0) return weights;
    std::vector<T> middle(static_cast<std::size_t>(2 * keys - 1), T(0));
    middle[static_cast<std::size_t>(keys - 1)] = 1;
    ConstView identity = view_of(problem.value);
    const int row = identity.rank - 2;
    identity.data = middle.data() + (keys - 1);
    identity.extent[row + 1] = keys;
    for (int n = 0; n < identity.rank; n++) identity.stride[n] = 0;
    identity.stride[row] = -1, identity.stride[row + 1] = 1;
    SdpaOptions options = problem.options;
    options.lse = {};
    if (!takes_any_sizes(main_context.last_variant())) {
        options.variant = {};
        ::unsetenv("ATTUNE_FORCE_VARIANT");
    }
    Context context(problem.context);
    check(context.status());
    check(scaled_dot_product_attention(context, view_of(problem.query), view_of(problem.key), identity, output_view(weights),
                                       options),
          argument);
    return weights;
}

std::vector<std::vector<std::string>> labels_of(const char *argument, const std::vector<std::string> &paths, std::int64_t batch,
                                                std::int64_t rows) {
    std::vector<std::vector<std::string>> all;
    if (paths.size() > 1 && static_cast<std::int64_t>(paths.size()) != batch)
        throw InputError(argument, std::to_string(paths.size()) + " files for " + std::to_string(batch) + " batch entries");
    for (const std::string &path : paths) {
        all.push_back(read_labels(argument, path));
        if (const auto found = static_cast<std::int64_t>(all.back().size()); found < rows)
            throw InputError(argument,
                             path + ": has " + std::to_string(found) + " labels for " + std::to_string(rows) + " rows");
    }
    return all;
}

Heatmap heatmap_of(const RunSdpaArguments &given, const Problem &problem) {
    const std::vector<std::int64_t> &q = problem.query.shape, &k = problem.key.shape;
    Heatmap map{q[0], q.size() == 4 ? q[1] : 1, q[q.size() - 2], k[k.size() - 2], {}, {}, {}, {}};
    const auto panels = elements_of({map.batch, map.heads}), cells = elements_of({map.batch, map.heads, map.queries, map.keys});
    if (!cells || *cells > max_heatmap_cells)
        throw InputError("--heatmap", "would have " + (cells ? std::to_string(*cells) : std::string("too many")) +
                                          " cells, at most " + std::to_string(max_heatmap_cells) + " can be drawn");
    if (!panels || *panels > max_heatmap_panels)
        throw InputError("--heatmap", "would have more than " + std::to_string(max_heatmap_panels) + " panels");
    map.query_labels = labels_of("--labels-query", given.labels_query, map.batch, map.queries);
    map.key_labels = labels_of("--labels-key", given.labels_key, map.batch, map.keys);
    return map;
}

template<typename T> std::string heatmap_svg(Heatmap map, const Array &weights, const Array &valid_lens) {
    map.weight = [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
        return static_cast<double>(weights.as<T>()[((b * map.heads + h) * map.queries + i) * map.keys + j]);
    };
    map.length = [&](std::int64_t b, std::int64_t i) -> std::int64_t {
        if (valid_lens.rank() == 0) return map.keys;
        return valid_lens.as<std::int32_t>()[valid_lens.rank() == 1 ? b : b * map.queries + i];
    };
    return svg_of(map);
}

void write_array(Outputs &outputs, const char *argument, const Array &array) {
    const std::string header = npy_header(array.type, array.shape);
    outputs.write(argument, {{header.data(), header.size()}, {array.data.get(), array.bytes()}});
}

template<typename T> void compute(const RunSdpaArguments &given, Problem &problem, Outputs &outputs) {
    Context context(problem.context);
    check(context.status());
    Array out = output_like("--out", problem.query, problem.value.shape.back()), lse;
    if (given.lse) {
        lse = output_like("--lse", problem.query, {});
        problem.options.lse = output_view(lse);
    }
    const std::optional<Heatmap> map = given.heatmap ? std::optional(heatmap_of(given, problem)) : std::nullopt;
    check(scaled_dot_product_attention(context, view_of(problem.query), view_of(problem.key), view_of(problem.value),
                                       output_view(out), problem.options));
    Array weights;
    if (given.weights || map) weights = weights_of<T>(given.weights ? "--weights" : "--heatmap", context, problem);

    write_array(outputs, "--out", out);
    if (given.lse) write_array(outputs, "--lse", lse);
    if (given.weights) write_array(outputs, "--weights", weights);
    if (map) {
        const std::string svg = heatmap_svg<T>(*map, weights, problem.valid_lens);
        outputs.write("--heatmap", {{svg.data(), svg.size()}});
    }
    outputs.commit();
}

}  // namespace

void run_sdpa(const RunSdpaArguments &given) {
    Problem problem;
    Outputs outputs;
    parse_options(given, problem);
    announce_files(given, problem, outputs);
    load_arrays(given, problem);
    if (problem.query.type == ElementType::f64)
        compute<double>(given, problem, outputs);
    else
        compute<float>(given, problem, outputs);
}

}  // namespace attune::program
