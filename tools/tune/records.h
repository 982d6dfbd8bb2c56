// SPDX-License-Identifier: MIT
// Everything that was ever measured, one JSON object a line: appended and synchronised candidate by candidate, so that a killed
// run loses the one in flight. Files are merged by putting their lines together; nothing is ever overwritten.
#pragma once
#include "parameters.h"
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace attune::tune {

// What a measurement is true for. All of it has to agree for a record to stand for a new measurement; where only the algorithm
// or Halide differ, or the hardware, it is a seed.
struct RecordKey {
    std::string target, hardware, algorithm, halide;
    std::string op, dtype, schedule, shape_class, kind;
    int head_dim = 0, threads = 0;
    std::string mask, group;  // "none", "causal", "window"...; query heads a key head
    int log2_queries = 0, log2_keys = 0;
    std::string shape;     // its label, in full
    std::string baseline;  // parameters that the ratios are against
    bool cold = false;     // caches: operands rotated through more than the last level holds

    bool operator==(const RecordKey &) const = default;
};

struct Record {
    RecordKey key;
    Parameters parameters;
    std::string verdict;         // "timed", "rejected", "timeout", "compile_error"
    std::string reason;          // of all but timed
    std::vector<double> ratios;  // time over the baseline's, of pairs taken in turns
    double seconds = 0;          // best of a call
    double error_ratio = 0;      // error over what the rule allows, the largest of all checks
    std::string object;          // hash of the machine code: equal codes need one measurement
    double foreign_load = 0;     // CPU seconds of others per second while it was timed
    std::string when;            // UTC
};

nlohmann::ordered_json json_of(const Record &);

// The records of a file. A line that ends in the middle is left out: its writer was killed, and who came after began a line of
// its own. Any other bad line throws InputError with its number. No file: none.
std::vector<Record> read_records(const std::string &file);

// Appends lines to a file. Several processes may do so at once: for each line the others wait.
class RecordLog {
public:
    explicit RecordLog(const std::string &file);  // throws MachineError if it cannot be written
    ~RecordLog();
    RecordLog(const RecordLog &) = delete;
    RecordLog &operator=(const RecordLog &) = delete;
    void append(const Record &);  // on the disk when it returns

private:
    int file_;
    std::string name_;
};

}  // namespace attune::tune
