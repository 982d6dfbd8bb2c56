// SPDX-License-Identifier: MIT
#include "attune/version.h"

namespace attune {

int linked_version() noexcept { return version; }
const char *linked_version_string() noexcept { return version_string; }

}  // namespace attune
