// SPDX-License-Identifier: MIT
// Counts of the calls to the interpreting driver.
#pragma once

struct DriverCounts {
    long launches = 0, copies = 0, waits = 0, allocations = 0;
    long barriers = 0;  // barriers that blocks reached
    void *last_stream = nullptr;
};
