// SPDX-License-Identifier: MIT
// Earlier results of a cell, and the key under which they are recorded.
#pragma once
#include "setting.h"
#include <optional>

namespace attune::tune {

// Key of the records of candidates that are timed against the baseline on the shape.
RecordKey key_of(const Setting &, const Parameters &baseline, const bench::Shape &);

struct Recalled {
    Trial trial;
    double ratio = 0;  // time over the baseline's, over all shapes; if timed
    std::string code;  // hash of the machine code
};

// A trial from the records of an earlier run, if they hold all results of measuring it.
std::optional<Recalled> recall(const Setting &, const Parameters &baseline, const Parameters &);

}  // namespace attune::tune
