#include "machine.h"
#include <ctime>

namespace attune::tune {
namespace {

std::string field(const std::string &name) {
    for (const auto &[key, value] : bench::describe_machine())
        if (key == name) return value;
    return "unknown";
}

}  // namespace

std::string hardware() { return field("cpu") + ", " + field("cores") + " cores"; }

std::string today() {
    const std::time_t now = std::time(nullptr);
    char text[16];
    std::strftime(text, sizeof(text), "%Y-%m-%d", std::gmtime(&now));
    return text;
}

Peaks::Limit Peaks::of(const Cell &cell, const bench::Shape &s) {
    const bool pairs = cell.schedule == "pairs";
    const DType type = s.dtype == DType::f64 ? DType::f64 : DType::f32;
    Limit limit;
    if (s.decode())
        limit = {s.bytes(), 0, "plain read"};
    else if (std::string(s.unit()) == "FLOP")
        limit = {s.work(), 0, pairs ? "bf16 dot product peak" : "multiply-add peak"};
    else
        return limit;
    double &peak = peaks_[limit.unit + name_of(type)];
    if (peak == 0)
        peak = s.decode() ? bench::read_bandwidth(team_) : pairs ? bench::bf16_dot_peak(team_) : bench::fma_peak(team_, type);
    limit.peak = peak;
    return limit;
}

}  // namespace attune::tune
