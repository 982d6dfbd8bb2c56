// SPDX-License-Identifier: MIT
#include "dispatch/op_call.h"
#include "dispatch/cpu_features.h"
#include "execution/thread_team.h"
#include "tensors/checks.h"
#include <algorithm>
#include <cstdio>

namespace attune {
namespace {

bool fits_sizes(const VariantRecord &v, const VariantNeeds &n) {
    return v.dtype == n.dtype && (v.head_dim == 0 || (v.head_dim == n.head_dim && v.head_dim == n.value_dim));
}

}  // namespace

Status use_forced(const VariantNeeds &n, const Forced &forced, Choice &choice) {
    const std::string source = std::string(forced.by) + ": ", name(forced.name);
    const VariantRecord *v = find_variant(forced.name);
    if (!v) return {StatusCode::invalid_argument, source + "there is no variant " + name};
    if (!is_cpu_target(v->target))
        return {StatusCode::invalid_argument, source + name + " is for tensors on a device, these are on the host"};
    if (!runs_here(v->target))
        return {StatusCode::unsupported, source + name + " cannot run here: this CPU lacks " + missing_for(v->target)};
    if (v->op != n.op.name)
        return {StatusCode::invalid_argument,
                source + name + " computes " + std::string(v->op) + ", this call " + std::string(n.op.name)};
    if (!fits_sizes(*v, n)) {
        std::string sizes;
        if (n.head_dim) sizes = " and head sizes " + std::to_string(n.head_dim) + " and " + std::to_string(n.value_dim);
        return {StatusCode::invalid_argument,
                source + name + " is for " + name_of(v->dtype) +
                    (v->head_dim ? " and head size " + std::to_string(v->head_dim) : std::string()) + "; this call has " +
                    name_of(n.dtype) + sizes};
    }
    if (!offers(v->kind_id, n.kind))
        return {StatusCode::invalid_argument, source + name + " is " + std::string(v->kind) + ", this call needs one that is " +
                                                  std::string(name_of(n.kind)) + " (see VariantInfo::kind)"};
    choice = {v, "forced", true};
    return {};
}

Forced forced_variant(const Context::State &context, std::string_view of_the_call, const Op &op, bool weights) {
    if (!of_the_call.empty()) {
        const VariantRecord *v = find_variant(of_the_call);
        // A name of the other output's kind leaves this one to dispatch.
        if (v && v->op == op.name && (v->kind_id == Kind::weights) != weights) return {};
        return {of_the_call, "variant"};
    }
    const VariantRecord *v = context.forced_variant;
    if (v && v->op == op.name && (v->kind_id == Kind::weights) == weights) return {v->name, "ATTUNE_FORCE_VARIANT"};
    return {};
}

Choice Choice::of(const PredictedVariant &quickest, const PredictedVariant &next) {
    const VariantRecord &v = *quickest.variant->record;
    Choice choice{&v, v.schedule_id == Schedule::root ? "nothing else is built" : "least predicted time"};
    choice.predicted_ns = quickest.ns;
    if (next.variant) choice.next = next.variant->record, choice.next_ns = next.ns;
    return choice;
}

bool Choice::share(const SharedCall &two, std::string_view part) {
    if (!two.first.variant || two.ns() >= predicted_ns) return false;
    next = variant, next_ns = predicted_ns;
    variant = two.first.variant->record, predicted_ns = two.ns();
    of_last = two.last.variant->record, last = part;
    return true;
}

Status no_variant(const VariantNeeds &needs) {
    const std::string of_kind =
        needs.kind == Kind::none ? "" : " with the options of this call (" + std::string(name_of(needs.kind)) + ")";
    return {StatusCode::unsupported, std::string(needs.op.name) + ": no variant for " + name_of(needs.dtype) + of_kind +
                                         " is linked in that this CPU runs"};
}

Status choose_variant(const VariantNeeds &needs, std::span<const Candidate> candidates, const Forced &forced, Choice &choice) {
    if (!forced.name.empty()) return use_forced(needs, forced, choice);
    const std::span<const Runnable> list = runnables(needs);
    for (const Candidate &candidate : candidates)
        for (const Runnable &r : list)
            if (r.record->schedule_id == candidate.schedule && r.record->shape_class == candidate.shape_class) {
                choice = {r.record, candidate.reason};
                return {};
            }
    return no_variant(needs);
}

int worthwhile_threads(double multiply_adds, int threads) noexcept {
    const int most = worthwhile_threads_at_most(multiply_adds, threads);
    return most > 1 && ThreadTeam::worth_helpers(multiply_adds) ? most : 1;
}

int worthwhile_threads_at_most(double multiply_adds, int threads) noexcept {
    const double shares = multiply_adds / ThreadTeam::least_work_of_a_thread;
    return shares < 2 ? 1 : static_cast<int>(std::min<double>(shares, threads));
}

void write_call_line(const Choice &choice, std::string_view op, const std::string &sizes, CallStart start) {
    const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    std::string ran = "no kernel";
    const auto name = [](const VariantRecord &v) {
        return std::string(v.name) + (v.parameters.empty() ? "" : " [" + std::string(v.parameters) + "]");
    };
    if (choice.variant) ran = name(*choice.variant);
    if (choice.of_last) ran += ", of the last " + std::string(choice.last) + " " + name(*choice.of_last);
    std::string reason(choice.reason);
    const auto predicted = [](double ns) {
        char text[32];
        std::snprintf(text, sizeof text, "%.3g us", ns / 1000);
        return std::string(text);
    };
    if (choice.predicted_ns > 0) reason += ", " + predicted(choice.predicted_ns);
    if (choice.next) reason += "; then " + std::string(choice.next->name) + ", " + predicted(choice.next_ns);
    std::fprintf(stderr, "attune: %.*s %s (%s) %s: %.1f us\n", static_cast<int>(op.size()), op.data(), ran.c_str(),
                 reason.c_str(), sizes.c_str(), us);
}

}  // namespace attune
