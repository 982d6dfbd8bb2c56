// SPDX-License-Identifier: MIT
// A call without the keys that its band hides from all queries.
#pragma once
#include "attention/sdpa_call.h"
#include <optional>

namespace attune {

// The keys from the first KV block that causal mask, window and offset let some query see to the last one; every other key
// changes no bit. So the work of a call, its copies of keys and its search for NaN follow the window, never the cache. A user's
// attention keeps all keys: it reads captures by their numbers.
class CallInBand {
public:
    // kv_block: of the variants that compute the call.
    CallInBand(const SdpaCall &, std::int64_t kv_block);
    CallInBand(const CallInBand &) = delete;  // lengths and shifts of the part lie in it
    CallInBand &operator=(const CallInBand &) = delete;

    const SdpaCall &call() const { return part_ ? *part_ : whole_; }

private:
    const SdpaCall &whole_;
    std::optional<SdpaCall> part_;
    std::vector<std::int32_t> lengths_, row_shift_;
};

}  // namespace attune
