// SPDX-License-Identifier: MIT
#include "cell_tuner.h"
#include "finalists.h"
#include "inert_parameters.h"
#include "recall.h"
#include "strategy.h"
#include "tools/text.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

namespace attune::tune {
namespace {

using Clock = std::chrono::steady_clock;

std::string seconds_text(double seconds) { return program::formatted("%.0f", std::max(0.0, seconds)) + " s"; }

class CellTuner {
public:
    CellTuner(const Setting &setting, const Parameters &baseline, Deadline deadline)
        : s_(setting), deadline_(deadline),
          strategy_(make_strategy(setting.strategy, setting.space, seeds_with(baseline), setting.seed)) {
        result_.baseline = result_.chosen = baseline;
    }

    CellResult run() {
        const bool begins = prepare_baseline();
        result_.shapes = s_.shapes;
        if (!begins) return result_;
        while (search_seconds() > 0) {
            const std::vector<Parameters> proposals = strategy_->propose(static_cast<std::size_t>(2 * compilers()));
            if (proposals.empty()) {
                result_.complete = true;
                break;
            }
            try_all(proposals);
        }
        result_.inert = inert_parameters(s_.space, codes_);
        choose();
        return result_;
    }

private:
    std::vector<Parameters> seeds_with(const Parameters &baseline) const {
        std::vector<Parameters> seeds = {baseline};
        seeds.insert(seeds.end(), s_.seeds.begin(), s_.seeds.end());
        return seeds;
    }

    RecordKey key_of(const bench::Shape &shape) const { return tune::key_of(s_, result_.baseline, shape); }

    void tell_progress(const std::string &phase) const {
        if (s_.progress) s_.progress(result_, phase);
    }

    bool fail(const std::string &why) {
        return result_.failure = "the parameters in use, " + text_of(result_.baseline) + why, false;
    }
    bool too_late(const std::string &why) { return result_.not_tried = "the time was up: " + why, false; }

    // Compiles and checks the baseline: a wrong one would make every comparison meaningless.
    bool prepare_baseline() {
        const double compile = seconds_until(deadline_, s_.limits.compile_seconds);
        baseline_ = s_.maker.make({result_.baseline}, 1, compile).front();
        if (baseline_.verdict == "timeout" && compile < s_.limits.compile_seconds)
            return too_late("the parameters in use were not compiled in " + seconds_text(compile));
        if (!baseline_.verdict.empty()) return fail(": " + baseline_.reason);

        std::stable_sort(s_.shapes.begin(), s_.shapes.end(),
                         [](const WeightedShape &a, const WeightedShape &b) { return a.weight > b.weight; });
        tell_progress("timing the parameters in use");
        TimeJob with_peak = job(1, deadline_);
        with_peak.peak = true;
        const auto start = Clock::now();
        const Times alone = s_.workers.time({baseline_}, s_.shapes.front().shape, with_peak);
        if (alone.timed_out && with_peak.limit < seconds_of_process)
            return too_late("the parameters in use were not timed in " + seconds_text(with_peak.limit));
        if (!alone.failure.empty()) return fail(" cannot be timed: " + alone.failure);
        process_seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
        call_seconds_ = *std::min_element(alone.seconds[0].begin(), alone.seconds[0].end());
        result_.baseline_seconds = result_.chosen_seconds = call_seconds_;
        result_.limit = alone.limit;
        keep_shapes_that_fit();

        tell_progress("checking the parameters in use");
        const double limit = seconds_until(deadline_, check_seconds());
        const Verdict verdict = check(baseline_, limit);
        if (verdict.timed_out && limit < check_seconds())
            return too_late("the parameters in use were not checked in " + seconds_text(limit));
        if (!verdict.right) return fail(", are wrong: " + verdict.reason);
        by_code_[baseline_.code] = 1.0;
        return true;
    }

    // Keeps the shapes of greatest weight, as many as let the decision take at most half of the time.
    void keep_shapes_that_fit() {
        const double of_one = seconds_of_decision(s_.limits.finalists) / double(s_.shapes.size());
        const auto fit = static_cast<std::size_t>(std::max(1.0, 0.5 * seconds_left(deadline_) / of_one));
        if (fit >= s_.shapes.size()) return;
        double all = 0, kept = 0;
        for (std::size_t n = 0; n < s_.shapes.size(); n++)
            all += s_.shapes[n].weight, kept += n < fit ? s_.shapes[n].weight : 0;
        result_.shapes_left_out = std::to_string(s_.shapes.size() - fit) + " of " + std::to_string(s_.shapes.size()) +
                                  " shapes, " + program::formatted("%.0f", 100 * (1 - kept / all)) +
                                  " % of the weight, for which the time is too short";
        s_.shapes.resize(fit);
    }

    double check_seconds() const { return s_.limits.check_seconds * double(s_.shapes.size()); }

    // Checks a candidate at awkward calls and at all shapes.
    Verdict check(const Candidate &candidate, double limit) const {
        std::vector<bench::Shape> shapes;
        for (const WeightedShape &shape : s_.shapes) shapes.push_back(shape.shape);
        return s_.workers.check(candidate, shapes, limit);
    }

