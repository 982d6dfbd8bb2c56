// SPDX-License-Identifier: MIT
#include "attune/attune_c.h"

int32_t attune_linked_version() { return attune::linked_version(); }
const char *attune_linked_version_string() { return attune::linked_version_string(); }
