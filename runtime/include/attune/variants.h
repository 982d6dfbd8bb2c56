// SPDX-License-Identifier: MIT
// The variants that are linked in: each is one algorithm, schedule, set of parameters and target.
#pragma once
#include "attune/tensor.h"
#include <string>
#include <string_view>
#include <vector>

namespace attune {

// A variant. Names and texts are those of the archive or shared object that holds the kernel: they live until it is unloaded,
// and so outlive any Context and list.
struct VariantInfo {
    std::string_view name;  // <op>_<dtype>[_d<head size>]_<target>_<schedule>[_<class>][_<kind>]
    std::string_view op;    // "sdpa", "additive", "linear"...
    DType dtype;
    int head_dim;               // 0: any sizes of query, key and value
    std::string_view target;    // a key of schedules/targets.json
    std::string_view schedule;  // "root", "prefill", "decode"
    // For attention: "plain" knows structural masks only, "scored" also softcap, bias, ALiBi, boolean mask and sinks,
    // "training" also dropout, and "weights" writes the weights or scores. Empty for other ops.
    std::string_view kind;
    // "keys2048", "long", "tables", "tile64", "tile32", "medium", "short", "rows1" (one row per key head), "rows4", ""
    std::string_view shape_class;
    std::string_view parameters;  // "kv_block=128 tile_q=64 ..."
    std::string_view provenance;  // where the parameters come from: file, hardware, date
    bool dispatched;              // false: runs only where it is forced
    bool runs_here;               // for tensors in host memory
    std::string why_not;          // what this machine lacks, empty if it runs here
    bool cost_measured;           // dispatch predicts its times by coefficients that were measured on this target
};

// All variants, those for the CPU's most specific target first, those for devices last.
ATTUNE_API std::vector<VariantInfo> variants();

// A target of schedules/targets.json. targets() lists the most specific first, with what this machine lacks (empty: nothing).
// Names live as long as the library is loaded.
struct TargetInfo {
    std::string_view name;
    std::string missing;
};
ATTUNE_API std::vector<TargetInfo> targets();

// One line that says which variants for this CPU are not linked in: kernels for its own target, or any tuned ones, without
// which every call takes the slow root schedule on one thread. Empty if none is missing.
ATTUNE_API std::string missing_variants();

}  // namespace attune