    TimeJob job(std::uint64_t seed, Deadline deadline) const {
        return {.rounds = s_.limits.rounds,
                .sample_seconds = s_.limits.sample_seconds,
                .cold = s_.limits.cold,
                .seed = seed,
                .limit = seconds_until(deadline, seconds_of_process)};
    }

    // Least seconds that the decision between so many finalists takes, so that the search ends in time.
    double seconds_of_decision(std::size_t finalists) const {
        const double sample = std::max(s_.limits.sample_seconds, call_seconds_);
        const double process = process_seconds_ + sample * s_.limits.rounds_of_process * double(finalists + 1) * 1.5;
        return s_.limits.decisions * s_.limits.processes * process * double(s_.shapes.size());
    }
    // The end of the search.
    Deadline last() const { return earlier(deadline_, seconds_of_decision(s_.limits.finalists)); }
    double search_seconds() const { return seconds_left(last()); }

    // Compilers of all ranks at once.
    int compilers() const { return s_.limits.jobs * (s_.builders ? s_.builders->ranks() : 1); }
    std::vector<Candidate> make(const std::vector<Parameters> &all, double limit) const {
        return s_.builders ? s_.builders->make(s_.maker, all, s_.limits.jobs, limit)
                           : s_.maker.make(all, s_.limits.jobs, limit);
    }

    void try_all(const std::vector<Parameters> &proposals) {
        std::vector<Parameters> unknown;
        for (const Parameters &parameters : proposals) {
            const auto known = recall(s_, result_.baseline, parameters);
            if (!known) {
                unknown.push_back(parameters);
                continue;
            }
            codes_[parameters] = known->code;
            finish(known->trial, known->trial.verdict == "timed" ? Outcome(known->ratio) : Outcome(), known->code);
        }
        if (unknown.empty()) return;
        tell_progress("compiling");
        const double turns = std::ceil(double(unknown.size()) / compilers());
        const double limit = std::max(1.0, std::min(s_.limits.compile_seconds, search_seconds() / turns));
        for (const Candidate &candidate : make(unknown, limit))
            // A timeout that the end of the time cut short is no verdict.
            if (candidate.verdict == "timeout" && limit < s_.limits.compile_seconds)
                finish(
                    {candidate.parameters, "not measured", "not compiled in the last " + seconds_text(limit), 0, 0, 0, false},
                    {}, "");
            else
                try_one(candidate);
    }

    void try_one(const Candidate &candidate) {
        Trial trial{candidate.parameters, candidate.verdict, candidate.reason, 0, 0, 0, false};
        if (!candidate.verdict.empty()) {
            write(trial, candidate, s_.shapes.front().shape, {}, 0);
            return finish(trial, {}, "");
        }
        codes_[candidate.parameters] = candidate.code;
        if (const auto same = by_code_.find(candidate.code); same != by_code_.end()) {
            // The same machine code needs no second measurement, and no second place in the decision.
            trial.verdict = "same code", trial.gain = 1 / same->second;
            return finish(trial, same->second, "");
        }
        if (search_seconds() <= 0) return;
        tell_progress("checking " + text_of(candidate.parameters));
        const double limit = seconds_until(last(), check_seconds());
        const Verdict verdict = check(candidate, limit);
        if (verdict.timed_out && limit < check_seconds()) return;
        trial.error_ratio = verdict.error_ratio;
        if (!verdict.right) return reject(trial, candidate, verdict.reason, s_.shapes.front().shape, 0);
        time_one(trial, candidate);
    }

    void time_one(Trial &trial, const Candidate &candidate) {
        trial.verdict = "timed";
        MeanRatio mean;
        for (const WeightedShape &shape : s_.shapes) {
            if (search_seconds() <= 0) return;
            Measured measured = Measured::yes;
            const Times times = quiet_times(candidate, shape.shape, measured);
            if (times.timed_out && search_seconds() <= 0) return;
            if (measured == Measured::busy) {
                trial.verdict = "not measured";
                trial.reason = "quicker than the peak of a busy machine; others took " +
                               program::formatted("%.2f", times.foreign_load) + " of a core";
                return finish(trial, {}, "");
            }
            if (!times.failure.empty()) return reject(trial, candidate, times.failure, shape.shape, times.foreign_load);
            const std::vector<double> ratios = times.ratios(1);
            Trial of_shape = trial;
            of_shape.seconds = *std::min_element(times.seconds[1].begin(), times.seconds[1].end());
            if (trial.seconds == 0) trial.seconds = of_shape.seconds;
            write(of_shape, candidate, shape.shape, ratios, times.foreign_load);
            mean.add(median(ratios), shape.weight);
        }
        finish(trial, mean.value(), candidate.code);
    }

