// SPDX-License-Identifier: MIT
// Fits of cost coefficients to times that are made up, and the files of coefficients.
#include "tests/support/catch.h"
#include "tests/tune/temporary.h"
#include "tools/dispatch/costs_file.h"
#include "tools/dispatch/fit.h"
#include "tools/dispatch/problems.h"
#include "tools/dispatch/refine.h"
#include "tools/dispatch/regret.h"
#include "tools/dispatch/times.h"
#include "tools/dispatch/validation.h"
#include "tools/error.h"
#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>

using namespace attune::dispatch;
using attune::Place;

namespace {

constexpr Terms truth = {2000, 300, 1.2, 0, 0.008, 0.004, 0};

// Calls of sizes uniform in their logarithms, with times of `truth` and a relative error.
std::vector<Sample> samples_of(std::mt19937 &random, std::size_t count, double noise) {
    std::vector<Sample> samples;
    const auto size = [&](double least, double most) {
        return std::exp(std::uniform_real_distribution<double>(std::log(least), std::log(most))(random));
    };
    for (std::size_t n = 0; n < count; n++) {
        const double tiles = size(1, 500), keys = size(8, 4096), width = 128;
        Sample s{{1, tiles, tiles * width, tiles * keys, tiles * keys * width, std::max(0.0, keys * 512 - 1e6), 0}, 0, 0};
        for (std::size_t i = 0; i < truth.size(); i++) s.ns += truth[i] * s.terms[i];
        s.ns *= 1 + std::uniform_real_distribution<double>(-noise, noise)(random);
        s.least = s.ns * size(0.5, 1);
        samples.push_back(s);
    }
    return samples;
}

using Costs = attune::detail::CostCoefficients;
double worst_error(const Costs &cost, const std::vector<Sample> &samples) {
    double worst = 0;
    for (const Sample &s : samples) worst = std::max(worst, std::abs(predicted(cost, s.terms) / s.ns - 1));
    return worst;
}

}  // namespace

TEST_CASE("fit: predicts what follows its formula, at sizes that it has not seen", "[dispatch]") {
    std::mt19937 random(500010);
    const std::vector<Sample> seen = samples_of(random, 40, 0), unseen = samples_of(random, 200, 0);
    const Costs exact = fit(seen);
    CHECK(error_of(exact, seen) < 1e-4);
    CHECK(worst_error(exact, unseen) < 0.01);
    const std::vector<Sample> disturbed = samples_of(random, 60, 0.05);
    const Costs noisy = fit(disturbed);
    CHECK(error_of(noisy, disturbed) < 0.05);
    CHECK(worst_error(noisy, unseen) < 0.12);
    for (const float c : noisy) CHECK(c >= 0);
    CHECK(std::count(noisy.begin(), noisy.end(), 0.F) >= 1);
}

TEST_CASE("fit: a tenth of the samples, disturbed, moves little", "[dispatch]") {
    std::mt19937 random(500011);
    std::vector<Sample> seen = samples_of(random, 60, 0.01);
    for (std::size_t n = 0; n < seen.size(); n += 10) seen[n].ns *= 3;
    CHECK(worst_error(fit(seen), samples_of(random, 200, 0)) < 0.15);
}

TEST_CASE("fits: a machine that is slow for seconds moves choices little, since it slows all variants of a shape",
          "[dispatch]") {
    const unsigned seed = 500005;
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    const auto all = families("sdpa", Place::host);
    const auto family = std::find_if(all.begin(), all.end(), [](const Family &f) {
        return f.dtype == attune::DType::f32 && f.kind == "plain" && f.head_dim == 40;
    });
    REQUIRE(family != all.end());
    Fits truths;
    std::vector<Measured> measured;
    for (int n = 0; n < 60; n++) {
        Measured &m = measured.emplace_back();
        m.times.shape = random_shape(*family, random, {.work = 4e8, .single = true});
        const double slowness = std::uniform_real_distribution<double>(1, 2)(random);
        for (const std::string &variant : variants_for(m.times.shape)) {
            auto &truth = truths[variant];
            if (truth.cost[0] == 0) truth.cost = {2000, 300, 2, 0, 0.01F + 0.003F * float(truths.size()), 0, 0};
            m.times.seconds[variant] = 1e-9 * slowness * predicted(truth.cost, terms_of(variant, m.times.shape));
        }
    }
    REQUIRE(truths.size() >= 3);
    const Fits fits = fits_of(measured, Place::host);
    // Ratios of each variant's time and that of the first one.
    std::vector<double> errors;
    for (const Measured &m : measured) {
        const auto ratio = [&](const Fits &of, const std::string &variant) {
            const std::string &first = m.times.seconds.begin()->first;
            return predicted(of.at(variant).cost, terms_of(variant, m.times.shape)) /
                   predicted(of.at(first).cost, terms_of(first, m.times.shape));
        };
        for (const auto &[variant, seconds] : m.times.seconds)
            errors.push_back(std::abs(ratio(fits, variant) / ratio(truths, variant) - 1));
    }
    std::sort(errors.begin(), errors.end());
    INFO("ratios of predicted times: nine of ten within " << errors[errors.size() * 9 / 10]);
    CHECK(errors[errors.size() * 9 / 10] < 0.12);
}

