#include "cell_tuner.h"
#include "finalists.h"
#include "strategy.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

namespace attune::tune {
namespace {

using Clock = std::chrono::steady_clock;

int log2_of(std::int64_t n) { return n < 1 ? 0 : static_cast<int>(std::lround(std::floor(std::log2(static_cast<double>(n))))); }

std::string mask_of(const bench::Shape &s) {
    std::string mask = s.causal ? "causal" : "none";
    if (s.window.left >= 0 || s.window.right >= 0) mask = "window";
    if (!s.lengths.empty()) mask += "+lengths";
    if (s.options.mask) mask += "+boolean";
    return mask;
}

class CellTuner {
public:
    CellTuner(const Setting &setting, const Numbers &baseline, Deadline deadline)
        : s_(setting), deadline_(deadline),
          strategy_(make_strategy(setting.strategy, setting.space, seeds_with(baseline), setting.seed)) {
        result_.baseline = result_.chosen = baseline;
    }

    CellResult run() {
        baseline_ = s_.maker.make({result_.baseline}, 1, s_.limits.compile_seconds).front();
        if (!prepare_baseline()) return result_;
        while (seconds_left(deadline_) > seconds_of_decision()) {
            const std::vector<Numbers> proposals = strategy_->propose(static_cast<std::size_t>(2 * s_.limits.jobs));
            if (proposals.empty()) {
                result_.complete = true;
                break;
            }
            try_all(proposals);
        }
        find_inert();
        choose();
        return result_;
    }

private:
    std::vector<Numbers> seeds_with(const Numbers &baseline) const {
        std::vector<Numbers> seeds = {baseline};
        seeds.insert(seeds.end(), s_.seeds.begin(), s_.seeds.end());
        return seeds;
    }

    RecordKey key_of(const bench::Shape &shape) const {
        RecordKey key = s_.key;
        key.mask = mask_of(shape), key.group = std::to_string(shape.h / shape.kv);
        key.log2_queries = log2_of(shape.q), key.log2_keys = log2_of(shape.k);
        key.shape = shape.label() + (s_.captures.empty() ? "" : "/captures:" + s_.captures),
        key.baseline = text_of(result_.baseline), key.cold = s_.limits.cold;
        return key;
    }

    void tell_progress(const std::string &phase) const {
        if (s_.progress) s_.progress(result_, phase);
    }

    // A baseline that is wrong would make every comparison meaningless.
    bool prepare_baseline() {
        if (!baseline_.verdict.empty()) {
            result_.failure = "the numbers in use, " + text_of(result_.baseline) + ": " + baseline_.reason;
            return false;
        }
        tell_progress("checking the numbers in use");
        if (const Verdict verdict = check(baseline_); !verdict.right) {
            result_.failure = "the numbers in use, " + text_of(result_.baseline) + ", are wrong: " + verdict.reason;
            return false;
        }
        const auto start = Clock::now();
        TimeJob with_peak = job(1);
        with_peak.peak = true;
        const Times alone = s_.workers.time({baseline_}, s_.cell.shapes.front().shape, with_peak);
        if (!alone.failure.empty()) {
            result_.failure = "the numbers in use cannot be timed: " + alone.failure;
            return false;
        }
        process_seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
        call_seconds_ = *std::min_element(alone.seconds[0].begin(), alone.seconds[0].end());
        result_.baseline_seconds = result_.chosen_seconds = call_seconds_;
        result_.limit = alone.limit;
        by_code_[baseline_.code] = 1.0;
        return true;
    }

    // At awkward calls and at all shapes.
    Verdict check(const Candidate &candidate) const {
        std::vector<bench::Shape> shapes;
        for (const WeightedShape &shape : s_.cell.shapes) shapes.push_back(shape.shape);
        return s_.workers.check(candidate, shapes, s_.limits.check_seconds * double(shapes.size()));
    }

    TimeJob job(std::uint64_t seed) const {
        return {.rounds = s_.limits.rounds,
                .sample_seconds = s_.limits.sample_seconds,
                .cold = s_.limits.cold,
                .seed = seed,
                .limit = 300};
    }

