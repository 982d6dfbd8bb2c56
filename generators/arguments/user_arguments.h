// SPDX-License-Identifier: MIT
// Arguments that a user's attention adds to a kernel's; programs without such an attention have none.
#pragma once
#include "generators/arguments/kernel_arguments.h"
#include <functional>

namespace attune {

struct UserArguments {
    bool has_mask;
    std::vector<KernelArgument> captures;  // in their order
};

// Empty without a user's attention. A function-local object, because static objects set it.
inline std::function<UserArguments()> &user_arguments() {
    static std::function<UserArguments()> make;
    return make;
}

}  // namespace attune
