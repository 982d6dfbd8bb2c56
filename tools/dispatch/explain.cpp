// SPDX-License-Identifier: MIT
#include "explain.h"
#include "problems.h"
#include "times.h"
#include "tools/error.h"
#include "tools/text.h"
#include "tools/tune/candidates.h"
#include "tools/tune/machine.h"
#include <algorithm>

namespace attune::dispatch {
namespace {

bench::Shape shape_of(const ExplainArguments &a) {
    bench::Columns columns = {{"op", a.op}};
    for (const std::string &size : a.sizes) {
        const std::size_t equals = size.find('=');
        if (equals == std::string::npos || equals == 0 || equals + 1 == size.size())
            throw program::InputError("size", "must be NAME=VALUE, such as q=1 or dtype=bf16, got \"" + size + "\"");
        columns.emplace_back(size.substr(0, equals), size.substr(equals + 1));
    }
    bench::Shape shape;
    if (const std::string wrong = bench::read_columns(columns, shape); !wrong.empty()) throw program::InputError("size", wrong);
    const auto given = [&](const std::string &name) {
        for (const auto &[column, value] : columns)
            if (column == name) return true;
        return false;
    };
    if (!is_product(a.op) && !given("dv")) shape.dv = shape.d;
    if (!given("h")) shape.h = shape.kv;
    if (!given("kv")) shape.kv = shape.h;
    return shape;
}

}  // namespace

std::string explain(const ExplainArguments &a) {
    const Place place = a.device ? Place::device : Place::host;
    std::vector<std::string> known = ops(place);
    if (!a.device) std::erase(known, "additive");  // whose calls have no plan
    if (std::find(known.begin(), known.end(), a.op) == known.end())
        throw program::InputError(a.op, "must be " + program::listed(known));
    tune::forget_environment();
    const bench::Shape shape = shape_of(a);
    TimedMachine machine = TimedMachine::of(a.device, a.threads);
    const Planned e = planned(machine.context(), shape, place);
    if (!e.status.ok()) throw program::InputError(shape.op, e.status.message());
    std::string text =
        shape.op + " " + name_of(shape.dtype) + " " + shape.label() + "\n" + (e.variant.empty() ? "no kernel" : e.variant) +
        (e.last.empty() ? "" : ", the last " + std::string(is_product(shape.op) ? "columns" : "queries") + " by " + e.last) +
        ": " + e.reason + "\n\n";
    ShapeTimes times;
    if (a.measure) {
        std::vector<std::string> names = {""};
        for (const PlanCandidate &c : e.candidates) names.push_back(c.variant);
        times = quiet_times(machine, shape, names, {.seconds = 0.005, .rounds = 5, .seed = 1});
        text += "as dispatched: " + program::formatted("%.4g", 1e6 * times.seconds.at("")) + " us, " + machine.description() +
                "\n\n";
    }
    text += "| variant | predicted us" + std::string(a.device ? "" : ", one thread of an entry") + " | coefficients |" +
            std::string(a.measure ? " measured us |" : "") + "\n|---|---:|---|" + (a.measure ? "---:|" : "") + "\n";
    for (const PlanCandidate &c : e.candidates) {
        text += "| " + c.variant + " | " + program::formatted("%.4g", c.predicted_us) + " | " +
                (c.measured ? "measured" : "of another target, or by rule") + " |";
        if (a.measure) {
            const auto found = times.seconds.find(c.variant);
            text += (found == times.seconds.end() ? " -" : " " + program::formatted("%.4g", 1e6 * found->second)) + " |";
        }
        text += "\n";
    }
    return text;
}

}  // namespace attune::dispatch