TEST_CASE("fit: coefficients are positive where least squares without that bound has a negative one", "[dispatch]") {
    // y falls as the second term rises: x = (1, 0) is the best that is not negative.
    Square a{};
    Terms b{};
    for (const auto &[x, y] : {std::pair(0.0, 1.5), {1.0, 1.0}, {2.0, 0.5}}) {
        a[0][0] += 1, a[0][1] += x, a[1][0] += x, a[1][1] += x * x, b[0] += y, b[1] += x * y;
    }
    const Terms x = least_squares_of_positive(a, b);
    CHECK(std::abs(x[0] - 1) < 1e-9);
    CHECK(x[1] == 0);
}

TEST_CASE("refine: choices become better where no coefficients predict all times", "[dispatch]") {
    // Variant 0 takes a step at 100 keys that its terms do not have; variant 1 follows its terms.
    std::mt19937 random(500013);
    std::vector<Sample> of[2];
    std::vector<Contest> contests;
    for (int n = 0; n < 300; n++) {
        const double keys = std::exp(std::uniform_real_distribution<double>(std::log(8), std::log(4096))(random));
        const Terms terms = {1, keys, 0, 0, 0, 0, 0};
        const double ns[] = {100 + keys * (keys < 100 ? 4 : 9), 400 + keys * 5}, least = std::min(ns[0], ns[1]);
        Contest &contest = contests.emplace_back();
        for (std::size_t v = 0; v < 2; v++) {
            of[v].push_back({terms, ns[v], least});
            contest.candidates.push_back({v, terms, std::log(ns[v] / least)});
        }
    }
    const std::vector<Costs> fits = {fit(of[0]), fit(of[1])};
    std::vector<Costs> costs = fits;
    const auto loss = [&](const std::vector<Costs> &by) {
        double sum = 0;
        for (const Contest &c : contests) {
            const auto time = [&](std::size_t v) { return predicted(by[v], c.candidates[v].terms); };
            sum += c.candidates[time(1) < time(0)].loss;
        }
        return sum / double(contests.size());
    };
    refine(costs, contests);
    INFO("loss " << loss(fits) << " to " << loss(costs));
    CHECK(loss(fits) > 0.01);
    CHECK(loss(costs) < 0.3 * loss(fits));
    for (std::size_t v = 0; v < 2; v++)
        for (std::size_t i = 0; i < costs[v].size(); i++) CHECK((costs[v][i] > 0) == (fits[v][i] > 0));
    // A single candidate is no choice: its coefficients stay.
    std::vector<Costs> alone = fits;
    for (Contest &c : contests) c.candidates.resize(1);
    refine(alone, contests);
    CHECK(alone == fits);
}

TEST_CASE("regret: quantiles", "[dispatch]") {
    std::vector<double> regrets(101, 1.0);
    for (std::size_t n = 0; n < regrets.size(); n++) regrets[n] = 1 + double(n) / 100;
    const Quantiles q = quantiles_of(regrets);
    CHECK(q.median == 1.5);
    CHECK(q.ninth_decile == 1.9);
    CHECK(q.worst == 2);
    CHECK(quantiles_of({}).worst == 1);
}

TEST_CASE("regret: a variant is worth the time that calls take without it", "[dispatch]") {
    const auto times = [](std::map<std::string, double> seconds) { return ShapeTimes{{}, std::move(seconds), 0}; };
    // Dispatch, "", is no variant. A twin costs nothing alone; the only one of a shape has no other.
    const auto worth = worth_of_variants({times({{"", 3}, {"wide", 1}, {"narrow", 4}, {"twin", 4}}),
                                          times({{"", 2}, {"wide", 3}, {"narrow", 2.04}, {"twin", 2}}), times({{"alone", 5}})});
    REQUIRE(worth.size() == 4);
    CHECK(worth[0].variant == "narrow");
    CHECK(worth[0].shapes == 2);
    CHECK(worth[0].near == 1);
    CHECK(worth[0].worst_loss == 1);
    CHECK(worth[1].variant == "twin");
    CHECK(worth[1].near == 1);
    CHECK(worth[1].worst_loss == 2.04 / 2);
    CHECK(worth[2].variant == "wide");
    CHECK(worth[2].near == 1);
    CHECK(worth[2].worst_loss == 4);
    CHECK(std::abs(worth[2].loss - 2) < 1e-12);
    CHECK(worth[3].variant == "alone");
    CHECK(std::isinf(worth[3].worst_loss));
}

