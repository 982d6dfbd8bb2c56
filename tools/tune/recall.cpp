// SPDX-License-Identifier: MIT
#include "recall.h"
#include <bit>

namespace attune::tune {
namespace {

// A rejection by earlier versions that was also given on a busy machine: it is ignored.
constexpr const char *withdrawn_reason = "quicker than this machine can compute it";

int log2_of(std::int64_t n) { return n < 1 ? 0 : std::bit_width(static_cast<std::uint64_t>(n)) - 1; }

std::string mask_of(const bench::Shape &s) {
    std::string mask = s.causal ? "causal" : "none";
    if (s.window.left >= 0 || s.window.right >= 0) mask = "window";
    if (!s.lengths.empty()) mask += "+lengths";
    if (s.options.mask) mask += "+boolean";
    return mask;
}

}  // namespace

RecordKey key_of(const Setting &setting, const Parameters &baseline, const bench::Shape &shape) {
    RecordKey key = setting.key;
    key.mask = mask_of(shape), key.group = std::to_string(shape.h / shape.kv);
    key.log2_queries = log2_of(shape.q), key.log2_keys = log2_of(shape.k);
    key.shape = shape.label() + (setting.captures.empty() ? "" : "/captures:" + setting.captures);
    key.baseline = text_of(baseline), key.cold = setting.limits.cold;
    return key;
}

std::optional<Recalled> recall(const Setting &setting, const Parameters &baseline, const Parameters &parameters) {
    Recalled recalled{{parameters, "timed", "", 0, 0, 0, true}, 0, ""};
    Trial &trial = recalled.trial;
    MeanRatio mean;
    for (const WeightedShape &shape : setting.shapes) {
        const RecordKey key = key_of(setting, baseline, shape.shape);
        const Record *found = nullptr;
        for (const Record &record : setting.known)
            if (record.parameters == parameters && record.key == key && !record.reason.starts_with(withdrawn_reason))
                found = &record;
        if (!found) return {};
        if (found->verdict != "timed") {
            trial.verdict = found->verdict, trial.reason = found->reason;
            return Recalled{trial, 0, recalled.code};
        }
        mean.add(median(found->ratios), shape.weight);
        if (trial.seconds == 0) trial.seconds = found->seconds;
        trial.error_ratio = std::max(trial.error_ratio, found->error_ratio);
        recalled.code = found->object;
    }
    recalled.ratio = mean.value();
    return recalled;
}

}  // namespace attune::tune
