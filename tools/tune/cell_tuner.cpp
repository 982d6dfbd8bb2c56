#include "cell_tuner.h"
#include <algorithm>
#include <cmath>
#include <ctime>
#include <set>

namespace attune::tune {
namespace {

using Clock = std::chrono::steady_clock;

double left(Deadline deadline) { return std::chrono::duration<double>(deadline - Clock::now()).count(); }

std::string utc_now() {
    const std::time_t now = std::time(nullptr);
    char text[32];
    std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
    return text;
}

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
        while (left(deadline_) > seconds_of_decision()) {
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
        key.shape = shape.label(), key.baseline = text_of(result_.baseline), key.cold = s_.limits.cold;
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
        for (const WeightedShape &shape : s_.cell.shapes) {
            const Verdict verdict = s_.workers.check(baseline_, shape.shape, s_.limits.check_seconds);
            if (!verdict.right) {
                result_.failure = "the numbers in use, " + text_of(result_.baseline) + ", are wrong: " + verdict.reason;
                return false;
            }
        }
        const auto start = Clock::now();
        const Times alone = s_.workers.time({baseline_}, s_.cell.shapes.front().shape, job(1));
        if (!alone.failure.empty()) {
            result_.failure = "the numbers in use cannot be timed: " + alone.failure;
            return false;
        }
        process_seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
        call_seconds_ = *std::min_element(alone.seconds[0].begin(), alone.seconds[0].end());
        result_.baseline_seconds = result_.chosen_seconds = call_seconds_;
        by_code_[baseline_.code] = 1.0;
        return true;
    }

    TimeJob job(std::uint64_t seed) const { return {s_.limits.rounds, s_.limits.sample_seconds, s_.limits.cold, seed, 300}; }

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
        for (const Candidate &candidate :
             s_.maker.make(unknown, s_.limits.jobs, std::max(1.0, std::min(s_.limits.compile_seconds, left(deadline_)))))
            try_one(candidate);
    }

    // From the records of an earlier run, if they hold all that measuring would give.
    bool recall(const Numbers &numbers) {
        Trial trial{numbers, "timed", "", 0, 0, 0, true};
        double log_sum = 0, weights = 0;
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
            log_sum += shape.weight * std::log(median(found->ratios)), weights += shape.weight;
            if (trial.seconds == 0) trial.seconds = found->seconds;
            trial.error_ratio = std::max(trial.error_ratio, found->error_ratio);
            code = found->object;
        }
        codes_[numbers] = code;
        finish(trial, trial.verdict == "timed" ? Outcome(std::exp(log_sum / weights)) : Outcome(), code);
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
        double log_sum = 0, weights = 0;
        for (const WeightedShape &shape : s_.cell.shapes) {
            if (left(deadline_) <= 0) return;
            tell_progress("checking " + text_of(candidate.numbers));
            const Verdict verdict = s_.workers.check(candidate, shape.shape, s_.limits.check_seconds);
            trial.error_ratio = std::max(trial.error_ratio, verdict.error_ratio);
            Times times;
            if (verdict.right) times = quiet_times(candidate, shape.shape);
            if (!verdict.right || !times.failure.empty()) {
                trial.verdict = "rejected", trial.reason = verdict.right ? times.failure : verdict.reason;
                write(trial, candidate, shape.shape, {}, times.foreign_load);
                return finish(trial, {}, candidate.code);
            }
            std::vector<double> ratios;
            for (std::size_t n = 0; n < times.seconds[1].size(); n++)
                ratios.push_back(times.seconds[1][n] / times.seconds[0][n]);
            trial.verdict = "timed";
            const double best = *std::min_element(times.seconds[1].begin(), times.seconds[1].end());
            if (trial.seconds == 0) trial.seconds = best;
            Trial of_shape = trial;
            of_shape.seconds = best;
            write(of_shape, candidate, shape.shape, ratios, times.foreign_load);
            log_sum += shape.weight * std::log(median(ratios)), weights += shape.weight;
        }
        finish(trial, std::exp(log_sum / weights), candidate.code);
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
                       candidate.code, foreign_load, utc_now()});
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

std::vector<Finalist> decide(const Setting &setting, const Candidate &baseline, const std::vector<Candidate> &others,
                             Deadline deadline, CellResult &result) {
    std::vector<Finalist> finalists;
    for (const Candidate &candidate : others) finalists.push_back({candidate.numbers, {}, 0});
    if (others.empty()) return finalists;
    std::vector<Candidate> all = {baseline};
    all.insert(all.end(), others.begin(), others.end());
    std::vector<std::vector<std::vector<double>>> ratios(others.size());  // [finalist][process]: one, over all shapes
    const Limits &limits = setting.limits;
    for (int process = 0; process < limits.most_processes; process++) {
        const bool open = std::any_of(finalists.begin(), finalists.end(), [](const Finalist &f) { return undecided(f.gain); });
        if (process >= limits.processes && (!open || left(deadline) <= 0)) break;
        if (setting.progress) setting.progress(result, "decision, process " + std::to_string(process + 1));
        std::vector<double> log_sum(others.size());
        double weights = 0;
        bool complete = true;
        for (const WeightedShape &shape : setting.cell.shapes) {
            const Times times = setting.workers.time(all, shape.shape,
                                                     {limits.rounds_of_process, limits.sample_seconds, limits.cold,
                                                      setting.seed * 1000 + static_cast<std::uint64_t>(process), 600});
            complete = complete && times.failure.empty();
            if (!complete) break;
            result.loudest = std::max(result.loudest, times.foreign_load);
            weights += shape.weight;
            for (std::size_t n = 0; n < others.size(); n++) {
                std::vector<double> logs;
                for (std::size_t round = 0; round < times.seconds[0].size(); round++)
                    logs.push_back(std::log(times.seconds[n + 1][round] / times.seconds[0][round]));
                log_sum[n] += shape.weight * median(logs);
            }
        }
        for (std::size_t n = 0; complete && n < others.size(); n++) {
            ratios[n].push_back({std::exp(log_sum[n] / weights)});
            finalists[n].gain = gain_of(ratios[n]);
        }
    }
    return finalists;
}

const Finalist *winner(const std::vector<Finalist> &finalists) {
    const Finalist *best = nullptr;
    for (const Finalist &f : finalists)
        if (replaces(f.gain) && (!best || f.gain.value > best->gain.value)) best = &f;
    if (!best) return nullptr;
    const double quickest = best->gain.value;
    for (const Finalist &f : finalists)
        if (replaces(f.gain) && f.gain.value * 1.01 > quickest && f.error_ratio < best->error_ratio) best = &f;
    return best;
}

}  // namespace attune::tune
