// SPDX-License-Identifier: MIT
// The gate: whether a candidate is right, before any of its timings counts: outputs by the rule of the tests at awkward calls
// and at the tuning shape, its memory, its inputs, and the same bits from every call.
#pragma once
#include "bench/cases/shapes.h"
#include "checks.h"
#include "user_case.h"
#include <functional>
#include <string>
#include <vector>

namespace attune::tune {

struct GateJob {
    std::string variant;               // a variant that is linked in or registered
    std::vector<bench::Shape> shapes;  // tuning shapes
    UserAttention user = {};           // its module has been loaded
    bool awkward = true;               // awkward calls, too
    int threads = 0;                   // threads of a second run, beside one thread; 0: all cores
    unsigned seed = 1;
    std::string expected = {};  // folder of references for the tuning shapes, kept between processes; empty: none
};

struct Judgement {
    bool right = false;
    std::string reason;      // call, output, element, figures; empty if right
    double error_ratio = 0;  // error over the rule's bound, the largest of all checks
};

// Announces each check before it runs, so that the check in which the process dies is known.
using Say = std::function<void(const std::string &)>;

Judgement judge_candidate(const GateJob &, const Say &);

// Runs one check.
Judgement run_check(const PlannedCheck &, const std::string &variant, int threads);
// The check of a tuning shape.
PlannedCheck shape_check(const std::string &op, const bench::Shape &, const UserAttention &, std::int64_t tile,
                         const std::string &expected);
// Checks of a user's attention at awkward calls within those shapes.
std::vector<PlannedCheck> user_checks(const attune::VariantInfo &, const std::vector<bench::Shape> &, const UserAttention &);

}  // namespace attune::tune
