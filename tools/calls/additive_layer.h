// SPDX-License-Identifier: MIT
// Weights and biases of additive attention, from their files.
#pragma once
#include "tools/calls/library_call.h"
#include "tools/files/command_files.h"

namespace attune::program {

struct AdditiveLayer {
    // Names the files, which the command loads with its own files.
    AdditiveLayer(const AdditiveArguments &, CommandFiles &);
    // The options without the attention's; after load().
    AdditiveOptions options() const;

    Array w_query, w_key, b_query, b_key, w_score;

private:
    double b_score_ = 0;
    Array b_score_file_;
};

}  // namespace attune::program
