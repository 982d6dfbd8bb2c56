// SPDX-License-Identifier: MIT
// Log of all measurements, one JSON object per line: appended and synchronised candidate by candidate, so that a killed run
// loses the candidate in flight only. Files are merged by concatenation; nothing is ever overwritten.
#pragma once
#include "parameters.h"
#include <istream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace attune::tune {

// Conditions of a measurement. All must agree for a record to replace a new measurement; where only algorithm, Halide or
// hardware differ, the record is a seed.
struct RecordKey {
    std::string target, hardware, algorithm, halide;
    std::string op, dtype, schedule, shape_class, kind;
    int head_dim = 0, threads = 0;
    std::string mask, group;  // "none", "causal", "window"...; query heads per key head
    int log2_queries = 0, log2_keys = 0;
    std::string shape;     // label of the shape, in full
    std::string baseline;  // parameters that the ratios are against
    bool cold = false;     // cold caches: operands rotate through more than the last level holds

    bool operator==(const RecordKey &) const = default;
};

struct Record {
    RecordKey key;
    Parameters parameters;
    std::string verdict;         // "timed", "rejected", "timeout", "compile_error"
    std::string reason;          // of verdicts other than "timed"
    std::vector<double> ratios;  // time over the baseline's, of pairs taken in turns
    double seconds = 0;          // best of a call
    double error_ratio = 0;      // error over the rule's bound, the largest of all checks
    std::string object;          // hash of the machine code: equal codes need one measurement
    double foreign_load = 0;     // CPU seconds of other processes per second during the timing
    std::string when;            // UTC
};

nlohmann::ordered_json json_of(const Record &);

// Records of a file. A line that ends in the middle is left out: its writer was killed, and the next one began a new line. Any
// other bad line throws InputError with its number. A missing file has no records.
std::vector<Record> read_records(const std::string &file);
// The same of a stream, which messages call `file`.
std::vector<Record> read_records(std::istream &, const std::string &file);

// Appends lines to a file. Several processes may do so at once: each line is written under a lock.
class RecordLog {
public:
    explicit RecordLog(const std::string &file);  // throws MachineError if it cannot be written
    ~RecordLog();
    RecordLog(const RecordLog &) = delete;
    RecordLog &operator=(const RecordLog &) = delete;
    void append(const nlohmann::ordered_json &);  // as one line
    void append(const Record &);                  // the line is on the disk on return

private:
    int file_;
    std::string name_;
};

}  // namespace attune::tune