    // Times the baseline and the candidate in turns; again where other processes ran, or where the figure is implausible.
    Times quiet_times(const Candidate &candidate, const bench::Shape &shape, Measured &measured) {
        Times best;
        for (std::uint64_t attempt = 1; attempt <= 3 && (attempt == 1 || search_seconds() > 0); attempt++) {
            const auto start = Clock::now();
            const Times times = s_.workers.time({baseline_, candidate}, shape, job(attempt, last()));
            process_seconds_ = std::max(process_seconds_, std::chrono::duration<double>(Clock::now() - start).count());
            if (!times.failure.empty()) return times;
            const Measured now = tune::measured(times.products[1], times.products[0], times.foreign_load, s_.limits.quiet);
            const bool right = now == Measured::yes, was_right = attempt > 1 && measured == Measured::yes;
            if (attempt == 1 || right > was_right || (right == was_right && times.foreign_load < best.foreign_load))
                best = times, measured = now;
            if (best.foreign_load <= s_.limits.quiet && measured == Measured::yes) break;
        }
        if (measured == Measured::too_quick)
            best.failure = "makes " + program::formatted("%.2f", best.products[1]) +
                           " times the products that this machine can: a part of the work is left out";
        result_.loudest = std::max(result_.loudest, best.foreign_load);
        return best;
    }

    void reject(Trial &trial, const Candidate &candidate, const std::string &reason, const bench::Shape &shape,
                double foreign_load) {
        trial.verdict = "rejected", trial.reason = reason;
        write(trial, candidate, shape, {}, foreign_load);
        finish(trial, {}, candidate.code);
    }

    void write(const Trial &trial, const Candidate &candidate, const bench::Shape &shape, const std::vector<double> &ratios,
               double foreign_load) {
        s_.log.append({key_of(shape), trial.parameters, trial.verdict, trial.reason, ratios, trial.seconds, trial.error_ratio,
                       candidate.code, foreign_load, utc("%Y-%m-%dT%H:%M:%SZ")});
    }

    void finish(Trial trial, const Outcome &outcome, const std::string &code) {
        strategy_->tell(trial.parameters, outcome);
        if (outcome) {
            trial.gain = 1 / *outcome;
            if (!code.empty()) by_code_.emplace(code, *outcome);
        }
        result_.trials.push_back(trial);
        tell_progress(strategy_->phase());
    }

    // The best candidates by their first measurement, without candidates that are far behind.
    std::vector<const Trial *> candidates_for_decision() const {
        std::vector<const Trial *> right;
        for (const Trial &trial : result_.trials)
            if (trial.verdict == "timed" && trial.parameters != result_.baseline && trial.gain >= 0.97) right.push_back(&trial);
        std::stable_sort(right.begin(), right.end(), [](const Trial *a, const Trial *b) { return a->gain > b->gain; });
        std::size_t fit = s_.limits.finalists;
        while (fit > 1 && seconds_of_decision(fit) > seconds_left(deadline_)) fit--;
        if (right.size() > fit) right.resize(fit);
        return right;
    }

    void choose() {
        const auto &trials = result_.trials;
        if (trials.empty() && !result_.complete)
            return void(too_late("no candidate was tried, since a decision takes " +
                                 seconds_text(seconds_of_decision(s_.limits.finalists)) + " on " +
                                 std::to_string(s_.shapes.size()) + " shapes; give more --time"));
        if (!trials.empty() && std::none_of(trials.begin(), trials.end(),
                                            [](const Trial &t) { return t.was_right() || t.verdict == "not measured"; })) {
            result_.failure = "none of " + std::to_string(trials.size()) + " candidates was right";
            return;
        }
        const std::vector<const Trial *> right = candidates_for_decision();
        std::vector<Parameters> parameters;
        for (const Trial *trial : right) parameters.push_back(trial->parameters);
        const std::vector<Candidate> others = s_.maker.make(parameters, s_.limits.jobs, s_.limits.compile_seconds);
        const double later = seconds_of_decision(s_.limits.finalists) * (s_.limits.decisions - 1) / s_.limits.decisions;
        result_.finalists = decide(s_, baseline_, others, earlier(deadline_, later), result_);
        for (std::size_t n = 0; n < result_.finalists.size(); n++) result_.finalists[n].error_ratio = right[n]->error_ratio;
        if (const Finalist *best = winner(result_.finalists)) {
            result_.chosen = best->parameters, result_.gain = best->gain;
            result_.chosen_seconds = result_.baseline_seconds / best->gain.value;
        }
    }

    static constexpr double seconds_of_process = 300;  // limit of a process that times

    Setting s_;
    Deadline deadline_;
    std::unique_ptr<Strategy> strategy_;
    Candidate baseline_;
    double process_seconds_ = 0, call_seconds_ = 0;
    std::map<std::string, double> by_code_;    // outcome of each machine code
    std::map<Parameters, std::string> codes_;  // machine code of parameters
    CellResult result_;
};

}  // namespace

CellResult tune_cell(const Setting &setting, const Parameters &baseline, Deadline deadline) {
    return CellTuner(setting, baseline, deadline).run();
}

}  // namespace attune::tune
