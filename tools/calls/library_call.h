// SPDX-License-Identifier: MIT
// Between arrays and the library: views, options that every op has, and errors in the words of the command line.
#pragma once
#include "tools/commands/commands.h"
#include "tools/files/npy.h"
#include <attune/attune.h>

namespace attune::program {

// Extents before the last `kept` become one, where there are more than one of them: the library takes at most four.
ConstView view_of(const Array &, int kept = max_rank - 1);
View output_view(Array &, int kept = max_rank - 1);
// Of an array that starts with the `leading` extents that became the batch.
ConstView per_batch_view(const Array &, int leading);

// With more extents than the library takes, the leading ones of another array must be those of the first.
void check_leading(const char *argument, const Array &, const Shape &leading, const char *first);

ContextOptions context_options(const CallArguments &);
std::string_view variant_of(const CallArguments &);  // must outlive the result
Dropout dropout_of(const DropoutArguments &);
MaskFill fill_of(const Given &);

// Numbers of the command line.
double number_of(const char *argument, const std::string &text);
std::int64_t whole_number_of(const char *argument, const std::string &text);

// Throws what the library answers.
void check(const Status &);

}  // namespace attune::program
