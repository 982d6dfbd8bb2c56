// SPDX-License-Identifier: MIT
#include "strategy.h"
#include "tools/error.h"
#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <random>
#include <set>

namespace attune::tune {
namespace {

constexpr std::size_t best_few = 3;            // points from which descent goes on
constexpr double least_gain_of_sweep = 0.001;  // a sweep of descent with less is the last
constexpr std::size_t stage_at_most = 48;      // candidates of a stage: minutes of compiling

// Common part of all strategies: what was asked and what was told, which is the whole state of a candidate. Nothing derived
// from outcomes outlives a question: a candidate that was considered but not asked can come up again, and a changed outcome
// changes all that follows from it.
class Search : public Strategy {
public:
    Search(const Space &space, const std::vector<Parameters> &seeds) : space_(space) {
        for (const Parameters &seed : seeds) wanted_.push_back(space.nearest(seed));
        if (wanted_.empty()) wanted_.push_back(space.nearest({}));
        start_ = wanted_.front();
    }

    std::vector<Parameters> propose(std::size_t at_most) final {
        std::vector<Parameters> batch;
        while (batch.size() < at_most) {
            if (wanted_.empty()) {
                // The next wanted candidates depend on all outcomes.
                if (!batch.empty() || !owing_.empty() || !next_phase()) break;
                continue;
            }
            const Parameters next = wanted_.front();
            wanted_.pop_front();
            if (outcomes_.contains(next) || owing_.contains(next)) continue;
            owing_.insert(next);
            batch.push_back(next);
        }
        return batch;
    }

    void tell(const Parameters &parameters, const Outcome &outcome) final {
        const Parameters point = space_.why_not(parameters).empty() ? space_.nearest(parameters) : parameters;
        owing_.erase(point);
        outcomes_[point] = outcome;
    }

protected:
    // Puts the next candidates into wanted(), which is empty; false at the end. All outcomes are known.
    virtual bool next_phase() = 0;

    const Space &space() const { return space_; }
    const Parameters &start() const { return start_; }
    std::deque<Parameters> &wanted() { return wanted_; }

    // The best points so far; the starting point where none was timed.
    std::vector<Parameters> best(std::size_t count) const {
        std::vector<std::pair<double, const Parameters *>> timed;
        for (const auto &[parameters, outcome] : outcomes_)
            if (outcome && space_.why_not(parameters).empty()) timed.emplace_back(*outcome, &parameters);
        std::stable_sort(timed.begin(), timed.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
        std::vector<Parameters> list;
        for (std::size_t n = 0; n < std::min(count, timed.size()); n++) list.push_back(*timed[n].second);
        if (list.empty()) list.push_back(start_);
        return list;
    }
    Outcome best_outcome() const {
        const auto found = outcomes_.find(best(1)[0]);
        return found == outcomes_.end() ? Outcome() : found->second;
    }

private:
    const Space &space_;
    Parameters start_;
    std::deque<Parameters> wanted_;
    std::set<Parameters> owing_;  // asked, not yet told
    std::map<Parameters, Outcome> outcomes_;
};

class Descent : public Search {
public:
    using Search::Search;
    std::string phase() const override {
        return sweep_ == Sweep::none ? "seeds"
                                     : (sweep_ == Sweep::one_step ? "descent from " : "two steps from ") + text_of(from_);
    }

protected:
    bool next_phase() override {
        const Outcome now = best_outcome();
        const bool gained = sweep_ == Sweep::none || (now && (!before_ || *now < *before_ * (1 - least_gain_of_sweep)));
        if (!gained && sweep_ == Sweep::two_steps) return false;
        // Where single steps gain no more, two changes together may: a wider tile with a shorter KV block.
        sweep_ = gained ? Sweep::one_step : Sweep::two_steps;
        before_ = now;
        from_ = best(1)[0];
        for (const Parameters &point : sweep_ == Sweep::one_step ? best(best_few) : space().neighbours(from_))
            for (const Parameters &neighbour : space().neighbours(point)) wanted().push_back(neighbour);
        return true;
    }

private:
    enum class Sweep { none, one_step, two_steps } sweep_ = Sweep::none;
    Outcome before_;  // best outcome before the last sweep
    Parameters from_;
};

// Shuffle with the same result on every standard library, unlike std::shuffle.
void shuffle(std::vector<Parameters> &points, std::mt19937_64 &random) {
    for (std::size_t left = points.size(); left > 1; left--) std::swap(points[left - 1], points[random() % left]);
}

// Search by stages: parameters of a stage together, the others as in the best point so far or as near as constraints let them.
class Factored : public Descent {
public:
    Factored(const Space &space, const std::vector<Parameters> &seeds, std::uint64_t seed)
        : Descent(space, seeds), random_(seed) {
        for (const SpaceParameter &parameter : space.parameters())
            if (parameter.values.size() > 1) stages_.insert(parameter.stage);
        next_ = stages_.begin();
    }
    std::string phase() const override {
        const auto done = std::distance(stages_.begin(), next_);
        if (done == 0) return "seeds";
        if (in_descent_) return Descent::phase();
        return "stage " + std::to_string(done) + " of " + std::to_string(stages_.size());
    }

protected:
    bool next_phase() override {
        if (next_ == stages_.end()) {
            in_descent_ = true;
            return Descent::next_phase();
        }
        want_stage(*next_++);
        return true;
    }

private:
    int steps(const Parameters &a, const Parameters &b, const SpaceParameter &parameter) const {
        const auto place = [&](const Parameters &parameters) {
            return std::lower_bound(parameter.values.begin(), parameter.values.end(), parameters.at(parameter.name)) -
                   parameter.values.begin();
        };
        return int(std::abs(place(a) - place(b)));
    }

