// SPDX-License-Identifier: MIT
// What the interpreter that stands in for the driver was asked for.
#pragma once

struct DriverCounts {
    long launches = 0, copies = 0, waits = 0, allocations = 0;
    long barriers = 0;  // that blocks came to
    void *last_stream = nullptr;
};
