// SPDX-License-Identifier: MIT
// The arguments that a user's attention adds to a kernel's, which programs without one know nothing of.
#pragma once
#include "generators/arguments/kernel_arguments.h"
#include <functional>

namespace attune {

struct UserArguments {
    bool has_mask;
    std::vector<KernelArgument> captures;  // in their order
};

// Empty where there is no user's attention. Static objects set it, so it is none itself.
inline std::function<UserArguments()> &user_arguments() {
    static std::function<UserArguments()> make;
    return make;
}

}  // namespace attune
