// SPDX-License-Identifier: MIT
// This machine in the words of records, and what limits a shape on it.
#pragma once
#include "bench/cases/machine.h"
#include "bench/cases/shapes.h"
#include <string>

namespace attune::tune {

std::string hardware();               // "AMD EPYC..., 2 cores"
std::string utc(const char *format);  // the time, as strftime() writes it
inline std::string today() { return utc("%Y-%m-%d"); }

// What bounds the work of a call, and how much of that this machine does in a second.
struct PeakLimit {
    double work = 0, peak = 0;  // of a call, and in a second; 0 where no peak is known
    std::string unit;           // "multiply-add peak", "plain read"...

    // Of the peak, by a call that takes so long; 0 where no peak is known.
    double share(double seconds) const { return peak > 0 && seconds > 0 ? work / seconds / peak : 0; }
    // In words, "0.83"; empty where no peak is known. More than all is a read from a cache, or a peak that was measured while
    // the machine did something else.
    std::string share_text(double seconds) const;
};

// The most that this machine does of a shape's work. It is measured in turns with the calls that it is compared with: where
// others load the machine, both are slower.
class Peak {
public:
    Peak(const std::string &schedule, const bench::Shape &, int threads);

    void measure();  // once more; the best counts
    const PeakLimit &limit() const { return limit_; }

private:
    bench::Team team_;
    double (*of_team_)(bench::Team &) = nullptr;
    PeakLimit limit_;
};

}  // namespace attune::tune