TEST_CASE("tune --dispatch: fits that choose alike replace nothing, and only a certain gain does", "[dispatch]") {
    std::mt19937 random(500012);
    const auto regrets = [&](double gain, double noise) {
        Regrets r;
        for (int n = 0; n < 200; n++)
            r.ratios.push_back((1 + std::uniform_real_distribution<double>(-noise, noise)(random)) / (n % 4 ? 1 : gain));
        return r;
    };
    CHECK_FALSE(is_better(regrets(1, 0)));
    int replaced = 0;
    for (int trial = 0; trial < 200; trial++) replaced += is_better(regrets(1, 0.03));
    CHECK(replaced == 0);
    CHECK_FALSE(is_better(regrets(1.01, 0)));  // a quarter of a percent over all shapes
    CHECK(is_better(regrets(1.1, 0)));
    CHECK(is_better(regrets(1.2, 0.01)));
    CHECK_FALSE(is_better(regrets(0.8, 0.01)));
}

TEST_CASE("costs file: written and read again, as CMake reads it", "[dispatch]") {
    const attune::tune::TemporaryFolder folder;
    const std::string file = folder.path() + "/sdpa/costs/zen5.json";
    {
        CostsFile costs(file, "sdpa", "zen5");
        costs.set_provenance({{"hardware", "a CPU"}, {"command", "attune tune --dispatch"}});
        costs.set("f32/64/prefill/long/plain", {{1234.5678F, 0, 1.5e-7F, 0, 0.25F, 0, 0}, 0.031, 40, "b:1", 12.345, 81.2});
        costs.set("f32/64/decode/rows1/plain", {{1, 2, 3, 4, 5, 6, 0}, 0.1, 9, "b:1", 1, 0, "0123456789abcdef"});
        costs.write();
    }
    CostsFile again(file, "sdpa", "zen5");
    CHECK(again.has("f32/64/prefill/long/plain"));
    CHECK_FALSE(again.has("f32/64/prefill/short/plain"));
    CHECK(again.is_of_others("f32/64/decode/rows1/plain", "fedcba9876543210"));
    CHECK_FALSE(again.is_of_others("f32/64/decode/rows1/plain", "0123456789abcdef"));
    CHECK_FALSE(again.is_of_others("f32/64/prefill/long/plain", "fedcba9876543210"));  // a record that does not say
    CHECK_FALSE(again.is_of_others("f32/64/prefill/short/plain", "fedcba9876543210"));
    const auto json = nlohmann::json::parse(again.text());
    CHECK(json["costs"]["f32/64/prefill/long/plain"]["cost"] == nlohmann::json({1235.0, 0.0, 1.5e-7, 0.0, 0.25, 0.0, 0.0}));
    CHECK(json["costs"]["f32/64/prefill/long/plain"]["percent_of_peak"] == 81.2);
    CHECK_FALSE(json["costs"]["f32/64/decode/rows1/plain"].contains("percent_of_peak"));
    CHECK_THROWS_AS(CostsFile(file, "sdpa", "zen4"), attune::program::InputError);
    std::ofstream(file) << "[]";
    CHECK_THROWS_AS(CostsFile(file, "sdpa", "zen5"), attune::program::InputError);
}

TEST_CASE("times log: a run goes on from whole lines of its own key", "[dispatch]") {
    const attune::tune::TemporaryFolder folder;
    const std::string file = folder.path() + "/times.jsonl";
    bench::Shape shape;
    shape.q = 7;
    TimesLog(file, "here").append({shape, {{"a", 1e-6}, {"b", 2e-6}}, 0});
    std::ofstream(file, std::ios::app) << "{\"key\": \"here\", \"sha";  // killed
    const TimesLog log(file, "here");
    REQUIRE(log.find(shape));
    CHECK(log.find(shape)->least() == 1e-6);
    CHECK_FALSE(TimesLog(file, "elsewhere").find(shape));
    shape.q = 8;
    CHECK_FALSE(log.find(shape));
    TimesLog(file, "here").append({shape, {{"a", 3e-6}}, 0});
    CHECK(TimesLog(file, "here").find(shape));
}

TEST_CASE("random shapes: within the work, of every family, the same for a seed", "[dispatch]") {
    for (const std::string &op : ops())
        for (const Family &f : families(op)) {
            INFO(op << ' ' << f.kind << ' ' << f.head_dim);
            std::mt19937_64 random(3), again(3);
            for (int n = 0; n < 30; n++) {
                const bench::Shape s = random_shape(f, random, {.work = 1e8, .single = true});
                CHECK(s.label() == random_shape(f, again, {.work = 1e8, .single = true}).label());
                CHECK(s.work_unmasked() <= (op == "additive" ? 20e8 : 1e8));
                CHECK(s.dtype == f.dtype);
                if (!is_product(op)) CHECK(s.d == f.head_dim);
            }
            CHECK_FALSE(variants_for(random_shape(f, random, {.work = 1e8, .single = true})).empty());
        }
}
