// SPDX-License-Identifier: MIT
// Gradients that a command of `attune run` computes.
#pragma once
#include "tools/calls/attention.h"
#include <attune/sdpa_backward.h>
#include <initializer_list>

namespace attune::program {

// An output with the shape and type of its input; no data: not asked for.
struct Gradient {
    const char *argument;
    const Given &file;
    Array array = {};

    // Makes the view. `of`: the option of the input, which must be there; `kept`: see view_of().
    View make(const char *of, bool there, ElementType, const Shape &, int kept);
};

// Names the output files; throws if there are none.
void name_outputs(CommandFiles &, std::initializer_list<Gradient *>);
void write_all(CommandFiles &, std::initializer_list<Gradient *>);

// Makes the outputs for gradients of options that every attention has, after Attention::add_arrays().
void make_option_gradients(const Attention &, std::int64_t heads, ElementType, Gradient &bias, Gradient &slopes,
                           Gradient &sinks, SdpaGradients &);

}  // namespace attune::program
