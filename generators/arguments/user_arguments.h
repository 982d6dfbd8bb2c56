// SPDX-License-Identifier: MIT
// Arguments that a user's attention adds to a kernel's; programs without such an attention have none.
#pragma once
#include "generators/arguments/kernel_arguments.h"
#include <functional>

namespace attune {

// Where the pairs of a kernel's call lie in the call whose indices the user's functions see: the first of each index, and the
// extents of that call.
inline constexpr const char *origin_arguments[] = {"origin_entry", "origin_head", "origin_key_head", "origin_query",
                                                   "origin_key",   "all_heads",   "all_queries",     "all_keys"};

struct UserArguments {
    bool has_mask;
    std::vector<KernelArgument> list;  // origin_arguments, then captures in their order
};

// Empty without a user's attention. A function-local object, because static objects set it.
inline std::function<UserArguments()> &user_arguments() {
    static std::function<UserArguments()> make;
    return make;
}

}  // namespace attune
