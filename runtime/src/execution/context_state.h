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
    // The device's memory is taken by lines, at whose multiples blocks begin.
    static constexpr std::size_t device_line = 256;
    // Scratch of the calls on a device: bytes in use, and the most of a call. While one rehearses, no kernel is queued, so that
    // a workspace that does not suffice is known before anything is written (op_call.h).
    struct DeviceScratch {
        std::size_t used = 0, most = 0;
        bool rehearses = false;
    } device_scratch;
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
