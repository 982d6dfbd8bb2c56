// The shapes that are timed, read from shapes/*.csv, and what each of them costs at least.
#pragma once
#include "attune/sdpa.h"
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bench {

struct Shape {
    std::string set, name;  // file and row: "llm_prefill", "1024x64"
    attune::DType dtype = attune::DType::f32;
    std::int64_t b = 1, h = 1, kv = 1, q = 1, k = 1, d = 1, dv = 1;
    bool causal = false;  // bottom right
    attune::Window window;
    std::vector<std::int32_t> lengths;  // of each batch entry; empty: all keys
    bool quick = false;

    // Keys [first, second) that query i of batch entry e keeps.
    std::pair<std::int64_t, std::int64_t> keys_of(std::int64_t e, std::int64_t i) const;
    // (query, key) pairs that the masks keep, over batch and heads; and the FLOPs of both products over them.
    double pairs() const;
    double flops() const { return 2.0 * static_cast<double>(d + dv) * pairs(); }
    // FLOPs if nothing is skipped, as root does it.
    double flops_unmasked() const { return 2.0 * static_cast<double>((d + dv) * b * h * q) * static_cast<double>(k); }
    // Q and O once, K and V once where any query keeps them.
    double bytes() const;
    // One query over keys and values that no core's own cache holds: bound by reading them.
    bool decode() const { return q == 1 && kv * k * (d + dv) * attune::size_of(dtype) >= (1 << 20); }
    // "b:1/h:8/kv:8/q:1024/k:1024/d:64/causal:0", then dv, window and len where given.
    std::string label() const;
};

// Rows of every *.csv of the folder whose "<set>/<name>" or "<set>" matches the glob, in order of the files' names and rows.
// On a bad file the answer is empty and `error` says where.
std::vector<Shape> read_shapes(const std::string &folder, const std::string &glob, std::string &error);

}  // namespace bench
