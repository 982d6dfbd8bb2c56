// SPDX-License-Identifier: MIT
// Heads, weights and biases of the multi-head layer, from their files.
#pragma once
#include "tools/calls/library_call.h"
#include "tools/files/command_files.h"

namespace attune::program {

struct Layer {
    // Names the files, which the command loads with its own files.
    Layer(const MultiHeadArguments &, CommandFiles &);
    // Checks the heads in the library's words, after load() and before results of that many heads are allocated.
    void check_heads() const;
    MultiHeadWeights weights() const;

    MultiHeadOptions options;  // without the attention's
    Array w_query, w_key, w_value, w_out, b_query, b_key, b_value, b_out;
};

}  // namespace attune::program
