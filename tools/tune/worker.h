// SPDX-License-Identifier: MIT
// The worker process, in which candidates run: it loads, checks and times them, and dies with a candidate that crashes.
// Started by the tuner as `attune tune-worker`, with one job as JSON on standard input; answers are lines of JSON on standard
// output.
//
//   {"mode": "check",                       or "time"
//    "variant": {"name", "op", "dtype", "head_dim", "target", "schedule", "shape_class", "kind"},
//    "candidates": [{"id": "0", "object": FILE.so, "symbol": NAME, "parameters": "kv_block=64 tile_q=64"
//                     and, where they are not the variant's, "schedule", "shape_class"}, ...],
//    "attention": {"module": FILE.so, "captures": {NAME: FILE.npy or number, ...}},
//                                           only for a user's attention (user_case.h), whose shapes have op sdpa
//    "threads": 2, "seed": 1,               0 threads: all cores
//    check: "shapes": [{"op", "dtype", "b", "h", "kv", "q", "k", "d", "dv", "causal", "left", "right", "length", "options"},
//                      ...],                as columns of bench/shapes (bench::columns_of), text or numbers; all optional
//           "expected": FOLDER              where references of these shapes are kept between processes; optional
//    time:  "shape": {...},                 one shape
//           "rounds": 6, "sample_seconds": 0.01, "cold": false, "peak": false}
//
//   check answers for each candidate {"id", "checking": "queries 65 keys 129..."} before each check, in case the process
//   dies in it, and then {"id", "right": true, "error_ratio": 0.6} or {"id", "right": false, "reason": "queries 65
//   keys 129 causal: out: element..."}.
//   time answers for each candidate {"id", "seconds": [a call, of each round]}; rounds take all candidates in a random
//   order, and a sample is as many calls as take sample_seconds. Where the products of the shape are known {"id",
//   "products": 0.8} follows, as a share of the machine's peak; last comes {"foreign_load": 0.02}, CPU seconds of other
//   processes per second, the measurement of that peak included. With "peak" also
//   {"peak": 3e11, "work": 2e9, "unit": "multiply-add peak"}, per second and per call, measured in turns with the candidates
//   (machine.h); 0 where no peak is known.
//   A candidate that cannot be loaded: {"id", "right": false, "reason": "..."} in both modes; the others go on.
//   {"error": "..."} where the job itself is wrong, or a call fails while it is timed; then the exit code is 1.
#pragma once
#include <iosfwd>

namespace attune::tune {

// Reads the job and answers it; returns the exit code.
int run_worker();
int run_worker(std::istream &, std::ostream &);

}  // namespace attune::tune
