// SPDX-License-Identifier: MIT
#include "validation.h"
#include "problems.h"
#include "tools/tune/decision.h"
#include <algorithm>
#include <cmath>

namespace attune::dispatch {
namespace {

constexpr std::size_t least_shapes = 8;  // for six coefficients

// Samples of each variant at shapes of its own kind: with fewer options a kernel does less than a call of its kind.
std::map<std::string, std::vector<Sample>> samples_of(const std::vector<Measured> &measured) {
    std::map<std::string, std::vector<Sample>> samples;
    for (const Measured &m : measured)
        for (const auto &[variant, seconds] : m.times.seconds)
            if (info_of(variant).kind == m.times.shape.kind() && is_dispatched(variant, m.times.shape))
                for (int n = 0; n < m.weight; n++)
                    samples[variant].push_back({terms_of(variant, m.times.shape), 1e9 * seconds, 1e9 * m.times.least()});
    return samples;
}

}  // namespace

Fits fits_of(const std::vector<Measured> &measured) {
    Fits fits;
    for (const auto &[variant, samples] : samples_of(measured))
        if (samples.size() >= least_shapes) fits[variant] = fit(samples);
    return fits;
}

namespace {

// The variant of least predicted time in the library as it is linked; empty where nothing plans the op.
std::string first_candidate(TimedMachine &machine, const bench::Shape &shape) {
    const Planned plan = planned(machine.context(), shape, machine.place());
    return plan.candidates.empty() ? "" : plan.candidates.front().variant;
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

Regrets validate(TimedMachine &machine, const std::vector<Measured> &measured) {
    constexpr std::size_t parts = 5;
    Regrets r;
    for (std::size_t part = 0; part < parts; part++) {
        std::vector<Measured> others;
        for (std::size_t n = 0; n < measured.size(); n++)
            if (n % parts != part) others.push_back(measured[n]);
        const Fits fits = fits_of(others);
        for (std::size_t n = part; n < measured.size(); n += parts) {
            const ShapeTimes &times = measured[n].times;
            const std::string fitted = chosen_by(fits, times, machine.place()), now = first_candidate(machine, times.shape);
            if (fitted.empty() || times.seconds.size() < 2) continue;
            r.fitted.push_back(times.seconds.at(fitted) / times.least());
            if (!times.seconds.contains(now)) continue;
            r.now.push_back(times.seconds.at(now) / times.least());
            r.ratios.push_back(times.seconds.at(fitted) / times.seconds.at(now));
        }
    }
    return r;
}

bool is_better(const Regrets &r) {
    constexpr std::size_t groups = 10;
    if (r.ratios.size() < 2 * groups) return false;
    std::vector<std::vector<double>> ratios(groups);
    for (std::size_t n = 0; n < r.ratios.size(); n++) ratios[n % groups].push_back(std::log(r.ratios[n]));
    // Most shapes have one ratio, 1: means, not medians, show the others.
    std::vector<std::vector<double>> means;
    for (const std::vector<double> &group : ratios) {
        double sum = 0;
        for (const double x : group) sum += x;
        means.push_back({std::exp(sum / static_cast<double>(group.size()))});
    }
    return tune::replaces(tune::gain_of(means));
}

}  // namespace attune::dispatch
