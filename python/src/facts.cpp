// SPDX-License-Identifier: MIT
// Facts of the library and of the machine: variants, targets, plans; the Context; and the picture of weights.
#include "options.h"
#include "tools/picture/heatmap.h"
#include <attune/half.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

namespace attune_python {
namespace {

using attune::ConstView;
using attune::DType;

nb::dict variant_dict(const attune::VariantInfo &v) {
    nb::dict d;
    d["name"] = v.name, d["op"] = v.op, d["dtype"] = attune::name_of(v.dtype), d["head_dim"] = v.head_dim;
    d["target"] = v.target, d["schedule"] = v.schedule, d["kind"] = v.kind, d["shape_class"] = v.shape_class;
    d["parameters"] = v.parameters, d["provenance"] = v.provenance, d["dispatched"] = v.dispatched;
    d["runs_here"] = v.runs_here, d["why_not"] = v.why_not, d["cost_measured"] = v.cost_measured;
    return d;
}

nb::list variants() {
    nb::list list;
    for (const attune::VariantInfo &v : attune::variants()) list.append(variant_dict(v));
    return list;
}

nb::list targets() {
    nb::list list;
    for (const attune::TargetInfo &t : attune::targets()) {
        nb::dict d;
        d["name"] = t.name, d["missing"] = t.missing;
        list.append(d);
    }
    return list;
}

nb::dict default_threads() {
    const attune::DefaultThreads found = attune::default_threads();
    nb::dict d;
    d["threads"] = found.threads, d["limited_by"] = found.limited_by, d["processors"] = found.processors;
    d["cpu_quota"] = found.cpu_quota;
    return d;
}

nb::list candidates_of(const std::vector<attune::PlanCandidate> &candidates) {
    nb::list list;
    for (const attune::PlanCandidate &c : candidates) {
        nb::dict d;
        d["variant"] = c.variant, d["predicted_us"] = c.predicted_us, d["measured"] = c.measured;
        list.append(d);
    }
    return list;
}

constexpr Word<DType> types[] = {{"f32", DType::f32}, {"f64", DType::f64}, {"bf16", DType::bf16}, {"f16", DType::f16}};
constexpr Word<attune::Causal> causals[] = {{"none", attune::Causal::none},
                                            {"top_left", attune::Causal::top_left},
                                            {"bottom_right", attune::Causal::bottom_right},
                                            {"offset", attune::Causal::offset}};

constexpr Word<attune::Place> places[] = {{"host", attune::Place::host}, {"device", attune::Place::device}};

nb::dict plan_sdpa(const nb::kwargs &sizes) {
    using attune::SdpaProblem;
    struct Problem : SdpaProblem {
        attune::Causal causal_mask = attune::Causal::none;
        attune::Window window = {};
    };
    static const Keywords *const table = new Keywords{
        {"dtype", "str", "'f32'", "",
         [](Call &, void *p, nb::handle v, const char *name) { static_cast<Problem *>(p)->dtype = word_of(name, v, types); }},
        {"score", "str", "'dot_product'", "",
         [](Call &c, void *p, nb::handle v, const char *n) { read_score(c, static_cast<Problem *>(p)->score, v, n); }},
        {"batch", "int", "1", "",
         [](Call &, void *p, nb::handle v, const char *n) { static_cast<Problem *>(p)->batch = integer_of(n, v); }},
        {"query_heads", "int", "1", "",
         [](Call &, void *p, nb::handle v, const char *n) { static_cast<Problem *>(p)->query_heads = integer_of(n, v); }},
        {"key_heads", "int", "1", "",
         [](Call &, void *p, nb::handle v, const char *n) { static_cast<Problem *>(p)->key_heads = integer_of(n, v); }},
        {"queries", "int", "1", "",
         [](Call &, void *p, nb::handle v, const char *n) { static_cast<Problem *>(p)->queries = integer_of(n, v); }},
        {"keys", "int", "1", "",
         [](Call &, void *p, nb::handle v, const char *n) { static_cast<Problem *>(p)->keys = integer_of(n, v); }},
        {"head_dim", "int", "1", "",
         [](Call &, void *p, nb::handle v, const char *n) { static_cast<Problem *>(p)->head_dim = integer_of(n, v); }},
        {"value_dim", "int", "1", "",
         [](Call &, void *p, nb::handle v, const char *n) { static_cast<Problem *>(p)->value_dim = integer_of(n, v); }},
        {"scored", "bool", "False", "",
         [](Call &, void *p, nb::handle v, const char *n) { static_cast<Problem *>(p)->scored = truth_of(n, v); }},
        {"tables", "bool", "False", "",
         [](Call &, void *p, nb::handle v, const char *n) { static_cast<Problem *>(p)->tables = truth_of(n, v); }},
        {"dropout", "bool", "False", "",
         [](Call &, void *p, nb::handle v, const char *n) { static_cast<Problem *>(p)->dropout = truth_of(n, v); }},
        {"place", "str", "'host'", "",
         [](Call &, void *p, nb::handle v, const char *n) { static_cast<Problem *>(p)->place = word_of(n, v, places); }},
        {"invariant", "bool", "False", "",
         [](Call &, void *p, nb::handle v, const char *n) { static_cast<Problem *>(p)->invariant = truth_of(n, v); }},
        {"causal", "str | None", "None", "",
         [](Call &, void *p, nb::handle v, const char *n) { static_cast<Problem *>(p)->causal_mask = word_of(n, v, causals); }},
        {"window", "tuple[int, int] | None", "None", "",
         [](Call &c, void *p, nb::handle v, const char *n) { read_window(c, static_cast<Problem *>(p)->window, v, n); }},
    };
    Call call;
    Problem problem;
    read_keywords(call, "plan_sdpa", sizes, {{*table, &problem}});
    attune::Plan plan;
    call.run([&](attune::Context &c) {
        return attune::plan_sdpa(c, attune::with_band(problem, problem.causal_mask, problem.window), plan);
    });
    nb::dict d;
    d["variant"] = plan.variant, d["reason"] = plan.reason, d["workspace_bytes"] = plan.workspace_bytes;
    d["workspace_bytes_of_any_lengths"] = plan.workspace_bytes_of_any_lengths;
    d["variant_of_last_queries"] = plan.variant_of_last_queries, d["candidates"] = candidates_of(plan.candidates);
    return d;
}

nb::dict plan_product(const std::string &op, const std::string &dtype, std::int64_t entries, std::int64_t rows,
                      std::int64_t columns, std::int64_t depth, std::int64_t weight_stride, Contexts *context) {
    Call call;
    call.contexts = context;
    attune::ProductProblem problem;
    problem.op = op, problem.dtype = word_of("dtype", nb::str(dtype.c_str()), types);
    problem.entries = entries, problem.rows = rows, problem.columns = columns, problem.depth = depth;
    problem.weight_stride = weight_stride;
    attune::ProductPlan plan;
    call.run([&](attune::Context &c) { return attune::plan_product(c, problem, plan); });
    nb::dict d;
    d["variant"] = plan.variant, d["reason"] = plan.reason;
    d["variant_of_last_columns"] = plan.variant_of_last_columns, d["candidates"] = candidates_of(plan.candidates);
    return d;
}

double number_at(const ConstView &v, std::int64_t element) {
    switch (v.dtype) {
    case DType::f64: return static_cast<const double *>(v.data)[element];
    case DType::bf16: return attune::to_float(static_cast<const attune::bfloat16 *>(v.data)[element]);
    case DType::f16: return attune::to_float(static_cast<const attune::float16 *>(v.data)[element]);
    default: return static_cast<const float *>(v.data)[element];
    }
}

// The picture of attention weights, as SVG.
struct Heatmap {
    std::string svg;
};

std::vector<std::vector<std::string>> labels_of(const char *name, nb::handle labels, std::int64_t count) {
    if (!given(labels)) return {};
    std::vector<std::string> all;
    for (nb::handle label : nb::borrow<nb::object>(labels)) all.push_back(nb::cast<std::string>(nb::str(label)));
    if (static_cast<std::int64_t>(all.size()) < count)
        refuse(name, "has " + std::to_string(all.size()) + " labels for " + std::to_string(count) + " rows");
    return {all};
}

Heatmap heatmap(nb::handle weights, nb::handle valid_lens, nb::handle query_labels, nb::handle key_labels) {
    HostCall call;
    const ConstView w = call.input("weights", weights);
    if (w.dtype != DType::f32 && w.dtype != DType::f64 && w.dtype != DType::bf16 && w.dtype != DType::f16)
        refuse("weights", std::string("type must be f32, f64, bf16 or f16, got ") + attune::name_of(w.dtype));
    if (w.rank < 2 || w.rank > 4) refuse("weights", "must be (B, H, Sq, Sk), (B, Sq, Sk) or (Sq, Sk)");
    std::int64_t extent[4] = {1, 1, 1, 1}, stride[4] = {};
    const int to[3][4] = {{2, 3}, {0, 2, 3}, {0, 1, 2, 3}};
    for (int n = 0; n < w.rank; n++) extent[to[w.rank - 2][n]] = w.extent[n], stride[to[w.rank - 2][n]] = w.stride[n];
    attune::program::Heatmap map;
    map.batch = extent[0], map.heads = extent[1], map.queries = extent[2], map.keys = extent[3];
    __int128 cells = 1;
    for (const std::int64_t e : extent) cells *= e;
    if (cells > attune::program::max_heatmap_cells)
        refuse("weights",
               "has more than the " + std::to_string(attune::program::max_heatmap_cells) + " cells that can be drawn");
    if (extent[0] * extent[1] > attune::program::max_heatmap_panels)
        refuse("weights",
               "has more than the " + std::to_string(attune::program::max_heatmap_panels) + " heads that can be drawn");
    map.weight = [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
        return number_at(w, b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3]);
    };
    ConstView lens;
    if (given(valid_lens)) {
        lens = call.integers("valid_lens", valid_lens);
        const bool of_batch = lens.rank == 1 && lens.extent[0] == map.batch;
        const bool of_queries = lens.rank == 2 && lens.extent[0] == map.batch && lens.extent[1] == map.queries;
        if (lens.dtype != DType::i32 || !(of_batch || of_queries)) refuse("valid_lens", "must be i32 (B) or (B, Sq)");
    }
    map.length = [&](std::int64_t b, std::int64_t i) -> std::int64_t {
        if (!lens.given()) return map.keys;
        const auto *numbers = static_cast<const std::int32_t *>(lens.data);
        return std::clamp<std::int64_t>(numbers[b * lens.stride[0] + (lens.rank == 2 ? i * lens.stride[1] : 0)], 0, map.keys);
    };
    map.query_labels = labels_of("query_labels", query_labels, map.queries);
    map.key_labels = labels_of("key_labels", key_labels, map.keys);
    return {attune::program::svg_of(map)};
}

}  // namespace

