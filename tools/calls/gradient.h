// SPDX-License-Identifier: MIT
// The gradients that a command of `attune run` is asked for.
#pragma once
#include "tools/calls/attention.h"
#include <attune/sdpa_backward.h>
#include <initializer_list>

namespace attune::program {

// An output in the shape and type of what it is of; no data: not asked for.
struct Gradient {
    const char *argument;
    const Given &file;
    Array array = {};

    // `of`: the option that makes the input, which must be there; `kept`: see view_of().
    View make(const char *of, bool there, ElementType, const Shape &, int kept);
};

// Throws unless one of them is asked for; else names their files.
void name_outputs(CommandFiles &, std::initializer_list<Gradient *>);
void write_all(CommandFiles &, std::initializer_list<Gradient *>);

// After Attention::add_arrays(): the outputs for gradients by options that every attention has.
void make_option_gradients(const Attention &, std::int64_t heads, ElementType, Gradient &bias, Gradient &slopes,
                           Gradient &sinks, SdpaGradients &);

}  // namespace attune::program
