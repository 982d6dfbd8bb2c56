// What a user's attention captures, from files and numbers, as its calls take it.
#pragma once
#include "attune/attention_library.h"
#include "tools/npy.h"
#include "user_case.h"
#include <optional>
#include <vector>

namespace attune::tune {

// Captures of the type of the scores are rounded to f32 first, so that f64 computes with the same values.
class CaptureSet {
public:
    // Throws InputError "--capture NAME: ..." for what is not as the attention has it.
    CaptureSet(const AttentionRecord &, const Captures &);

    // For tensors of a type.
    std::vector<CaptureArgument> arguments(DType) const;
    std::vector<bench::Region> regions() const;

private:
    struct Capture {
        std::string name;
        std::optional<double> number;
        program::Array array, of_f64;  // of_f64: where it is of the type of the scores
    };
    std::vector<Capture> all_;
};

}  // namespace attune::tune
