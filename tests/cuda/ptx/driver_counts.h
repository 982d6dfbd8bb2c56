// SPDX-License-Identifier: MIT
// Functions of the interpreting driver that a program looks up by name.
#pragma once

// attune_driver_counts(): the calls to it.
struct DriverCounts {
    long launches = 0, copies = 0, waits = 0, allocations = 0;
    long barriers = 0;  // barriers that blocks reached
    long refused = 0;   // calls that a capture refuses
    void *last_stream = nullptr;
    void *last_context = nullptr;  // the current one of the last allocation
};

// attune_driver_capture(): captures a graph, as cuStreamBeginCapture() does in the global mode: launches are kept and not run,
// and memory, modules, copies and waiting are refused. With `begin` 0 the capture ends. attune_driver_replay() runs the graph
// that was captured last, and says whether all of its kernels succeeded.
using DriverCapture = void(int begin);
using DriverReplay = int();
