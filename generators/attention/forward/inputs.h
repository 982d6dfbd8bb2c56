// SPDX-License-Identifier: MIT
// Inputs of an attention, and facts known beforehand about a tile of queries.
#pragma once
#include "generators/attention/equations/dropout.h"

namespace attune {

// Inputs. The keys that query i of batch entry b may see are [max(0, i + band_begin(b)), min(lengths(i, b), i + band_end(b))):
// one interval for valid lengths, causal and window masks alike. shortest and longest are the extremes of lengths over the
// queries of a tile: inputs and not a stage, because Halide lifts a condition that names no variable of a loop out of that loop
// only if it calls no Func; so a KV block is skipped before anything in it is computed.
struct SdpaInputs {
    Halide::Func query, key, value;              // (d, s, h, b)
    Halide::Func key_scale, value_scale;         // (s, h, b), float, with keys and values of int8; not defined: of numbers
    Halide::Func band_begin, band_end, lengths;  // (b), (b), (i, b), int32
    Halide::Func shortest, longest;              // (t, b), int32
    Halide::Func blocks;                  // (c, t, h, b), BlockSpan::packed() of the steps in_blocks, where there are any
    Halide::Func offset;                  // (b), int32: the position of query 0 among the keys
    Halide::Func finite_values;           // (b), int32: not 0 where no value is Inf or NaN; not defined: not known
    Halide::Expr scale;                   // double
    Halide::Expr queries, keys;           // extents of s
    Halide::Expr query_heads, key_heads;  // extents of h
    Halide::Expr head_dim, value_dim;     // extents of d: constants where the kernel is specialised
    Halide::Func sinks;                   // (h), float; not defined: the kernel knows none
    Halide::Expr has_sinks;
    Dropout dropout;
};

}  // namespace attune
