// SPDX-License-Identifier: MIT
// Whether a candidate is right, before any of its timings counts: its outputs by the rule of the tests at awkward calls and at
// the tuning shape, its memory, its inputs, and the same bits from every call.
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
    std::vector<bench::Shape> shapes;  // for which it is tuned
    UserAttention user = {};           // whose module has been loaded
    bool awkward = true;               // calls besides those shapes, too
    int threads = 0;                   // beside 1; 0: all cores
    unsigned seed = 1;
    std::string expected = {};  // folder where what is right at the tuning shapes is kept between processes; empty: nowhere
};

struct Judgement {
    bool right = false;
    std::string reason;      // call, output, element, figures; empty if right
    double error_ratio = 0;  // error over what the rule allows, the largest of all checks
};

// Tells what is checked before each check, so that one in which the process dies is known.
using Say = std::function<void(const std::string &)>;

Judgement judge_candidate(const GateJob &, const Say &);

// One of them.
Judgement run_check(const PlannedCheck &, const std::string &variant, int threads);
// A tuning shape.
PlannedCheck shape_check(const std::string &op, const bench::Shape &, const UserAttention &, std::int64_t tile,
                         const std::string &expected);
// Awkward calls of a user's attention, within those shapes.
std::vector<PlannedCheck> user_checks(const attune::VariantInfo &, const std::vector<bench::Shape> &, const UserAttention &);

}  // namespace attune::tune
