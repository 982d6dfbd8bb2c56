// SPDX-License-Identifier: MIT
// ATTUNE_RECORD_SHAPES=FILE: which shapes a program calls, how often and for how long, as a file of shapes that the benchmark
// and the tuner read (bench/shapes: its columns, and calls and seconds).
#pragma once
#include "dispatch/op_call.h"
#include "execution/context_state.h"
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace attune {

// A line but for its counts. The columns say less than the options of a call: where what they leave out matters for the time,
// or had to be said by what comes near, the line is called "nearest" and not "recorded".
struct ShapeLine {
    std::string_view op;
    DType dtype = DType::f32;
    std::int64_t b = 1, h = 1, kv = 1, q = 1, k = 1, d = 1, dv = 1;
    bool causal = false;
    std::int64_t left = -1, right = -1;
    std::string length = {}, options = {};
    bool exact = true;
};

// The lines of one Context. They are written when it goes, at exit, and whenever there are many; a child that is forked leaves
// the lines of before to its parent.
class ShapeRecord {
public:
    explicit ShapeRecord(const char *file);
    ~ShapeRecord();
    ShapeRecord(const ShapeRecord &) = delete;

    // Why the file cannot be written; empty if it can.
    std::string defect() const;
    void add(const ShapeLine &, double seconds);
    void write() noexcept;

private:
    friend struct AliveRecords;
    struct Count {
        std::int64_t calls = 0;
        double seconds = 0;
    };
    void begin_in_this_process();
    std::string file_;
    std::mutex mutex_;  // a program may exit while another thread is in a call
    std::map<std::string, Count> lines_;
    int process_ = -1;  // that the lines are of, and whose list this is in: AliveRecords::process
    ShapeRecord *before_ = nullptr, *next_ = nullptr;
};

// Calls that had nothing to compute are left out.
template<typename Line> void record_shape(Context::State &context, CallStart start, const Line &line) {
    if (!context.shapes) return;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    context.shapes->add(line(), seconds);
}

// The columns of a checked call of attention.
struct SdpaCall;
ShapeLine shape_line(std::string_view op, const SdpaCall &);
// Lengths (B, Sq) of any strides, of so many keys: one for each batch entry, the mean where those of its queries differ; then
// `exact` becomes false.
std::string lengths_column(const ConstView &lengths, std::int64_t keys, bool &exact);
// Its numbers, rounded up, and its text, empty where all entries have all keys.
std::vector<std::int64_t> entry_lengths(const ConstView &lengths, bool &exact);
std::string column_of(const std::vector<std::int64_t> &lengths, std::int64_t keys);

}  // namespace attune
