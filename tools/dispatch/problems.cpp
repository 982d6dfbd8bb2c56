// SPDX-License-Identifier: MIT
#include "problems.h"
#include "fit.h"
#include "tools/error.h"
#include <algorithm>
#include <attune/variants.h>
#include <cmath>
#include <cstdlib>
#include <set>

namespace attune::dispatch {
namespace {

using Random = std::mt19937_64;

std::int64_t log_uniform(Random &random, double least, double most) {
    return std::llround(std::exp(std::uniform_real_distribution<double>(std::log(least), std::log(most))(random)));
}
std::int64_t one_of(Random &random, std::initializer_list<std::int64_t> values) {
    return values.begin()[random() % values.size()];
}
// One row, a few rows, or many.
std::int64_t rows(Random &random, double most) {
    if (random() % 6 == 0) return 1;
    return random() % 4 == 0 ? 1 + static_cast<std::int64_t>(random() % 16) : log_uniform(random, 1, most);
}
// Sizes of models are multiples of 64 more often than not.
std::int64_t model_size(Random &random, double least, double most) {
    const std::int64_t size = log_uniform(random, least, most);
    return random() % 3 ? (size + 63) / 64 * 64 : size;
}

void draw_attention(bench::Shape &s, const Family &family, Random &random, const Range &range) {
    s.d = s.dv = family.head_dim;
    s.kv = one_of(random, {1, 2, 4, 8}), s.h = s.kv * one_of(random, {1, 1, 2, 4, 8});
    s.b = range.single ? 1 : one_of(random, {1, 1, 2, 8});
    s.q = rows(random, range.most_rows), s.k = log_uniform(random, 8, range.most_keys);
    s.causal = s.q > 1 && random() % 2;
    s.options.bias = family.kind == "scored", s.options.dropout = family.kind == "training";
}

void draw_product(bench::Shape &s, Random &random, bool fit) {
    s.q = rows(random, 2048);
    if (s.op == "batch_dot") {
        s.b = one_of(random, {1, 1, 2, 8, 96});
        s.k = model_size(random, 8, 2048), s.dv = model_size(random, 8, 1024);
        return;
    }
    s.d = model_size(random, 32, 4096), s.dv = model_size(random, 16, 8192);
    // Weights of a language model's layers, few rows of which are bound by reading them.
    if (fit && random() % 6 == 0)
        s.q = 1 + static_cast<std::int64_t>(random() % 16), s.d = 4096, s.dv = model_size(random, 1000, 8000);
    // Rows of a power of two share the sets of a cache.
    if (random() % 4 == 0) s.d = one_of(random, {1024, 2048, 4096});
}

bool is_for_device(const VariantInfo &v) {
    static const std::vector<TargetInfo> cpu_targets = targets();
    return std::none_of(cpu_targets.begin(), cpu_targets.end(), [&](const TargetInfo &t) { return t.name == v.target; });
}

// The variants for tensors there; those of a device as if they ran here.
const std::vector<VariantInfo> &all_variants(Place place) {
    static const auto of = [](bool device) {
        std::vector<VariantInfo> all = variants();
        std::erase_if(all, [=](const VariantInfo &v) { return is_for_device(v) != device; });
        for (VariantInfo &v : all) v.runs_here = v.runs_here || device;
        return all;
    };
    static const std::vector<VariantInfo> on_host = of(false), on_device = of(true);
    return place == Place::device ? on_device : on_host;
}
const std::vector<VariantInfo> &variants_like(const VariantInfo &v) {
    return all_variants(is_for_device(v) ? Place::device : Place::host);
}

// The most channels that a variant for any head size takes; 0: any number.
std::int64_t most_channels(const VariantInfo &v) {
    constexpr std::string_view name = "channels=";
    const std::size_t at = v.head_dim == 0 ? v.parameters.find(name) : v.parameters.npos;
    return at == v.parameters.npos ? 0 : std::atoll(std::string(v.parameters.substr(at + name.size())).c_str());
}
bool takes(const bench::Shape &shape, const VariantInfo &v, const std::vector<VariantInfo> &all) {
    const std::int64_t most = most_channels(v);
    return shape.takes(v, all) && (most == 0 || std::max(shape.d, shape.dv) <= most);
}

bool is_listed(const VariantInfo &v) { return v.runs_here && v.dispatched && v.schedule != "root" && v.kind != "weights"; }

}  // namespace

const std::vector<std::string> &ops(Place place) {
    static const std::vector<std::string> all = {"sdpa",   "cosine",        "gaussian", "additive",
                                                 "linear", "linear_packed", "batch_dot"},
                                          on_device = {"sdpa", "additive", "linear"};
    return place == Place::device ? on_device : all;
}

void check_device_kernels() {
    const std::vector<VariantInfo> &all = all_variants(Place::device);
    if (all.empty()) throw program::MachineError("device", "this program has no kernels for one (preset cuda)");
    constexpr std::string_view missing = "is for tensors on a device, and ";
    if (all[0].why_not.starts_with(missing)) throw program::MachineError("device", all[0].why_not.substr(missing.size()));
}

bool is_product(const std::string &op) { return op == "linear" || op == "linear_packed" || op == "batch_dot"; }

std::vector<Family> families(const std::string &op, Place place) {
    std::vector<Family> found;
    std::set<std::tuple<DType, std::string>> kinds;
    const std::vector<VariantInfo> &all = all_variants(place);
    for (const VariantInfo &v : all)
        if (v.op == op && is_listed(v)) kinds.emplace(v.dtype, v.kind);
    for (const auto &[dtype, kind] : kinds) {
        if (is_product(op)) {
            found.push_back({op, dtype, "", 0});
            continue;
        }
        std::set<std::int64_t> sizes;
        for (const VariantInfo &v : all)
            if (v.op == op && is_listed(v) && v.dtype == dtype && (v.kind == kind || kind == "plain")) sizes.insert(v.head_dim);
        if (sizes.erase(0)) sizes.insert({40, 72, 160});
        if (sizes.size() == 3) sizes.insert({64, 128});  // no size has kernels of its own
        for (const std::int64_t size : sizes) found.push_back({op, dtype, kind, size});
    }
    return found;
}

bench::Shape random_shape(const Family &family, Random &random, const Range &range) {
    constexpr double bytes_at_most = 160e6, tanh_flops = 20;
    while (true) {
        bench::Shape s;
        s.op = family.op, s.dtype = family.dtype;
        if (is_product(s.op))
            draw_product(s, random, range.single);
        else
            draw_attention(s, family, random, range);
        const bool computes = is_product(s.op) || s.pairs() >= 1;
        const double most = s.op == "additive" ? range.work * tanh_flops : range.work;
        if (computes && s.work_unmasked() <= most && s.bytes() <= bytes_at_most) return s;
    }
}

std::vector<std::string> variants_for(const bench::Shape &shape, Place place) {
    const std::vector<VariantInfo> &all = all_variants(place);
    std::vector<std::string> names;
    for (const VariantInfo &v : all)
        if (is_listed(v) && takes(shape, v, all)) names.emplace_back(v.name);
    return names;
}

const VariantInfo &info_of(const std::string &variant) {
    for (const Place place : {Place::host, Place::device})
        for (const VariantInfo &v : all_variants(place))
            if (v.name == variant) return v;
    throw program::MachineError(variant, "is not linked in");
}

bool is_dispatched(const std::string &variant, const bench::Shape &shape) {
    const VariantInfo &v = info_of(variant);
    const std::vector<VariantInfo> &all = variants_like(v);
    return v.head_dim != 0 || std::none_of(all.begin(), all.end(), [&](const VariantInfo &own) {
               return own.head_dim != 0 && own.op == v.op && own.schedule == v.schedule && own.shape_class == v.shape_class &&
                      own.kind == v.kind && is_listed(own) && takes(shape, own, all);
           });
}

SdpaProblem attention_of(const bench::Shape &s) {
    SdpaProblem p{.dtype = s.dtype,
                  .batch = s.b,
                  .query_heads = s.h,
                  .key_heads = s.kv,
                  .queries = s.q,
                  .keys = s.k,
                  .head_dim = s.d,
                  .value_dim = s.dv};
    if (s.op == "cosine") p.score = Score::cosine;
    if (s.op == "gaussian") p.score = Score::gaussian;
    p.tables = s.options.mask || s.options.bias, p.scored = s.options.scored(), p.dropout = s.options.dropout;
    return with_band(p, s.causal ? Causal::bottom_right : Causal::none, s.window);
}

ProductProblem product_of(const bench::Shape &s) {
    ProductProblem p{.op = s.op,
                     .dtype = s.dtype,
                     .entries = s.b * s.h,
                     .rows = s.q,
                     .columns = s.dv,
                     .depth = s.op == "batch_dot" ? s.k : s.d};
    if (s.op != "batch_dot") p.entries = 1, p.rows = s.b * s.q;
    return p;
}

detail::CostTerms terms_of(const std::string &variant, const bench::Shape &shape) {
    detail::CostTerms terms{};
    const Status status = is_product(shape.op) ? detail::cost_terms(variant, product_of(shape), terms)
                                               : detail::cost_terms(variant, attention_of(shape), terms);
    if (!status.ok()) throw program::MachineError(variant, status.message());
    if (!is_product(shape.op) && !is_for_device(info_of(variant)))  // terms are those of one entry
        for (std::size_t n = 1; n < terms.size(); n++) terms[n] *= static_cast<double>(shape.b);
    return terms;
}

detail::CostCoefficients linked_cost(const std::string &variant) {
    detail::CostCoefficients cost{};
    const Status status = detail::cost_coefficients(variant, cost);
    if (!status.ok()) throw program::MachineError(variant, status.message());
    return cost;
}

bench::Shape shape_of_choice(bench::Shape shape, Place place) {
    if (place == Place::host || is_product(shape.op)) return shape;
    shape.h = shape.h / shape.kv * detail::key_heads_of_device, shape.kv = detail::key_heads_of_device, shape.b = 1;
    shape.causal = false, shape.window = {};
    return shape;
}

namespace {

double predicted_ns(const std::string &variant, const bench::Shape &shape) {
    return predicted(linked_cost(variant), terms_of(variant, shape));
}

// A plan of an op that the library has none of, by the same predictions.
Planned planned_by_times(const bench::Shape &shape, Place place) {
    Planned p{{}, "", "least predicted time", "", {}};
    for (const std::string &variant : variants_for(shape, place))
        p.candidates.push_back(
            {variant, predicted_ns(variant, shape_of_choice(shape, place)) / 1000, info_of(variant).cost_measured});
    std::stable_sort(p.candidates.begin(), p.candidates.end(),
                     [](const PlanCandidate &a, const PlanCandidate &b) { return a.predicted_us < b.predicted_us; });
    if (!p.candidates.empty()) p.variant = p.candidates.front().variant;
    return p;
}

}  // namespace

Planned planned(Context &context, const bench::Shape &shape, Place place) {
    if (place == Place::device && shape.op != "sdpa") return planned_by_times(shape, place);
    if (is_product(shape.op)) {
        ProductPlan plan;
        const Status status = plan_product(context, product_of(shape), plan);
        return {status, plan.variant, plan.reason, plan.variant_of_last_columns, plan.candidates};
    }
    SdpaProblem problem = attention_of(shape);
    problem.place = place;
    if (shape.op == "additive") return {{StatusCode::unsupported, "additive: its calls have no plan"}, {}, {}, {}, {}};
    Plan plan;
    const Status status = plan_sdpa(context, problem, plan);
    return {status, plan.variant, plan.reason, plan.variant_of_last_queries, plan.candidates};
}

}  // namespace attune::dispatch
