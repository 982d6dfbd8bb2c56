// SPDX-License-Identifier: MIT
#include "progress.h"
#include "tools/text.h"
#include <algorithm>
#include <sys/ioctl.h>
#include <unistd.h>

namespace attune::tune {
namespace {

using Clock = std::chrono::steady_clock;

std::string clock_text(double seconds) {
    const int s = std::max(0, static_cast<int>(seconds));
    char text[32];
    std::snprintf(text, sizeof(text), "%d:%02d", s / 60, s % 60);
    return text;
}

}  // namespace

Progress::Progress(std::size_t cells, Clock::time_point deadline, double seconds)
    : cells_(cells), deadline_(deadline), seconds_(seconds), terminal_(::isatty(2) != 0) {}

Progress::~Progress() {
    if (open_) std::fputc('\n', stderr);
}

void Progress::start_cell(const Cell &cell) {
    cell_++;
    trials_ = 0;
    name_ = cell.variant;
    shown_ = {};
}

std::string Progress::line(const CellResult &result, const std::string &phase) const {
    const double left = std::chrono::duration<double>(deadline_ - Clock::now()).count();
    constexpr int width = 16;
    const int done = std::clamp(static_cast<int>(width * (1 - left / seconds_)), 0, width);
    std::size_t rejected = 0, known = 0;
    double gain = 1, seconds = result.baseline_seconds;
    for (const Trial &trial : result.trials) {
        rejected += !trial.was_right();
        known += trial.known;
        if (trial.gain > gain) gain = trial.gain, seconds = trial.seconds;
    }
    std::string text = "[" + std::string(static_cast<std::size_t>(done), '#') +
                       std::string(static_cast<std::size_t>(width - done), '.') + "] " + clock_text(left) + " left  " +
                       std::to_string(cell_) + "/" + std::to_string(cells_) + " " + name_ + "  " +
                       std::to_string(result.trials.size()) + " tried";
    if (rejected) text += ", " + std::to_string(rejected) + " rejected";
    if (known) text += ", " + std::to_string(known) + " known before";
    text += "  best " + program::formatted("%.3f", gain) + " of the start";
    if (const std::string share = result.limit.share_text(seconds); !share.empty())
        text += ", " + share + " of the " + result.limit.unit;
    return text + "  " + phase;
}

void Progress::show(const CellResult &result, const std::string &phase) {
    if (!terminal_) {
        for (; trials_ < result.trials.size(); trials_++) {
            const Trial &t = result.trials[trials_];
            std::fprintf(stderr, "%s: %s: %s%s%s\n", name_.c_str(), text_of(t.parameters).c_str(),
                         t.was_right() ? (program::formatted("%.3f", t.gain) + " of the start").c_str()
                                       : (t.verdict + ": " + t.reason).c_str(),
                         t.verdict == "same code" ? ", the code of an earlier one" : "", t.known ? ", known before" : "");
        }
        return;
    }
    const auto now = Clock::now();
    if (now - shown_ < std::chrono::milliseconds(200)) return;
    shown_ = now;
    std::string text = line(result, phase);
    winsize size{};
    const std::size_t columns = ::ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1u : 119u;
    if (text.size() > columns) text.resize(columns);
    std::fprintf(stderr, "\r\033[K%s", text.c_str());
    open_ = true;
}

void Progress::say(const std::string &line) {
    if (open_) std::fputs("\r\033[K", stderr);
    open_ = false;
    std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace attune::tune
