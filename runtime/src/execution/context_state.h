// SPDX-License-Identifier: MIT
// The state of a Context.
#pragma once
#include "attune/context.h"
#include "attune/detail/registration.h"
#include "execution/scratch.h"
#include <memory>
#include <optional>
#include <string_view>

namespace attune {

class ShapeRecord;

struct Context::State {
    int threads = 1;
    const detail::VariantRecord *forced_variant = nullptr;  // ATTUNE_FORCE_VARIANT
    DeviceOptions device;
    bool verbose = false;                 // ATTUNE_VERBOSE
    std::unique_ptr<ShapeRecord> shapes;  // ATTUNE_RECORD_SHAPES; none without it
    std::string last_variant;
    std::string_view last_name;  // the same name, in the list of variants
    void ran(std::string_view name) {
        last_variant = name;  // allocates nothing for a name that it has held
        last_name = name;
    }
    State();
    ~State();
    std::optional<Scratch> scratch;  // none only if the Context's status is not ok
};

// The state of a Context whose status is ok.
inline Context::State &state_of(const Context &context) noexcept { return *context.state_; }

}  // namespace attune
