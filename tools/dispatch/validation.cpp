// SPDX-License-Identifier: MIT
#include "validation.h"
#include "problems.h"
#include "tools/error.h"
#include "tools/tune/decision.h"
#include <algorithm>
#include <cmath>

namespace attune::dispatch {
namespace {

constexpr std::size_t least_shapes = 8;  // for six coefficients

std::string kind_of(const bench::Shape &s) {
    if (!s.attention()) return "";
    const bench::Options &o = s.options;
    return o.dropout ? "training" : o.mask || o.bias || o.alibi || o.softcap || o.sinks ? "scored" : "plain";
}

// Samples of each variant at shapes of its own kind: with fewer options a kernel does less than a call of its kind.
std::map<std::string, std::vector<Sample>> samples_of(const std::vector<Measured> &measured) {
    std::map<std::string, std::vector<Sample>> samples;
    for (const Measured &m : measured)
        for (const auto &[variant, seconds] : m.times.seconds)
            if (info_of(variant).kind == kind_of(m.times.shape) && is_dispatched(variant, m.times.shape))
                for (int n = 0; n < m.weight; n++)
                    samples[variant].push_back({terms_of(variant, m.times.shape), 1e9 * seconds, 1e9 * m.times.least()});
    return samples;
}

}  // namespace

const VariantInfo &info_of(const std::string &variant) {
    static const std::vector<VariantInfo> all = variants();
    const auto found = std::find_if(all.begin(), all.end(), [&](const VariantInfo &v) { return v.name == variant; });
    if (found == all.end()) throw program::MachineError(variant, "is not linked in");
    return *found;
}

Fits fits_of(const std::vector<Measured> &measured) {
    Fits fits;
    for (const auto &[variant, samples] : samples_of(measured))
        if (samples.size() >= least_shapes) fits[variant] = fit(samples);
    return fits;
}

namespace {

double predicted(const detail::CostCoefficients &cost, const detail::CostTerms &terms) {
    double ns = 0;
    for (std::size_t n = 0; n < terms.size(); n++) ns += static_cast<double>(cost[n]) * terms[n];
    return ns;
}

// The variant of least predicted time on one thread, of those with a fit.
std::string chosen_by(const Fits &fits, const ShapeTimes &times) {
    std::string chosen;
    double least = 0;
    for (const auto &[variant, seconds] : times.seconds) {
        const auto f = fits.find(variant);
        if (f == fits.end() || !is_dispatched(variant, times.shape)) continue;
        const double ns = predicted(f->second.cost, terms_of(variant, times.shape));
        if (chosen.empty() || ns < least) chosen = variant, least = ns;
    }
    return chosen;
}

// What the linked library would choose, in the words of its plan.
std::string chosen_now(Context &context, const ShapeTimes &times) {
    if (is_product(times.shape.op)) {
        ProductPlan plan;
        if (!plan_product(context, product_of(times.shape), plan).ok()) return "";
        return plan.candidates.empty() ? "" : plan.candidates.front().variant;
    }
    Plan plan;
    if (times.shape.op == "additive" || !plan_sdpa(context, attention_of(times.shape), plan).ok()) return "";
    return plan.candidates.empty() ? "" : plan.candidates.front().variant;
}

}  // namespace

Regrets validate(Context &context, const std::vector<Measured> &measured) {
    constexpr std::size_t parts = 5;
    Regrets r;
    for (std::size_t part = 0; part < parts; part++) {
        std::vector<Measured> others;
        for (std::size_t n = 0; n < measured.size(); n++)
            if (n % parts != part) others.push_back(measured[n]);
        const Fits fits = fits_of(others);
        for (std::size_t n = part; n < measured.size(); n += parts) {
            const ShapeTimes &times = measured[n].times;
            const std::string fitted = chosen_by(fits, times), now = chosen_now(context, times);
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
