// SPDX-License-Identifier: MIT
// Cost of a shape, and its variants.
#include "shapes.h"
#include <algorithm>
#include <set>
#include <sstream>
#include <tuple>

namespace bench {
namespace {

// Kinds of attention kernels, in the order of their options; weights apart.
constexpr const char *kinds[] = {"plain", "scored", "training"};

int rank_of(std::string_view kind) {
    return static_cast<int>(std::find(std::begin(kinds), std::end(kinds), kind) - std::begin(kinds));
}

}  // namespace

bool Shape::attention() const {
    for (const char *name : {"sdpa", "cosine", "gaussian", "general", "additive", "variable_length"})
        if (op == name) return true;
    return backward();
}

bool Shape::backward() const {
    for (const char *name : {"sdpa_backward", "cosine_backward", "gaussian_backward", "additive_backward"})
        if (op == name) return true;
    return false;
}

const char *Shape::kind() const {
    if (!attention()) return "";
    return options.dropout ? "training" : options.scored() ? "scored" : "plain";
}

bool Shape::takes(const attune::VariantInfo &v, const std::vector<attune::VariantInfo> &all) const {
    // Ops of several kernels, or without a variant's name in their options, are called as a whole.
    const bool whole = op == "general" || op == "multi_head" || op == "dropout_mask" || op == "linear_backward" || packed();
    // Additive attention has two forms of its score.
    const bool mine = v.op == op || (op == "additive" && v.op == "additive_separable");
    if (whole || !mine || !v.runs_here) return false;
    if (v.dtype != dtype || (v.head_dim != 0 && (v.head_dim != d || v.head_dim != dv))) return false;
    if (!attention()) return true;
    if (options.weights) return v.kind == "weights";
    const int needed = rank_of(kind());
    // The same variant but for its kind.
    const auto like = [](const attune::VariantInfo &x) {
        return std::tuple(x.op, x.dtype, x.target, x.schedule, x.shape_class, x.head_dim);
    };
    int least = static_cast<int>(std::size(kinds));
    for (const auto &other : all)
        if (like(other) == like(v) && rank_of(other.kind) >= needed) least = std::min(least, rank_of(other.kind));
    return v.kind != "weights" && rank_of(v.kind) == least;
}

std::pair<std::int64_t, std::int64_t> Shape::keys_of(std::int64_t e, std::int64_t i) const {
    if (packed()) {
        std::int64_t first = 0, n = 0;
        const bool one_query = q != k;
        for (; n + 1 < static_cast<std::int64_t>(lengths.size()); n++) {
            const std::int64_t length = lengths[static_cast<std::size_t>(n)];
            if (one_query ? n == i : i < first + length) break;
            first += length;
        }
        const std::int64_t end = first + lengths[static_cast<std::size_t>(n)];
        return {first, causal && !one_query ? i + 1 : end};
    }
    const std::int64_t position = i + (causal ? k - q : 0);
    std::int64_t from = 0, to = lengths.empty() ? k : lengths[static_cast<std::size_t>(e)];
    if (causal) to = std::min(to, position + 1);
    if (window.left >= 0) from = std::max(from, position - window.left);
    if (window.right >= 0) to = std::min(to, position + window.right + 1);
    return {from, std::max(from, to)};
}

double Shape::pairs() const {
    double kept = 0;
    for (std::int64_t e = 0; e < b; e++)
        for (std::int64_t i = 0; i < q; i++) kept += static_cast<double>(keys_of(e, i).second - keys_of(e, i).first);
    return kept * static_cast<double>(h);
}

const char *Shape::unit() const {
    if (op == "additive" || op == "additive_backward") return "tanh";
    return op == "masked_softmax" || op == "dropout_mask" ? "B" : "FLOP";
}

double Shape::work() const {
    if (unit() == std::string_view("B")) return bytes();
    if (unit() == std::string_view("tanh")) return static_cast<double>(d) * pairs();
    const auto product = [](auto... n) { return 2.0 * (static_cast<double>(n) * ...); };
    if (layer()) return (op == "linear_backward" ? 2 : 1) * product(b, q, d, dv);
    if (op == "batch_dot") return product(b, h, q, k, dv);
    // Scores, gradients of weights and values, and those of queries and keys.
    if (backward()) return 2.0 * static_cast<double>(3 * d + 2 * dv) * pairs();
    double flops = 2.0 * static_cast<double>(d + dv) * pairs();
    if (op == "general") flops += product(b, kv, k, d, d);
    if (op == "multi_head") flops += 2 * product(b, q, h * d, h * d) + 2 * product(b, k, kv * d, h * d);
    return flops;
}

double Shape::work_unmasked() const {
    Shape all = *this;
    if (!packed()) all.causal = false, all.window = {}, all.lengths.clear();
    return unit() == std::string_view("tanh") ? 20 * all.work() : all.work();
}

double Shape::bytes() const {
    const auto elements = [](auto... n) { return (static_cast<double>(n) * ...); };
    const double size = attune::size_of(dtype);
    if (op == "linear_backward") return size * (elements(b, q, 2 * d + dv) + 2 * elements(d, dv));
    if (layer()) return size * (elements(b, q, d + dv) + elements(d, dv));
    if (op == "batch_dot") return size * (elements(b, h, q, k) + elements(b, h, k, dv) + elements(b, h, q, dv));
    if (op == "masked_softmax") return 2 * size * elements(b, h, q, k);
    if (op == "dropout_mask") return elements(b, h, q, k);
    if (op == "multi_head") return size * (elements(b, h * d, 2 * (q + k)) + 4 * elements(h * d, h * d));
    double rows = 0;
    for (std::int64_t e = 0; e < b; e++) {
        std::int64_t first = k, last = 0;
        for (std::int64_t i = 0; i < q; i++) {
            const auto [from, to] = keys_of(e, i);
            if (from < to) first = std::min(first, from), last = std::max(last, to);
        }
        rows += static_cast<double>(std::max<std::int64_t>(0, last - first));
    }
    if (backward()) {
        const double lse_and_bias = elements(b, h, q) + (options.bias ? 2 * elements(q, k) : 0);
        return size * (2 * elements(d + dv) * (static_cast<double>(kv) * rows + elements(b, h, q)) + lse_and_bias);
    }
    const double extra = options.weights ? size * elements(b, h, q, k) : 0;
    return size * elements(d + dv) * (static_cast<double>(kv) * rows + elements(b, h, q)) + extra;
}

std::string Shape::label() const {
    std::ostringstream out;
    out << "b:" << b;
    if (layer()) {
        out << "/q:" << q << "/d:" << d << "/dv:" << dv;
        return out.str();
    }
    out << "/h:" << h;
    if (attention() || op == "multi_head") out << "/kv:" << kv;
    out << "/q:" << q << "/k:" << k;
    if (op == "batch_dot") out << "/dv:" << dv;
    if (attention() || op == "multi_head") {
        out << "/d:" << d;
        if (dv != d) out << "/dv:" << dv;
        out << "/causal:" << causal;
    }
    if (window.left >= 0 || window.right >= 0) out << "/window:" << window.left << '_' << window.right;
    if (packed()) {
        out << "/sequences:" << lengths.size();
    } else if (!lengths.empty()) {
        const bool same = std::set<std::int32_t>(lengths.begin(), lengths.end()).size() == 1;
        out << "/len:" << lengths[0];
        for (std::size_t e = 1; !same && e < lengths.size(); e++) out << '_' << lengths[e];
    }
    const std::pair<bool, const char *> given[] = {
        {options.mask, "mask"},   {options.bias, "bias"},       {options.alibi, "alibi"},    {options.softcap, "softcap"},
        {options.sinks, "sinks"}, {options.dropout, "dropout"}, {options.weights, "weights"}};
    const char *between = "/options:";
    for (const auto &[is, name] : given)
        if (is) out << between << name, between = "+";
    return out.str();
}

}  // namespace bench
