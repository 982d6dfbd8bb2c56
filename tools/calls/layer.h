// SPDX-License-Identifier: MIT
// The heads, weights and biases of the multi-head layer, from their files.
#pragma once
#include "tools/calls/library_call.h"
#include "tools/files/command_files.h"

namespace attune::program {

struct Layer {
    // Names the files, which the command loads with its own.
    Layer(const MultiHeadArguments &, CommandFiles &);
    // After load(), as the library says it, but before results of that many heads are asked for.
    void check_heads() const;
    MultiHeadWeights weights() const;

    MultiHeadOptions options;  // but for the attention's
    Array w_query, w_key, w_value, w_out, b_query, b_key, b_value, b_out;
};

}  // namespace attune::program
