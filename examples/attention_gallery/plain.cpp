// SPDX-License-Identifier: MIT
// Definition of an attention, pair by pair in double precision. Derivatives of the formula are finite differences.
#include "gallery.h"
#include <algorithm>
#include <cmath>

namespace gallery {
namespace {

// Finite difference of order 6 for the derivative of f at x: its error is some 1e-12, far below the rounding of a float.
template<typename F> double difference(const F &f, double x) {
    const double h = 1e-3 * std::max(1.0, std::abs(x));
    const auto pair = [&](int n) { return f(x + n * h) - f(x - n * h); };
    return (45 * pair(1) - 9 * pair(2) + pair(3)) / (60 * h);
}

struct Rows {
    const Array &array;
    const float *operator()(std::int64_t b, std::int64_t h, std::int64_t row) const {
        return array.floats.data() + ((b * array.shape[1] + h) * array.shape[2] + row) * channels;
    }
};

// One query of one head: its weights, and its terms of out and of the gradients.
class Query {
public:
    Query(const Entry &entry, const Call &call, Captures &captures, Plain &result)
        : entry_(entry), call_(call), captures_(captures), result_(result) {}

    void add(const Sizes &s, std::int64_t b, std::int64_t h, std::int64_t i) {
        const std::int64_t head = h * s.key_heads / s.heads;
        const Rows query{call_.query}, key{call_.key}, value{call_.value}, grad_out{call_.grad_out};
        const float *q = query(b, h, i), *grad = grad_out(b, h, i);
        const double scale = 1 / std::sqrt(double(channels));
        const std::size_t row = static_cast<std::size_t>((b * s.heads + h) * s.queries + i), out = row * channels;
        std::vector<double> x(std::size_t(s.keys)), score(std::size_t(s.keys), -INFINITY);
        const auto pair = [&](std::int64_t j) { return Pair{b, h, i, j, i + s.keys - s.queries, head, s.heads, s.keys}; };
        double most = -INFINITY, sum = 0;
        for (std::int64_t j = 0; j < s.keys; j++) {
            if (!entry_.mask(pair(j), captures_)) continue;
            double terms = 0;
            for (std::int64_t d = 0; d < channels; d++) {
                const double term = scale * double(q[d]) * double(key(b, head, j)[d]);
                x[std::size_t(j)] += term, terms += std::abs(term);
            }
            const double y = score[std::size_t(j)] = entry_.score(x[std::size_t(j)], pair(j), captures_);
            result_.largest_score = std::max({result_.largest_score, terms, std::abs(y)});
            most = std::max(most, y);
        }
        for (const double y : score) sum += y == -INFINITY ? 0 : std::exp(y - most);
        const double lse = sum == 0 ? -INFINITY : most + std::log(sum);
        result_.lse.exact[row] = lse, result_.lse.size[row] = 1;
        for (std::int64_t j = 0; j < s.keys; j++) {
            if (score[std::size_t(j)] == -INFINITY) continue;
            const double weight = std::exp(score[std::size_t(j)] - lse) * entry_.probability(pair(j), captures_);
            for (std::int64_t d = 0; d < channels; d++)
                add_term(result_.out, out + std::size_t(d), weight * double(value(b, head, j)[d]));
        }

        double mean = 0, mean_size = 0;
        for (std::int64_t d = 0; d < channels; d++) {
            mean += double(grad[d]) * result_.out.exact[out + std::size_t(d)];
            mean_size += std::abs(double(grad[d])) * result_.out.size[out + std::size_t(d)];
        }
        for (std::int64_t j = 0; j < s.keys; j++) {
            if (score[std::size_t(j)] == -INFINITY) continue;
            const double p = std::exp(score[std::size_t(j)] - lse), factor = entry_.probability(pair(j), captures_);
            const std::size_t at = static_cast<std::size_t>((b * s.key_heads + head) * s.keys + j) * channels;
            double by_weight = 0, by_weight_size = 0;
            for (std::int64_t d = 0; d < channels; d++) {
                const double term = double(grad[d]) * double(value(b, head, j)[d]);
                by_weight += term, by_weight_size += std::abs(term);
                add_term(result_.value, at + std::size_t(d), p * factor * double(grad[d]));
            }
            const double by_score = p * (by_weight * factor - mean);
            const double size = p * (by_weight_size * std::abs(factor) + mean_size);
            const double slope =
                scale * difference([&](double y) { return entry_.score(y, pair(j), captures_); }, x[std::size_t(j)]);
            for (std::int64_t d = 0; d < channels; d++) {
                const double by_query = slope * double(key(b, head, j)[d]), by_key = slope * double(q[d]);
                add_term(result_.query, out + std::size_t(d), by_score * by_query, size * std::abs(by_query));
                add_term(result_.key, at + std::size_t(d), by_score * by_key, size * std::abs(by_key));
            }
            for (std::size_t c = 0; c < captures_.size(); c++)
                for (std::size_t n = 0; n < result_.captures[c].exact.size(); n++) {
                    double &element = captures_[c].data[n];
                    const double from = element;
                    const auto changed = [&](const auto &f) {
                        const double d = difference([&](double to) { return element = to, f(); }, from);
                        element = from;
                        return d;
                    };
                    const double of_score = changed([&] { return entry_.score(x[std::size_t(j)], pair(j), captures_); });
                    add_term(result_.captures[c], n, by_score * of_score, size * std::abs(of_score));
                }
        }
    }

private:
    static void add_term(Judged &to, std::size_t at, double term, double size) { to.exact[at] += term, to.size[at] += size; }
    static void add_term(Judged &to, std::size_t at, double term) { add_term(to, at, term, std::abs(term)); }

    const Entry &entry_;
    const Call &call_;
    Captures &captures_;
    Plain &result_;
};

Judged zeros(std::size_t count) { return {std::vector<double>(count), std::vector<double>(count)}; }

}  // namespace

Plain evaluate(const Entry &entry, const Sizes &s, const Call &call) {
    Plain result{zeros(call.out.floats.size()), zeros(call.lse.floats.size()),   zeros(call.query.floats.size()),
                 zeros(call.key.floats.size()), zeros(call.value.floats.size()), {}};
    Captures captures;
    for (const Array &a : call.captures) {
        captures.push_back({a.shape, {a.floats.begin(), a.floats.end()}});
        if (!a.integers.empty()) captures.back().data.assign(a.integers.begin(), a.integers.end());
        result.captures.push_back(zeros(a.learned() ? a.floats.size() : 0));
    }
    Query query(entry, call, captures, result);
    for (std::int64_t b = 0; b < s.batch; b++)
        for (std::int64_t h = 0; h < s.heads; h++)
            for (std::int64_t i = 0; i < s.queries; i++) query.add(s, b, h, i);
    return result;
}

}  // namespace gallery
