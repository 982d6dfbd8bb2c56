// SPDX-License-Identifier: MIT
// Checks of the gate: calls of an op, each with its own arrays and the definition of its result.
#pragma once
#include "attune/context.h"
#include "attune/variants.h"
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attune::tune {

struct NamedBytes {
    std::string name;
    std::span<const std::byte> bytes;
};

class Check {
public:
    virtual ~Check() = default;
    virtual attune::Status run(attune::Context &, std::string_view variant) = 0;
    virtual void forget_outputs() = 0;  // sets them to NaN
    virtual std::vector<NamedBytes> inputs() = 0;
    virtual std::vector<NamedBytes> outputs() = 0;
    // Fault of the outputs, empty if there is none. `error_ratio` becomes the largest error over the rule's bound.
    virtual std::string defect(double &error_ratio) = 0;
};

struct PlannedCheck {
    std::string text;
    std::function<std::unique_ptr<Check>()> make;  // the same arrays each time
};

// Checks at calls that are awkward for a variant, from its own parameters, of its kind and with each option that it knows.
// Empty for an op without checks.
std::vector<PlannedCheck> awkward_checks(const attune::VariantInfo &, unsigned seed);
// Families of awkward checks, by op.
std::vector<PlannedCheck> attention_checks(const attune::VariantInfo &, unsigned seed);
std::vector<PlannedCheck> gradient_checks(const attune::VariantInfo &, unsigned seed);
std::vector<PlannedCheck> additive_checks(const attune::VariantInfo &, unsigned seed);
std::vector<PlannedCheck> additive_gradient_checks(const attune::VariantInfo &, unsigned seed);
std::vector<PlannedCheck> layer_checks(const attune::VariantInfo &, unsigned seed);

}  // namespace attune::tune
