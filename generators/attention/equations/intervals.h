// SPDX-License-Identifier: MIT
// The structural masks (valid lengths, causal, sliding window) are one interval of keys for each query: query i sees the keys
// from i + band begin to below min(its length, i + band end).
#pragma once
#include "Halide.h"

namespace attune {

// Of keys, or of queries or blocks of them.
struct Span {
    Halide::Expr begin, end;
};
struct Band {
    Halide::Expr begin, end;
};

// Of one query.
inline Span seen_by(const Halide::Expr &query, const Halide::Expr &length, const Band &band) {
    return {Halide::max(0, query + band.begin), Halide::min(length, query + band.end)};
}
// Of queries from first to last. The interval moves up with its query, so the ends are extreme at these two: the keys that
// some of them see, and those that all of them see. longest, shortest: of their lengths.
inline Span seen_by_some(const Halide::Expr &first, const Halide::Expr &last, const Halide::Expr &longest, const Band &band) {
    return {Halide::max(0, first + band.begin), Halide::min(longest, last + band.end)};
}
inline Span seen_by_all(const Halide::Expr &first, const Halide::Expr &last, const Halide::Expr &shortest, const Band &band) {
    return {Halide::max(0, last + band.begin), Halide::min(shortest, first + band.end)};
}

}  // namespace attune
