// SPDX-License-Identifier: MIT
#include "sampler.h"
#include <algorithm>
#include <cmath>

namespace language_model {

std::int32_t Sampler::next(std::span<const float> logits) {
    const auto likeliest = std::max_element(logits.begin(), logits.end());
    if (sampling_.temperature <= 0) return std::int32_t(likeliest - logits.begin());

    // Tokens whose probability is below exp(-20) of the largest are never drawn: all 49152 of them weigh 1e-4 at most.
    const double t = sampling_.temperature, largest = *likeliest;
    candidates_.clear();
    double total = 0;
    for (std::size_t n = 0; n < logits.size(); n++)
        if ((logits[n] - largest) / t > -20) {
            candidates_.push_back({logits[n], std::int32_t(n)});
            total += std::exp((logits[n] - largest) / t);
        }
    std::sort(candidates_.begin(), candidates_.end(),
              [](const auto &a, const auto &b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
    double kept = 0;
    std::size_t count = 0;
    while (count < candidates_.size() && (count == 0 || kept < sampling_.top_p * total))
        kept += std::exp((candidates_[count++].first - largest) / t);

    double left = double(random_() >> 11) * 0x1p-53 * kept;
    for (std::size_t n = 0; n < count; n++) {
        left -= std::exp((candidates_[n].first - largest) / t);
        if (left < 0) return candidates_[n].second;
    }
    return candidates_[count - 1].second;
}

}  // namespace language_model
