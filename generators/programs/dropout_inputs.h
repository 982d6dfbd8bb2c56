// SPDX-License-Identifier: MIT
// Dropout's inputs of a kernel of kind training, by the names of its argument list (generators/arguments).
#pragma once
#include "generators/attention/equations/dropout.h"
#include <array>

namespace attune {

// Inputs of type uint32, in the order of Dropout's members; and keep_scale, a `Real`.
template<typename Real> class DropoutInputs {
public:
    // Called in configure(). Without it there is no dropout.
    void add_to(Halide::Internal::GeneratorBase &generator) {
        static constexpr std::array names = {"seed_low",  "seed_high",  "dropout_offset", "first_query",
                                             "first_key", "first_head", "counted_heads",  "threshold"};
        for (std::size_t n = 0; n < names.size(); n++) words_[n] = generator.add_input<uint32_t>(names[n]);
        keep_scale_ = generator.add_input<Real>("keep_scale");
    }
    // Called in generate().
    Dropout dropout() const {
        if (!keep_scale_) return {};
        const auto &w = words_;
        return {*w[0], *w[1], *w[2], *w[3], *w[4], *w[5], *w[6], *w[7], *keep_scale_};
    }

private:
    std::array<Halide::GeneratorInput<uint32_t> *, 8> words_ = {};
    Halide::GeneratorInput<Real> *keep_scale_ = nullptr;
};

}  // namespace attune
