// SPDX-License-Identifier: MIT
#include "explain.h"
#include "problems.h"
#include "times.h"
#include "tools/error.h"
#include "tools/text.h"
#include "tools/tune/candidates.h"
#include "tools/tune/machine.h"
#include <thread>

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
    if (a.op != "sdpa" && a.op != "cosine" && a.op != "gaussian" && !is_product(a.op))
        throw program::InputError(a.op, "must be sdpa, cosine, gaussian, linear, linear_packed or batch_dot");
    tune::forget_environment();
    const bench::Shape shape = shape_of(a);
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    Context context(ContextOptions{.threads = a.threads > 0 ? a.threads : cores});
    const Planned e = planned(context, shape);
    if (!e.status.ok()) throw program::InputError(shape.op, e.status.message());
    std::string text =
        shape.op + " " + name_of(shape.dtype) + " " + shape.label() + "\n" + (e.variant.empty() ? "no kernel" : e.variant) +
        (e.last.empty() ? "" : ", the last " + std::string(is_product(shape.op) ? "columns" : "queries") + " by " + e.last) +
        ": " + e.reason + "\n\n";
    ShapeTimes times;
    if (a.measure) {
        std::vector<std::string> names = {""};
        for (const PlanCandidate &c : e.candidates) names.push_back(c.variant);
        times = quiet_times(context, shape, names, {.seconds = 0.005, .rounds = 5, .seed = 1});
        text += "as dispatched: " + program::formatted("%.4g", 1e6 * times.seconds.at("")) + " us, " + tune::hardware() + ", " +
                std::to_string(context.threads()) + " threads\n\n";
    }
    text += "| variant | predicted us, one thread of an entry | coefficients |" +
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
