// SPDX-License-Identifier: MIT
// A candidate: one of many compiled forms of a variant, in a shared object of its own.
#pragma once
#include <string>

namespace attune::tune {

struct LoadableCandidate {
    std::string id;                     // the tuner's name
    std::string object;                 // the shared object's file
    std::string symbol;                 // <symbol>_argv is the kernel
    std::string parameters;             // "kv_block=64 tile_q=64"
    std::string schedule, shape_class;  // where they differ from the variant's
};

// The variant that the candidates of a job are forms of, as in VariantInfo.
struct CandidateVariant {
    std::string name, op, dtype, target, schedule, shape_class, kind;
    int head_dim = 0;
};

// Loads the candidate and registers it as the variant "<name>@<id>", which runs only where it is forced; returns that name.
// Throws MachineError where the file cannot be loaded or lacks its symbol, InputError for a type that does not exist.
std::string load_candidate(const CandidateVariant &, const LoadableCandidate &);

}  // namespace attune::tune
