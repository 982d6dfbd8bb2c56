// SPDX-License-Identifier: MIT
// Exercises of document 000: other score functions, each an option of the same call, and regression by a Gaussian kernel.
#include "show.h"

using namespace examples;
using attune::ConstView, attune::Score;

namespace {
void scores(attune::Context &context) {
    std::printf("the query [1, 1] against the keys [2, 0], [1, 1], [4, 4], [-1, 0]: weights\n");
    const Array query({1, 2}, {1, 1}), key({4, 2}, {2, 0, 1, 1, 4, 4, -1, 0}), value = counting({4, 1});
    const Array w({2, 2}, {1, 0, 0, -1});  // W of the general score
    const auto weights_by = [&](const std::string &name, const std::string &expected, attune::SdpaOptions options) {
        Array weights({1, 4}), out({1, 1});
        options.weights = weights;
        require(attune::scaled_dot_product_attention(context, query, key, value, out, options));
        show(name, weights, expected);
    };
    weights_by("dot product, which prefers long keys", "[[0.002466, 0.002466, 0.9949, 0.0001228]]", {.scale = 1.0});
    weights_by("scaled dot product", "[[0.01394, 0.01394, 0.9704, 0.001672]]", {});
    weights_by("cosine, which sees directions alone", "[[0.2549, 0.3416, 0.3416, 0.06196]]", {.score = Score::cosine});
    weights_by("general, q^T W k with W = diag(1, -1)", "[[0.7573, 0.1025, 0.1025, 0.0377]]",
               {.score = Score::general, .score_weight = w});
    weights_by("Gaussian, which sees distances", "[[0.2537, 0.6896, 8.511e-05, 0.05661]]", {.score = Score::gaussian});
    weights_by("scale 0: average pooling", "[[0.25, 0.25, 0.25, 0.25]]", {.scale = 0.0});
}

// Nadaraya-Watson: an estimate of y(x) from samples (x_j, y_j) is attention of x on keys x_j and values y_j.
void regression(attune::Context &context) {
    const auto y = [](float x) { return 2 * std::sin(x) + std::pow(x, 0.8f); };
    const std::int64_t samples = 50, asked = 5;
    Array key({samples, 1}), value({samples, 1}), query({asked, 1}), truth({asked}), estimate({asked});
    for (std::size_t j = 0; j < std::size_t(samples); j++)
        key.numbers[j] = 0.1f * float(j) + 0.05f, value.numbers[j] = y(key.numbers[j]);
    for (std::size_t i = 0; i < std::size_t(asked); i++)
        query.numbers[i] = 0.5f + float(i), truth.numbers[i] = y(query.numbers[i]);
    std::printf("y = 2 sin x + x^0.8 at 0.5, 1.5, 2.5, 3.5 and 4.5, from 50 samples between 0 and 5\n");
    show("truth", truth);
    const std::pair<double, const char *> kernels[] = {{0.1, "[1.527, 3.368, 3.272, 2.026, 1.386]"},
                                                       {0.5, "[1.78, 3.135, 3.131, 2.101, 1.507]"},
                                                       {1e4, "[2.3, 2.3, 2.3, 2.3, 2.3]"}};
    for (const auto &[sigma, expected] : kernels) {
        require(attune::scaled_dot_product_attention(context, query, key, value, attune::View(estimate.numbers, {asked, 1}),
                                                     {.score = Score::gaussian, .scale = 1 / (sigma * sigma)}));
        show("Gaussian kernel, sigma " + text_of(float(sigma)), estimate, expected);
    }
    std::printf("  the widest kernel sees all samples alike, which is average pooling\n");
}
}  // namespace

int main() {
    attune::Context context;
    scores(context);
    regression(context);
    return exit_code();
}
