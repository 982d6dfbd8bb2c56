// SPDX-License-Identifier: MIT
// Structural masks (valid lengths, causal, sliding window) as one interval of keys for each query: query i sees the keys from i
// + band begin to below min(its length, i + band end).
#pragma once
#include "Halide.h"

namespace attune {

// Range of keys, of queries, or of blocks of either.
struct Span {
    Halide::Expr begin, end;
};
struct Band {
    Halide::Expr begin, end;
};

// Keys that one query sees.
inline Span seen_by(const Halide::Expr &query, const Halide::Expr &length, const Band &band) {
    return {Halide::max(0, query + band.begin), Halide::min(length, query + band.end)};
}
// Keys that some, and that all, of the queries first to last see. The interval moves up with its query, so its ends are extreme
// at these two queries. longest and shortest are the extremes of the queries' lengths.
inline Span seen_by_some(const Halide::Expr &first, const Halide::Expr &last, const Halide::Expr &longest, const Band &band) {
    return {Halide::max(0, first + band.begin), Halide::min(longest, last + band.end)};
}
inline Span seen_by_all(const Halide::Expr &first, const Halide::Expr &last, const Halide::Expr &shortest, const Band &band) {
    return {Halide::max(0, last + band.begin), Halide::min(shortest, first + band.end)};
}

}  // namespace attune
