// SPDX-License-Identifier: MIT
// What earlier runs recorded of a cell, and under which key.
#pragma once
#include "setting.h"
#include <optional>

namespace attune::tune {

// Of candidates that are timed against the baseline on the shape.
RecordKey key_of(const Setting &, const Parameters &baseline, const bench::Shape &);

struct Recalled {
    Trial trial;
    double ratio = 0;  // of its time to the baseline's, over all shapes; where it was timed
    std::string code;  // hash of its machine code
};

// From the records of an earlier run, if they hold all that measuring would give.
std::optional<Recalled> recall(const Setting &, const Parameters &baseline, const Parameters &);

}  // namespace attune::tune
