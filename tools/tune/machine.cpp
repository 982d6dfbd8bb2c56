// SPDX-License-Identifier: MIT
#include "machine.h"
#include "tools/text.h"
#include <algorithm>
#include <ctime>

namespace attune::tune {
namespace {

std::string field(const std::string &name) {
    for (const auto &[key, value] : bench::describe_machine())
        if (key == name) return value;
    return "unknown";
}

constexpr const char *plain_read = "plain read";

double fma_peak_f32(bench::Team &team) { return bench::fma_peak(team, DType::f32); }
double fma_peak_f64(bench::Team &team) { return bench::fma_peak(team, DType::f64); }

}  // namespace

std::string hardware() { return field("cpu") + ", " + field("cores") + " cores"; }

std::string utc(const char *format) {
    const std::time_t now = std::time(nullptr);
    char text[32];
    std::strftime(text, sizeof(text), format, std::gmtime(&now));
    return text;
}

std::string PeakLimit::share_text(double seconds) const {
    const double share = this->share(seconds);
    if (share <= 0) return "";
    const std::string text = program::formatted("%.2f", share);
    if (share <= 1) return text;
    return unit == plain_read ? text + ", from a cache" : "not measured (" + text + ": the machine was busy)";
}

Peak::Peak(const std::string &schedule, const bench::Shape &s, int threads) : team_(threads) {
    if (s.decode()) {
        limit_.work = s.bytes(), limit_.unit = plain_read;
        of_team_ = bench::read_bandwidth;
    } else if (std::string(s.unit()) == "FLOP") {
        const bool bf16_dot = schedule == "bf16_dot", amx = schedule == "amx" || schedule == "amx_gemv";
        limit_.work = s.work();
        limit_.unit = amx ? "AMX tile peak" : bf16_dot ? "bf16 dot product peak" : "multiply-add peak";
        of_team_ = amx                     ? bench::bf16_tile_peak
                   : bf16_dot              ? bench::bf16_dot_peak
                   : s.dtype == DType::f64 ? fma_peak_f64
                                           : fma_peak_f32;
    }
}

void Peak::measure() {
    if (of_team_) limit_.peak = std::max(limit_.peak, of_team_(team_));
}

}  // namespace attune::tune
