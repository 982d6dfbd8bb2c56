// SPDX-License-Identifier: MIT
// Cases that once failed, shrunk: a family, the values other than the simplest, and what was wrong.
#pragma once

namespace attune_fuzz {

struct CorpusCase {
    const char *family, *values, *was_wrong;
};
inline constexpr CorpusCase corpus[] = {
    {"dense", "keys=17", "nothing: an example of a case"},
};

}  // namespace attune_fuzz
