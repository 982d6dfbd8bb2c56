// SPDX-License-Identifier: MIT
#include "dispatch/cpu_features.h"
#include <cstdio>

int main() {
    for (const char *target : attune::cpu_targets())
        if (attune::missing_for(target).empty()) {
            std::puts(target);
            return 0;
        }
    return 1;
}
