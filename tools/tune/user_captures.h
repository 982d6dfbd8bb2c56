// SPDX-License-Identifier: MIT
// Captures of a user's attention, from files and numbers, as its calls take them.
#pragma once
#include "attune/detail/user_attention.h"
#include "tools/files/npy.h"
#include "user_case.h"
#include <optional>
#include <string>
#include <vector>

namespace attune::tune {

using detail::AttentionRecord, detail::CaptureArgument, detail::CaptureRecord;

// Values of captures. Those of the type of the scores are rounded to f32 first, so that f64 computes with the same values.
class CaptureSet {
public:
    // Throws InputError "--capture NAME: ..." for a capture that does not match the attention.
    CaptureSet(const AttentionRecord &, const Captures &);

    // Arguments for tensors of a type.
    std::vector<CaptureArgument> arguments(DType) const;
    std::vector<bench::Region> regions() const;

    std::uint64_t hash() const;  // hash of the values

private:
    struct Capture {
        std::string name;
        std::optional<double> number;
        program::Array array, of_f64;  // of_f64: if it has the type of the scores
    };
    std::vector<Capture> all_;
};

// A hash of the values that an attention's calls capture, as text.
std::string captures_key(const std::string &op, const Captures &);

// The captures, with made-up ones for missing ones: numbers are 1, arrays as large as calls of the shapes read, floats from 0.5
// to 1, integers 0, booleans true, in files of the folder. `made_up` names them. Throws InputError where a call would read more
// than 2^28 elements.
Captures complete_captures(const std::string &op, const Captures &given, const std::vector<bench::Shape> &,
                           const std::string &folder, std::vector<std::string> &made_up);

}  // namespace attune::tune