    // What the decision will take at least, so that the search ends in time.
    double seconds_of_decision() const {
        const double sample = std::max(s_.limits.sample_seconds, call_seconds_);
        const double process = process_seconds_ + sample * s_.limits.rounds_of_process * double(s_.limits.finalists + 1) * 1.5;
        return s_.limits.processes * process * double(s_.cell.shapes.size());
    }

    void try_all(const std::vector<Numbers> &proposals) {
        std::vector<Numbers> unknown;
        for (const Numbers &numbers : proposals)
            if (!recall(numbers)) unknown.push_back(numbers);
        tell_progress("compiling");
        for (const Candidate &candidate : s_.maker.make(
                 unknown, s_.limits.jobs, std::max(1.0, std::min(s_.limits.compile_seconds, seconds_left(deadline_)))))
            try_one(candidate);
    }

    // From the records of an earlier run, if they hold all that measuring would give.
    bool recall(const Numbers &numbers) {
        Trial trial{numbers, "timed", "", 0, 0, 0, true};
        MeanRatio mean;
        std::string code;
        for (const WeightedShape &shape : s_.cell.shapes) {
            const RecordKey key = key_of(shape.shape);
            const Record *found = nullptr;
            for (const Record &record : s_.known)
                if (record.numbers == numbers && record.key == key) found = &record;
            if (!found) return false;
            if (found->verdict != "timed") {
                trial.verdict = found->verdict, trial.reason = found->reason;
                break;
            }
            mean.add(median(found->ratios), shape.weight);
            if (trial.seconds == 0) trial.seconds = found->seconds;
            trial.error_ratio = std::max(trial.error_ratio, found->error_ratio);
            code = found->object;
        }
        codes_[numbers] = code;
        finish(trial, trial.verdict == "timed" ? Outcome(mean.value()) : Outcome(), code);
        return true;
    }

    void try_one(const Candidate &candidate) {
        Trial trial{candidate.numbers, candidate.verdict, candidate.reason, 0, 0, 0, false};
        if (!candidate.verdict.empty()) {
            write(trial, candidate, s_.cell.shapes.front().shape, {}, 0);
            return finish(trial, {}, "");
        }
        codes_[candidate.numbers] = candidate.code;
        if (const auto same = by_code_.find(candidate.code); same != by_code_.end()) {
            // The same machine code needs no second measurement, and a second name for it no place in the decision.
            trial.verdict = "same code", trial.gain = 1 / same->second;
            return finish(trial, same->second, "");
        }
        if (seconds_left(deadline_) <= 0) return;
        tell_progress("checking " + text_of(candidate.numbers));
        const Verdict verdict = check(candidate);
        trial.error_ratio = verdict.error_ratio;
        const auto reject = [&](const std::string &reason, const bench::Shape &shape, double foreign_load) {
            trial.verdict = "rejected", trial.reason = reason;
            write(trial, candidate, shape, {}, foreign_load);
            finish(trial, {}, candidate.code);
        };
        if (!verdict.right) return reject(verdict.reason, s_.cell.shapes.front().shape, 0);
        trial.verdict = "timed";
        MeanRatio mean;
        for (const WeightedShape &shape : s_.cell.shapes) {
            if (seconds_left(deadline_) <= 0) return;
            const Times times = quiet_times(candidate, shape.shape);
            if (!times.failure.empty()) return reject(times.failure, shape.shape, times.foreign_load);
            const std::vector<double> ratios = times.ratios(1);
            Trial of_shape = trial;
            of_shape.seconds = *std::min_element(times.seconds[1].begin(), times.seconds[1].end());
            if (trial.seconds == 0) trial.seconds = of_shape.seconds;
            write(of_shape, candidate, shape.shape, ratios, times.foreign_load);
            mean.add(median(ratios), shape.weight);
        }
        finish(trial, mean.value(), candidate.code);
    }

