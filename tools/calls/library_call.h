// SPDX-License-Identifier: MIT
// Arrays as arguments of the library: views, options that every op has, and errors in the words of the command line.
#pragma once
#include "tools/commands/commands.h"
#include "tools/files/npy.h"
#include <attune/attune.h>

namespace attune::program {

// A view whose extents before the last `kept` are one, where there are several: the library takes at most four.
ConstView view_of(const Array &, int kept = max_rank - 1);
View output_view(Array &, int kept = max_rank - 1);
// A view of an array that starts with the `leading` extents that became the batch.
ConstView per_batch_view(const Array &, int leading);

// Checks that another array has the leading extents of the first, where there are more extents than the library takes.
void check_leading(const char *argument, const Array &, const Shape &leading, const char *first);

ContextOptions context_options(const CallArguments &);
std::string_view variant_of(const CallArguments &);  // must outlive the result
Dropout dropout_of(const DropoutArguments &);
MaskFill fill_of(const Given &);

// Numbers of the command line.
double number_of(const char *argument, const std::string &text);
std::int64_t whole_number_of(const char *argument, const std::string &text);

// Throws an error for a status of the library that is not ok.
void check(const Status &);

}  // namespace attune::program