void bind_facts(nb::module_ &m) {
    using namespace nb::literals;
    nb::class_<Contexts>(
        m, "Context",
        "Threads, scratch memory and the stream of calls. Any number of threads may use one at the same time.\n\n"
        "Environment variables are read when it is made: ATTUNE_FORCE_VARIANT, ATTUNE_VERBOSE,\n"
        "ATTUNE_RECORD_SHAPES.")
        .def(
            "__init__",
            [](Contexts *into, int threads, std::size_t scratch_bytes_per_thread, std::optional<std::uintptr_t> cuda_stream) {
                attune::ContextOptions options;
                options.threads = threads, options.scratch_bytes_per_thread = scratch_bytes_per_thread;
                std::optional<void *> stream;
                if (cuda_stream) stream = reinterpret_cast<void *>(*cuda_stream);
                new (into) Contexts(options, stream);
            },
            nb::kw_only(), "threads"_a = 0, "scratch_bytes_per_thread"_a = std::size_t(64) << 20,
            "cuda_stream"_a.none() = nb::none(),
            "Args:\n    threads: Most threads of a call, the caller's included; 0: one for each processor allowed.\n"
            "    scratch_bytes_per_thread: Bytes of scratch kept for the next call, for each thread.\n"
            "    cuda_stream: Address of the CUstream of calls on a device, for arrays of libraries that do not tell which\n"
            "        stream is current (torch tells): make that stream current, too. 0 or None: the default stream.\n\n"
            "Raises:\n    ValueError: an option is wrong.")
        .def_prop_ro("threads", &Contexts::threads, "Most threads of a call.")
        .def_prop_ro("last_variant", &Contexts::last_variant,
                     "Name of the variant that the last successful call ran; empty before the first one.")
        .def_prop_ro("scratch_bytes", &Contexts::scratch_bytes, "Bytes of scratch that are kept.")
        .def("release_scratch", &Contexts::release_scratch, "Gives the scratch that is kept back.");
    m.def("default_context", &default_contexts, nb::rv_policy::reference,
          "The Context of calls that name none: all cores, made by the first call.");

    m.def("variants", &variants, nb::sig("def variants() -> list[dict[str, Any]]"),
          "All variants that are linked in, the most specific target first: name, op, dtype, head_dim, target, schedule,\n"
          "kind, shape_class, parameters, provenance, dispatched, runs_here, why_not, cost_measured.");
    m.def("targets", &targets, nb::sig("def targets() -> list[dict[str, str]]"),
          "Targets, the most specific first: name, and what this machine lacks (empty: nothing).");
    m.def("default_threads", &default_threads, nb::sig("def default_threads() -> dict[str, Any]"),
          "Threads of a Context that names none, and why: threads, limited_by, processors, cpu_quota (0: none).");
    m.def("missing_variants", &attune::missing_variants,
          "One line that says which variants for this CPU are not linked in; empty if none is missing.");
    m.def("alibi_slopes", &attune::alibi_slopes, "heads"_a, nb::sig("def alibi_slopes(heads: int) -> list[float]"),
          "The standard slopes of ALiBi (Press et al., 2022), one for each head.");
    m.def(
        "version", [] { return std::string(attune::linked_version_string()); }, "Version of the library.");
    m.def("plan_sdpa", &plan_sdpa,
          nb::sig("def plan_sdpa(*, dtype: str = 'f32', score: str = 'dot_product', batch: int = 1, query_heads: int = 1, "
                  "key_heads: int = 1, queries: int = 1, keys: int = 1, head_dim: int = 1, value_dim: int = 1, "
                  "scored: bool = False, tables: bool = False, dropout: bool = False, place: str = 'host', "
                  "invariant: bool = False, "
                  "causal: str | None = None, window: tuple[int, int] | None = None, context: Context | None = None) "
                  "-> dict[str, Any]"),
          "The variant that attention of these sizes runs: variant, reason, workspace_bytes,\n"
          "workspace_bytes_of_any_lengths, variant_of_last_queries, candidates with predicted_us.\n\n"
          "scored: any of softcap, bias, ALiBi, mask or sinks; tables: bias or mask; place: where the tensors are, 'host' or\n"
          "'device'.");
    m.def("plan_product", &plan_product, nb::kw_only(), "op"_a = "linear", "dtype"_a = "f32", "entries"_a = 1, "rows"_a = 1,
          "columns"_a = 1, "depth"_a = 1, "weight_stride"_a = 0, "context"_a.none() = nb::none(),
          nb::sig("def plan_product(*, op: str = 'linear', dtype: str = 'f32', entries: int = 1, rows: int = 1, "
                  "columns: int = 1, depth: int = 1, weight_stride: int = 0, context: Context | None = None) "
                  "-> dict[str, Any]"),
          "The variant that linear() or batch_dot() runs for these sizes. op: linear, linear_packed or batch_dot.");

    nb::class_<Heatmap>(m, "Heatmap", "The picture of attention weights, as SVG; notebooks show it.")
        .def_ro("svg", &Heatmap::svg, "The picture, a text of SVG.")
        .def("_repr_svg_", [](const Heatmap &h) { return h.svg; });
    m.def("heatmap", &heatmap, "weights"_a, nb::kw_only(), "valid_lens"_a = nb::none(), "query_labels"_a = nb::none(),
          "key_labels"_a = nb::none(),
          nb::sig("def heatmap(weights: ArrayLike, *, valid_lens: ArrayLike | Sequence[int] | None = None, "
                  "query_labels: Sequence[str] | None = None, key_labels: Sequence[str] | None = None) -> Heatmap"),
          "Draws attention weights: rows are queries, columns are keys, a panel for each head and batch entry.\n\n"
          "Args:\n    weights: (B, H, Sq, Sk), (B, Sq, Sk) or (Sq, Sk).\n    valid_lens: i32 (B) or (B, Sq): cells from "
          "there on stay empty.\n    query_labels: A label for each query.\n    key_labels: A label for each key.\n\n"
          "Raises:\n    ValueError: more than 250000 cells or 1024 panels, or too few labels.");
}

}  // namespace attune_python
