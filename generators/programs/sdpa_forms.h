// SPDX-License-Identifier: MIT
// Table of the values of `schedule=`: the form of the stages, their hints and the schedule.
#pragma once
#include "lowering/lower.h"
#include "schedules/sdpa/sdpa_schedules.h"

namespace attune {

// Parameters of all schedules; each schedule reads its own.
struct SdpaParameters {
    int kv_block, tile_q, key_tile, channel_tile, kv_subblock, value_block, value_rows, prefetch_keys;
    bool prefetch_tiles, prefetch_queries;
};

// Tensors that prefetches and bounds name.
struct SdpaTensors {
    Halide::ImageParam query, key, value, row_shift;
    Halide::Expr value_dim;
    Halide::Expr heads_of_task;  // key heads of a task of decode, where rows are in pages
    // A prefetched table over pairs: its name in steps (ScoreUpdate), and whether a call gives one.
    struct Table {
        Halide::ImageParam buffer;
        std::string name;
        Halide::Expr given;
    };
    std::vector<Table> fetched_tables;
};

struct SdpaForm {
    SdpaNumerics numerics;
    ScheduleHints hints;
    // Makes the stages and returns the one that the output copies; the schedule takes the stages afterwards.
    std::function<Halide::Func(const SdpaInputs &, const Score &)> stages;
    std::function<void(Halide::Func out, const SdpaTensors &, Passes &)> schedule;
    bool fetches_tiles = false, fetches_tables = false;  // supports prefetch_tiles and prefetch_queries; prefetch_tables
};

struct NamedForm {
    std::string schedule;
    SdpaForm (*make)(const SdpaKernel &, const SdpaParameters &, const Halide::Target &);
    bool reads_pages = false;  // rows of keys and values may be in pages (placed_rows.h)
    bool parts_keys = false;   // products are of bf16 parts of wider keys
};
const std::vector<NamedForm> &sdpa_forms();

}  // namespace attune
