// SPDX-License-Identifier: MIT
#include "refine.h"
#include <algorithm>
#include <cmath>

namespace attune::dispatch {
namespace {

constexpr double softness = 0.05;  // relative differences of predicted times within which a choice is open
constexpr double pull = 1;         // towards the fit: loss of a contest that is worth a coefficient changed by a factor of e
constexpr double most_loss = 2;    // of a candidate: beyond it, it is as bad as any

using Logarithms = std::vector<Terms>;  // of coefficients over those of their fits, by variant

std::vector<Terms> moved(const std::vector<detail::CostCoefficients> &fits, const Logarithms &by) {
    std::vector<Terms> costs(fits.size());
    for (std::size_t v = 0; v < fits.size(); v++)
        for (std::size_t i = 0; i < costs[v].size(); i++) costs[v][i] = static_cast<double>(fits[v][i]) * std::exp(by[v][i]);
    return costs;
}

// Adds the gradient of a contest's loss by the logarithms of all coefficients.
void add_gradient(const Contest &contest, const std::vector<Terms> &costs, Logarithms &gradient) {
    std::vector<double> times, share;
    for (const Contest::Candidate &c : contest.candidates) times.push_back(predicted(costs[c.variant], c.terms));
    const double least = *std::min_element(times.begin(), times.end());
    if (least <= 0) return;
    double sum = 0, loss = 0;
    for (const double time : times) share.push_back(std::pow(time / least, -1 / softness)), sum += share.back();
    for (std::size_t n = 0; n < share.size(); n++)
        share[n] /= sum, loss += share[n] * std::min(contest.candidates[n].loss, most_loss);
    for (std::size_t n = 0; n < share.size(); n++) {
        const Contest::Candidate &c = contest.candidates[n];
        const double by_time = -contest.weight * share[n] * (std::min(c.loss, most_loss) - loss) / softness;
        for (std::size_t i = 0; i < c.terms.size(); i++)
            gradient[c.variant][i] += by_time * costs[c.variant][i] * c.terms[i] / times[n];
    }
}

}  // namespace

// Adam (Kingma and Ba 2015).
void refine(std::vector<detail::CostCoefficients> &costs, const std::vector<Contest> &contests) {
    constexpr int steps = 300;
    constexpr double rate = 0.03, of_mean = 0.9, of_square = 0.999, floor = 1e-8;
    Logarithms by(costs.size(), Terms{}), mean = by, square = by;
    for (int step = 1; step <= steps; step++) {
        const std::vector<Terms> now = moved(costs, by);
        Logarithms gradient(costs.size(), Terms{});
        for (const Contest &c : contests)
            if (c.candidates.size() > 1) add_gradient(c, now, gradient);
        for (std::size_t v = 0; v < by.size(); v++)
            for (std::size_t i = 0; i < by[v].size(); i++) {
                const double g = gradient[v][i] + pull * by[v][i];
                mean[v][i] = of_mean * mean[v][i] + (1 - of_mean) * g;
                square[v][i] = of_square * square[v][i] + (1 - of_square) * g * g;
                const double m = mean[v][i] / (1 - std::pow(of_mean, step)), s = square[v][i] / (1 - std::pow(of_square, step));
                by[v][i] -= rate * m / (std::sqrt(s) + floor);
            }
    }
    const std::vector<Terms> found = moved(costs, by);
    for (std::size_t v = 0; v < costs.size(); v++)
        std::transform(found[v].begin(), found[v].end(), costs[v].begin(), [](double c) { return static_cast<float>(c); });
}

}  // namespace attune::dispatch
