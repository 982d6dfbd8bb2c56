// SPDX-License-Identifier: MIT
// The next token from its logits: the likeliest one, or one drawn from the likeliest (top-p, Holtzman et al., 2020).
#pragma once
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace language_model {

struct Sampling {
    double temperature = 0;  // 0: the likeliest token, the first of equals
    double top_p = 1;        // draws from the fewest tokens whose probabilities sum to this or more
    std::uint64_t seed = 0;
};

class Sampler {
public:
    explicit Sampler(const Sampling &sampling) : sampling_(sampling), random_(sampling.seed) {}
    std::int32_t next(std::span<const float> logits);

private:
    Sampling sampling_;
    std::mt19937_64 random_;
    std::vector<std::pair<float, std::int32_t>> candidates_;  // logit and token
};

}  // namespace language_model
