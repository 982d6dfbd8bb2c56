// SPDX-License-Identifier: MIT
#include "validation.h"
#include "problems.h"
#include "refine.h"
#include "tools/tune/decision.h"
#include <algorithm>
#include <cmath>

namespace attune::dispatch {
namespace {

constexpr std::size_t least_shapes = 8;  // for six coefficients

// Samples of each variant at shapes of its own kind: with fewer options a kernel does less than a call of its kind. Times are
// divided by the slowness of their shape.
std::map<std::string, std::vector<Sample>> samples_of(const std::vector<Measured> &measured,
                                                      const std::vector<double> &slowness) {
    std::map<std::string, std::vector<Sample>> samples;
    for (std::size_t shape = 0; shape < measured.size(); shape++) {
        const Measured &m = measured[shape];
        const double ns = 1e9 / slowness[shape];
        for (const auto &[variant, seconds] : m.times.seconds)
            if (info_of(variant).kind == m.times.shape.kind() && is_dispatched(variant, m.times.shape))
                for (int n = 0; n < m.weight; n++)
                    samples[variant].push_back({terms_of(variant, m.times.shape), ns * seconds, ns * m.times.least()});
    }
    return samples;
}

Fits fits_of_each(const std::map<std::string, std::vector<Sample>> &samples) {
    Fits fits;
    for (const auto &[variant, of_variant] : samples)
        if (of_variant.size() >= least_shapes) fits[variant].cost = fit(of_variant);
    return fits;
}

// How much longer than predicted a shape's variants took, the median of those near the quickest: on a shared machine other
// programs slow all of them together, for seconds in which no ticks are counted.
double slowness_of(const ShapeTimes &times, const Fits &fits) {
    constexpr double near = 2;
    std::vector<double> ratios;
    for (const auto &[variant, seconds] : times.seconds) {
        const auto f = fits.find(variant);
        if (f == fits.end() || seconds > near * times.least()) continue;
        const double ns = predicted(f->second.cost, terms_of(variant, times.shape));
        if (ns > 0) ratios.push_back(1e9 * seconds / ns);
    }
    return ratios.size() < 2 ? 1 : tune::median(ratios);
}

// The slowness of every shape, by fits that know more of it in each round.
std::vector<double> slowness_of(const std::vector<Measured> &measured) {
    constexpr int rounds = 3;
    std::vector<double> slowness(measured.size(), 1.0);
    for (int round = 0; round < rounds; round++) {
        const Fits fits = fits_of_each(samples_of(measured, slowness));
        for (std::size_t n = 0; n < measured.size(); n++) slowness[n] = slowness_of(measured[n].times, fits);
    }
    return slowness;
}

// The choices among the variants with these numbers.
std::vector<Contest> contests_of(const std::vector<Measured> &measured, Place place,
                                 const std::map<std::string, std::size_t> &numbers) {
    std::vector<Contest> contests;
    for (const Measured &m : measured) {
        Contest &contest = contests.emplace_back();
        contest.weight = m.weight;
        const bench::Shape of_choice = shape_of_choice(m.times.shape, place);
        for (const auto &[variant, seconds] : m.times.seconds) {
            const auto number = numbers.find(variant);
            if (number == numbers.end() || !is_dispatched(variant, m.times.shape)) continue;
            contest.candidates.push_back({number->second, terms_of(variant, of_choice), std::log(seconds / m.times.least())});
        }
    }
    return contests;
}

}  // namespace

Fits fits_of(const std::vector<Measured> &measured, Place place) {
    Fits fits = fits_of_each(samples_of(measured, slowness_of(measured)));
    std::map<std::string, std::size_t> numbers;
    std::vector<detail::CostCoefficients> costs;
    for (const auto &[variant, f] : fits) numbers[variant] = costs.size(), costs.push_back(f.cost);
    refine(costs, contests_of(measured, place, numbers));
    const auto as_measured = samples_of(measured, std::vector<double>(measured.size(), 1.0));
    for (const auto &[variant, number] : numbers)
        fits[variant] = {costs[number], error_of(costs[number], as_measured.at(variant))};
    return fits;
}

namespace {

// The coefficients of the library as it is linked.
Fits linked_costs(const std::vector<Measured> &measured) {
    Fits linked;
    for (const Measured &m : measured)
        for (const auto &[variant, seconds] : m.times.seconds)
            if (!linked.contains(variant)) linked[variant].cost = linked_cost(variant);
    return linked;
}

// The variant of least predicted time among the variants with a fit: on a CPU for one thread.
std::string chosen_by(const Fits &fits, const ShapeTimes &times, Place place) {
    const bench::Shape of_choice = shape_of_choice(times.shape, place);
    std::string chosen;
    double least = 0;
    for (const auto &[variant, seconds] : times.seconds) {
        const auto f = fits.find(variant);
        if (f == fits.end() || !is_dispatched(variant, times.shape)) continue;
        const double ns = predicted(f->second.cost, terms_of(variant, of_choice));
        if (chosen.empty() || ns < least) chosen = variant, least = ns;
    }
    return chosen;
}

}  // namespace

Regrets validate(const std::vector<Measured> &measured, Place place) {
    const Fits linked = linked_costs(measured);
    constexpr std::size_t parts = 5;
    Regrets r;
    for (std::size_t part = 0; part < parts; part++) {
        std::vector<Measured> others;
        for (std::size_t n = 0; n < measured.size(); n++)
            if (n % parts != part) others.push_back(measured[n]);
        const Fits fits = fits_of(others, place);
        for (std::size_t n = part; n < measured.size(); n += parts) {
            const ShapeTimes &times = measured[n].times;
            const std::string fitted = chosen_by(fits, times, place), now = chosen_by(linked, times, place);
            if (fitted.empty() || times.seconds.size() < 2) continue;
            r.fitted.push_back(times.seconds.at(fitted) / times.least());
            r.now.push_back(times.seconds.at(now) / times.least());
            r.ratios.push_back(times.seconds.at(fitted) / times.seconds.at(now));
        }
    }
    return r;
}

bool is_better(const Regrets &r) {
    // Most shapes keep their variant, so that a gain of 0.3 % over all shapes is one of some per cent over the others.
    constexpr double least_gain = 1.003;
    constexpr double most_of_a_shape = 0.4;  // a logarithm of a ratio of times: larger ones are disturbed times as often as not
    constexpr std::size_t groups = 10;
    if (r.ratios.size() < 2 * groups) return false;
    std::vector<std::vector<double>> ratios(groups);
    for (std::size_t n = 0; n < r.ratios.size(); n++)
        ratios[n % groups].push_back(std::clamp(std::log(r.ratios[n]), -most_of_a_shape, most_of_a_shape));
    // Most shapes have one ratio, 1: means, not medians, show the others.
    std::vector<std::vector<double>> means;
    for (const std::vector<double> &group : ratios) {
        double sum = 0;
        for (const double x : group) sum += x;
        means.push_back({std::exp(sum / static_cast<double>(group.size()))});
    }
    return tune::gain_of(means).low > least_gain;
}

}  // namespace attune::dispatch
