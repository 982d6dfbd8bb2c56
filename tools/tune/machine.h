// This machine in the words of records, and what limits a shape on it.
#pragma once
#include "bench/cases/machine.h"
#include "cell.h"
#include <map>
#include <string>

namespace attune::tune {

std::string hardware();  // "AMD EPYC..., 2 cores"
std::string today();     // UTC, "2026-11-22"

// The most that this machine can do of a shape's work in a second, measured when first asked for.
class Peaks {
public:
    explicit Peaks(int threads) : team_(threads) {}

    struct Limit {
        double work = 0, peak = 0;  // of a call, and in a second; 0 where no peak is known
        std::string unit;           // "multiply-add peak", "plain read"...
    };
    Limit of(const Cell &, const bench::Shape &);

private:
    bench::Team team_;
    std::map<std::string, double> peaks_;
};

}  // namespace attune::tune
