// SPDX-License-Identifier: MIT
// This machine in the words of records, and the peak that bounds a shape on it.
#pragma once
#include "bench/cases/machine.h"
#include "bench/cases/shapes.h"
#include <string>

namespace attune::tune {

std::string hardware();               // "AMD EPYC..., 2 cores"
std::string utc(const char *format);  // the time, as strftime() writes it
inline std::string today() { return utc("%Y-%m-%d"); }

// Bound on the work of a call, and the machine's peak for it.
struct PeakLimit {
    double work = 0, peak = 0;  // of a call, and per second; 0 where no peak is known
    std::string unit;           // "multiply-add peak", "plain read"...

    // Share of the peak in a call that takes `seconds`; 0 where no peak is known.
    double share(double seconds) const { return peak > 0 && seconds > 0 ? work / seconds / peak : 0; }
    // The share in words, "0.83"; empty where no peak is known. A share above 1 is a read from a cache, or a peak measured
    // while the machine did something else.
    std::string share_text(double seconds) const;
};

// Peak of this machine for a shape's work. It is measured in turns with the calls that it is compared with: where other
// processes load the machine, both are slower.
class Peak {
public:
    Peak(const std::string &schedule, const bench::Shape &, int threads);

    void measure();  // measures once more; the best counts
    const PeakLimit &limit() const { return limit_; }

private:
    bench::Team team_;
    double (*of_team_)(bench::Team &) = nullptr;
    PeakLimit limit_;
};

}  // namespace attune::tune