    // The baseline and the candidate in turns; again where others were at work, or where the figure cannot be.
    Times quiet_times(const Candidate &candidate, const bench::Shape &shape) {
        Times best;
        for (std::uint64_t attempt = 1; attempt <= 3; attempt++) {
            const Times times = s_.workers.time({baseline_, candidate}, shape, job(attempt));
            if (!times.failure.empty()) return times;
            if (attempt == 1 || times.foreign_load < best.foreign_load || best.suspicious) best = times;
            if (best.foreign_load <= s_.limits.quiet && !best.suspicious) break;
        }
        if (best.suspicious) best.failure = "quicker than this machine can compute it: a part of the work is left out";
        result_.loudest = std::max(result_.loudest, best.foreign_load);
        return best;
    }

    void write(const Trial &trial, const Candidate &candidate, const bench::Shape &shape, const std::vector<double> &ratios,
               double foreign_load) {
        s_.log.append({key_of(shape), trial.numbers, trial.verdict, trial.reason, ratios, trial.seconds, trial.error_ratio,
                       candidate.code, foreign_load, utc("%Y-%m-%dT%H:%M:%SZ")});
    }

    void finish(Trial trial, const Outcome &outcome, const std::string &code) {
        strategy_->tell(trial.numbers, outcome);
        if (outcome) {
            trial.gain = 1 / *outcome;
            if (!code.empty()) by_code_.emplace(code, *outcome);
        }
        result_.trials.push_back(trial);
        tell_progress(strategy_->phase());
    }

    // A knob is inert if no two candidates that differ in it alone have different code, and some do so differ.
    void find_inert() {
        for (const Knob &knob : s_.space.knobs()) {
            bool compared = false, alive = false;
            std::map<Numbers, std::set<std::string>> groups;  // codes of numbers that are alike but for the knob
            for (const auto &[numbers, code] : codes_) {
                Numbers others = numbers;
                others.erase(knob.name);
                auto &group = groups[others];
                compared = compared || !group.empty();
                group.insert(code);
                alive = alive || group.size() > 1;
            }
            if (compared && !alive) result_.inert.push_back(knob.name);
        }
    }

    void choose() {
        std::vector<const Trial *> right;
        for (const Trial &trial : result_.trials)
            if (trial.verdict == "timed" && trial.numbers != result_.baseline) right.push_back(&trial);
        if (right.empty() && !result_.trials.empty() &&
            std::none_of(result_.trials.begin(), result_.trials.end(), [](const Trial &t) { return t.was_right(); })) {
            result_.failure = "none of " + std::to_string(result_.trials.size()) + " candidates was right";
            return;
        }
        std::stable_sort(right.begin(), right.end(), [](const Trial *a, const Trial *b) { return a->gain > b->gain; });
        if (right.size() > s_.limits.finalists) right.resize(s_.limits.finalists);
        // What is far behind by its first measurement is not worth a place.
        std::erase_if(right, [](const Trial *t) { return t->gain < 0.97; });
        std::vector<Numbers> numbers;
        for (const Trial *trial : right) numbers.push_back(trial->numbers);
        const std::vector<Candidate> others = s_.maker.make(numbers, s_.limits.jobs, s_.limits.compile_seconds);
        result_.finalists = decide(s_, baseline_, others, deadline_, result_);
        for (std::size_t n = 0; n < result_.finalists.size(); n++) result_.finalists[n].error_ratio = right[n]->error_ratio;
        if (const Finalist *best = winner(result_.finalists)) {
            result_.chosen = best->numbers, result_.gain = best->gain;
            result_.chosen_seconds = result_.baseline_seconds / best->gain.value;
        }
    }

    const Setting &s_;
    Deadline deadline_;
    std::unique_ptr<Strategy> strategy_;
    Candidate baseline_;
    double process_seconds_ = 0, call_seconds_ = 0;
    std::map<std::string, double> by_code_;  // outcome of each machine code
    std::map<Numbers, std::string> codes_;   // machine code of numbers
    CellResult result_;
};

}  // namespace

CellResult tune_cell(const Setting &setting, const Numbers &baseline, Deadline deadline) {
    return CellTuner(setting, baseline, deadline).run();
}

}  // namespace attune::tune
