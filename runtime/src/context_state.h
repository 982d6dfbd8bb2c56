// What a Context holds.
#pragma once
#include "attune/context.h"
#include "scratch.h"
#include <optional>

namespace attune {

struct VariantRecord;

struct Context::State {
    Status status;
    int threads = 1;
    const VariantRecord *forced_variant = nullptr;  // ATTUNE_FORCE_VARIANT
    DeviceOptions device;
    bool verbose = false;                           // ATTUNE_VERBOSE
    std::string last_variant;
    std::optional<Scratch> scratch;  // none only if status is not ok
};

}  // namespace attune
