// SPDX-License-Identifier: MIT
// Gradients of a loss by query, key, value and the rates of score.h, beside its central differences.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <recency.h>
#include <vector>

struct Tensor {
    std::vector<double> data, gradient;
    explicit Tensor(std::size_t count) : data(count), gradient(count) {}
};

void require(const attune::Status &status) {
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str()), std::exit(1);
}

int main() {
    // Two batch entries; 4 query heads that share 2 key heads; 5 queries, 9 keys; 8 channels, 6 of value.
    Tensor query(2 * 4 * 5 * 8), key(2 * 2 * 9 * 8), value(2 * 2 * 9 * 6), rate(4), out(2 * 4 * 5 * 6), lse(2 * 4 * 5);
    std::mt19937 random(1);
    std::normal_distribution<double> normal;
    for (auto *numbers : {&query.data, &key.data, &value.data, &rate.data, &out.gradient})
        for (double &x : *numbers) x = normal(random);

    attune::Context context;
    const attune::ConstView q(query.data, {2, 4, 5, 8}), k(key.data, {2, 2, 9, 8}), v(value.data, {2, 2, 9, 6});
    const attune::View o(out.data, {2, 4, 5, 6}), l(lse.data, {2, 4, 5});
    recency::Options options{.rate = rate.data};

    // The loss: the sum of out by given factors, which are its gradient by out.
    const auto loss = [&] {
        options.sdpa.lse = l;  // beside out, all that backward() wants to have kept
        require(recency::forward(context, q, k, v, o, options));
        options.sdpa.lse = {};
        double sum = 0;
        for (std::size_t n = 0; n < out.data.size(); n++) sum += out.data[n] * out.gradient[n];
        return sum;
    };
    loss();
    require(recency::backward(context, q, k, v, {.out = o, .lse = l, .grad_out = {out.gradient.data(), {2, 4, 5, 6}}},
                              {.sdpa = {.query = {query.gradient.data(), {2, 4, 5, 8}},
                                        .key = {key.gradient.data(), {2, 2, 9, 8}},
                                        .value = {value.gradient.data(), {2, 2, 9, 6}}},
                               .rate = {rate.gradient.data(), {4}}},
                              options));

    bool all_right = true;
    for (const auto &[name, x] : {std::pair("query", &query), {"key", &key}, {"value", &value}, {"rate", &rate}}) {
        double error = 0, largest = 0;
        for (std::size_t n = 0; n < x->data.size(); n++) {
            const double kept = x->data[n], step = 1e-5;
            x->data[n] = kept + step;
            const double above = loss();
            x->data[n] = kept - step;
            const double below = loss();
            x->data[n] = kept;
            error = std::max(error, std::abs((above - below) / (2 * step) - x->gradient[n]));
            largest = std::max(largest, std::abs(x->gradient[n]));
        }
        const bool right = largest > 0 && error < 1e-6 * largest;
        all_right = all_right && right;
        std::printf("gradient of %s: central differences are within 1e-6 of it: %s\n", name, right ? "yes" : "no");
    }
    return all_right ? 0 : 1;
}
