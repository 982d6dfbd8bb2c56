// SPDX-License-Identifier: MIT
#include "finalists.h"
#include <algorithm>

namespace attune::tune {

std::vector<Finalist> decide(const Setting &setting, const Candidate &baseline, const std::vector<Candidate> &others,
                             Deadline deadline, CellResult &result) {
    std::vector<Finalist> finalists;
    for (const Candidate &candidate : others) finalists.push_back({candidate.parameters, {}, 0});
    if (others.empty()) return finalists;
    std::vector<Candidate> all = {baseline};
    all.insert(all.end(), others.begin(), others.end());
    std::vector<std::vector<std::vector<double>>> ratios(others.size());  // [finalist][process]: one ratio over all shapes
    const Limits &limits = setting.limits;
    int decided = 0;      // processes
    std::string failure;  // of a process that failed
    for (int process = 0; process < limits.most_processes; process++) {
        const bool open = std::any_of(finalists.begin(), finalists.end(), [](const Finalist &f) { return undecided(f.gain); });
        if ((decided >= limits.processes && !open) || (process > 0 && seconds_left(deadline) <= 0)) break;
        if (setting.progress) setting.progress(result, "decision, process " + std::to_string(process + 1));
        std::vector<MeanRatio> means(others.size());
        bool complete = true;
        for (const WeightedShape &shape : setting.shapes) {
            const Times times = setting.workers.time(all, shape.shape,
                                                     {.rounds = limits.rounds_of_process,
                                                      .sample_seconds = limits.sample_seconds,
                                                      .cold = limits.cold,
                                                      .seed = setting.seed * 1000 + static_cast<std::uint64_t>(process),
                                                      .limit = seconds_until(deadline, 600)});
            complete = complete && times.failure.empty();
            if (!complete) failure = times.failure;
            if (!complete) break;
            result.loudest = std::max(result.loudest, times.foreign_load);
            for (std::size_t n = 0; n < others.size(); n++) means[n].add(median(times.ratios(n + 1)), shape.weight);
        }
        for (std::size_t n = 0; complete && n < others.size(); n++) {
            ratios[n].push_back({means[n].value()});
            finalists[n].gain = gain_of(ratios[n]);
        }
        decided += complete;
    }
    // With fewer processes the interval is that of their noise.
    if (decided < limits.processes) {
        result.not_tried = "undecided after " + std::to_string(decided) + " of " + std::to_string(limits.processes) +
                           " processes: " + (failure.empty() || seconds_left(deadline) <= 0 ? "the time was up" : failure);
        for (Finalist &f : finalists) f.gain.low = 0;
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