    void want_stage(int stage) {
        const Parameters base = best(1)[0];
        struct Choice {
            int within, beside;  // steps from the base in the parameters of the stage, and in the others
            Parameters parameters;
        };
        std::map<std::vector<int>, Choice> choices;  // by the values of the parameters of the stage
        for (const Parameters &point : space().all()) {
            std::vector<int> values;
            Choice choice{0, 0, point};
            for (const SpaceParameter &parameter : space().parameters()) {
                (parameter.stage == stage ? choice.within : choice.beside) += steps(base, point, parameter);
                if (parameter.stage == stage) values.push_back(point.at(parameter.name));
            }
            const auto [known, first] = choices.emplace(values, choice);
            if (!first && choice.beside < known->second.beside) known->second = choice;
        }
        std::vector<Choice> ordered;
        for (const auto &[values, choice] : choices) ordered.push_back(choice);
        std::stable_sort(ordered.begin(), ordered.end(), [](const Choice &a, const Choice &b) { return a.within < b.within; });
        // The nearest points are the best guess; where there are too many, half of the candidates are random.
        const std::size_t near = ordered.size() <= stage_at_most ? ordered.size() : stage_at_most / 2;
        std::vector<Parameters> others;
        for (std::size_t n = 0; n < ordered.size(); n++)
            if (n < near)
                wanted().push_back(ordered[n].parameters);
            else
                others.push_back(ordered[n].parameters);
        shuffle(others, random_);
        for (std::size_t n = 0; n < std::min(others.size(), stage_at_most - std::min(near, stage_at_most)); n++)
            wanted().push_back(others[n]);
    }

    std::mt19937_64 random_;
    std::set<int> stages_;
    std::set<int>::const_iterator next_;
    bool in_descent_ = false;
};

// Search of all points, whatever their outcomes.
class Everything : public Search {
public:
    Everything(const Space &space, const std::vector<Parameters> &seeds, std::optional<std::uint64_t> seed)
        : Search(space, seeds), phase_(seed ? "random order" : "every point") {
        std::vector<Parameters> all = space.all();
        std::mt19937_64 random(seed.value_or(0));
        if (seed) shuffle(all, random);
        wanted().insert(wanted().end(), all.begin(), all.end());
    }
    std::string phase() const override { return phase_; }

protected:
    bool next_phase() override { return false; }

private:
    std::string phase_;
};

}  // namespace

std::vector<std::string> strategy_names() { return {"factored", "descent", "random", "exhaustive"}; }

std::unique_ptr<Strategy> make_strategy(const std::string &name, const Space &space, const std::vector<Parameters> &seeds,
                                        std::uint64_t seed) {
    if (name == "factored") return std::make_unique<Factored>(space, seeds, seed);
    if (name == "descent") return std::make_unique<Descent>(space, seeds);
    if (name == "random") return std::make_unique<Everything>(space, seeds, seed);
    if (name == "exhaustive") return std::make_unique<Everything>(space, seeds, std::nullopt);
    std::string names;
    for (const std::string &known : strategy_names()) names += (names.empty() ? "" : ", ") + known;
    throw program::InputError("--strategy", "expected one of " + names + ", got " + name);
}

}  // namespace attune::tune
