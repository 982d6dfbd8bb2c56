// What a Context holds.
#pragma once
#include "attune/context.h"
#include "scratch.h"
#include <memory>
#include <optional>

namespace attune {

struct VariantRecord;
class ShapeRecord;

struct Context::State {
    int threads = 1;
    const VariantRecord *forced_variant = nullptr;  // ATTUNE_FORCE_VARIANT
    DeviceOptions device;
    bool verbose = false;                           // ATTUNE_VERBOSE
    std::unique_ptr<ShapeRecord> shapes;            // ATTUNE_RECORD_SHAPES; none without it
    std::string last_variant;
    State();
    ~State();
    std::optional<Scratch> scratch;  // none only if the Context's status is not ok
};

}  // namespace attune
