// SPDX-License-Identifier: MIT
// attune explain: what dispatch would choose for a shape, and the predicted times of all candidates.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace attune::dispatch {

struct ExplainArguments {
    std::string op;
    std::vector<std::string> sizes;  // "q=1" "k=4096" ..., columns of bench/shapes
    bool measure = false;            // time the candidates, too
    bool device = false;             // tensors on a device
    int threads = 0;
};

std::string explain(const ExplainArguments &);

}  // namespace attune::dispatch
