// SPDX-License-Identifier: MIT
// A candidate: one of many compiled forms of a variant, in a shared object of its own.
#pragma once
#include <string>

namespace attune::tune {

struct LoadableCandidate {
    std::string id;                     // of the tuner
    std::string object;                 // the file
    std::string symbol;                 // of it <symbol>_argv is called
    std::string parameters;             // "kv_block=64 tile_q=64"
    std::string schedule, shape_class;  // where they are not those of the variant
};

// What the candidates of a job have in common: the variant that they are forms of, as in VariantInfo.
struct CandidateVariant {
    std::string name, op, dtype, target, schedule, shape_class, kind;
    int head_dim = 0;
};

// Loads the candidate and registers it as the variant "<name>@<id>", which runs only where it is forced: that name. Throws
// MachineError where the file cannot be loaded or lacks its symbol, InputError for a type that does not exist.
std::string load_candidate(const CandidateVariant &, const LoadableCandidate &);

}  // namespace attune::tune
