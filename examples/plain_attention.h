// Attention as the textbook writes it, in double precision: what the worked examples' random inputs are compared with.
// Dense arrays, (B, S, D) as one head. Not the definition of the library's result, which is tests/reference.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

struct Sizes {
    int batch = 1, heads = 1, queries = 1, keys = 1, head_dim = 1, value_dim = 1;
};

// True where key j takes part for query i of batch entry b.
using Keep = std::function<bool(int b, int i, int j)>;

inline std::vector<double> plain_attention(const Sizes &n, const std::vector<double> &query, const std::vector<double> &key,
                                           const std::vector<double> &value, double scale, const Keep &keep) {
    std::vector<double> out(std::size_t(n.batch) * n.heads * n.queries * n.value_dim);
    for (int b = 0; b < n.batch; b++)
        for (int h = 0; h < n.heads; h++)
            for (int i = 0; i < n.queries; i++) {
                const int head = b * n.heads + h;
                const double *q = &query[std::size_t(head * n.queries + i) * n.head_dim];
                double *o = &out[std::size_t(head * n.queries + i) * n.value_dim];
                std::vector<double> score(n.keys, -INFINITY);
                double max = -INFINITY, sum = 0;
                for (int j = 0; j < n.keys; j++) {
                    if (!keep(b, i, j)) continue;
                    const double *k = &key[std::size_t(head * n.keys + j) * n.head_dim];
                    score[j] = 0;
                    for (int d = 0; d < n.head_dim; d++) score[j] += scale * q[d] * k[d];
                    max = std::fmax(max, score[j]);
                }
                for (int j = 0; j < n.keys; j++) {
                    const double weight = score[j] == -INFINITY ? 0 : std::exp(score[j] - max);
                    sum += weight;
                    for (int d = 0; d < n.value_dim; d++)
                        o[d] += weight * value[std::size_t(head * n.keys + j) * n.value_dim + d];
                }
                if (sum > 0)
                    for (int d = 0; d < n.value_dim; d++) o[d] /= sum;
            }
    return out;
}
