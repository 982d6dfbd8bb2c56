// SPDX-License-Identifier: MIT
#include "dispatch/op_call.h"
#include "dispatch/cpu_features.h"
#include "execution/published.h"
#include "execution/thread_team.h"
#include "tensors/checks.h"
#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

namespace attune {
namespace {

// A kind of attention that offers every option of another. "weights" is another output and offers nothing else.
bool offers(std::string_view kind, std::string_view needed) {
    if (kind == needed) return true;
    if (needed == "plain") return kind == "scored" || kind == "training";
    return needed == "scored" && kind == "training";
}

bool fits_sizes(const VariantRecord &v, const VariantNeeds &n) {
    return v.dtype == n.dtype && (v.head_dim == 0 || (v.head_dim == n.head_dim && v.head_dim == n.value_dim));
}

bool fills_tiles(const VariantRecord &v, std::int64_t queries, Candidate::Fill fill) {
    const std::int64_t padding = (v.tile_q - queries % v.tile_q) % v.tile_q;
    if (fill == Candidate::Fill::over_half) return 2 * padding < v.tile_q;
    if (fill == Candidate::Fill::least_time) return true;
    const bool two_tiles = queries > v.tile_q && queries <= 2 * v.tile_q;
    if (fill == Candidate::Fill::most_of_two) return !two_tiles || 4 * padding < 2 * v.tile_q;
    return padding * 100 <= queries * sdpa_shape_classes().long_padding_percent_at_most;
}

// In queries.
std::int64_t time_of_tiles(const VariantRecord &v, std::int64_t queries) {
    return ceil_div(queries, v.tile_q) * (v.tile_q + sdpa_shape_classes().queries_of_a_tile_of_few_keys);
}
bool suits_few_keys(const VariantRecord &v) { return v.shape_class == "long" || v.shape_class.starts_with("short"); }

// What this machine runs, by operation, type and head size (0: one that no kernel is made for): the most specific target first,
// and a kernel of that size before one of any.
using VariantList = std::span<const VariantRecord *const>;
using VariantLists = std::map<std::tuple<std::string_view, DType, std::int64_t>, std::vector<const VariantRecord *>>;
VariantLists list_dispatched(const VariantRecords &records) {
    VariantLists lists;
    for (const VariantRecord *v : records) lists[{v->op, v->dtype, v->head_dim}], lists[{v->op, v->dtype, 0}];
    for (const char *target : cpu_targets()) {
        if (!runs_here(target)) continue;
        for (const bool any_size : {false, true})
            for (const VariantRecord *v : records) {
                if (!v->dispatched || v->target != target || (v->head_dim == 0) != any_size) continue;
                for (auto &[key, list] : lists) {
                    const auto &[op, dtype, size] = key;
                    if (op == v->op && dtype == v->dtype && (any_size || size == v->head_dim)) list.push_back(v);
                }
            }
    }
    return lists;
}
constinit Published<VariantLists> dispatched_here;

VariantList fitting(const VariantLists &lists, const VariantNeeds &n) {
    auto found = lists.find({n.op.name, n.dtype, n.head_dim == n.value_dim ? n.head_dim : 0});
    if (found == lists.end()) found = lists.find({n.op.name, n.dtype, 0});
    if (found == lists.end()) return {};
    return found->second;
}

// Of variants like v but for their tiles of queries; of those with the same tiles not class long, which is for many keys.
const VariantRecord *quickest_of_few_keys(VariantList list, const VariantRecord *v, std::int64_t queries) {
    const auto like_v = [&](const VariantRecord &o) {
        return o.schedule == v->schedule && o.target == v->target && o.head_dim == v->head_dim && o.kind == v->kind;
    };
    const auto rank = [&](const VariantRecord &o) { return std::pair(time_of_tiles(o, queries), o.shape_class == "long"); };
    for (const VariantRecord *other : list)
        if (like_v(*other) && suits_few_keys(*other) && rank(*other) < rank(*v)) v = other;
    return v;
}

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
    if (!offers(v->kind, n.kind))
        return {StatusCode::invalid_argument, source + name + " is " + std::string(v->kind) + ", this call needs one that is " +
                                                  std::string(n.kind) + " (see VariantInfo::kind)"};
    choice = {v, "forced", true};
    return {};
}

}  // namespace

Forced forced_variant(const Context::State &context, std::string_view of_the_call, const Op &op, bool weights) {
    if (!of_the_call.empty()) {
        const VariantRecord *v = find_variant(of_the_call);
        // A name of the other output's kind leaves this one to dispatch.
        if (v && v->op == op.name && (v->kind == "weights") != weights) return {};
        return {of_the_call, "variant"};
    }
    const VariantRecord *v = context.forced_variant;
    if (v && v->op == op.name && (v->kind == "weights") == weights) return {v->name, "ATTUNE_FORCE_VARIANT"};
    return {};
}

Status choose_variant(const VariantNeeds &needs, std::span<const Candidate> candidates, const Forced &forced, Choice &choice) {
    if (!forced.name.empty()) return use_forced(needs, forced, choice);
    VariantList list =
        fitting(dispatched_here.get(variant_generation(), [] { return list_dispatched(variant_records()); }), needs);
    // A plug-in that shares this code with its program may call ops that the program does not have.
    VariantLists of_plug_in;
    if (list.empty() && !needs.op.variants.empty()) {
        VariantRecords records;
        for (const std::span<const VariantRecord> variants : {needs.op.variants, *needs.op.fallback})
            for (const VariantRecord &v : variants) records.push_back(&v);
        of_plug_in = list_dispatched(records);
        list = fitting(of_plug_in, needs);
    }
    // A kernel of more options than the call has does as well, where there is no other.
    static constexpr std::string_view more[] = {"plain", "scored", "training"};
    std::vector<std::string_view> kinds = {needs.kind};
    for (const std::string_view kind : more)
        if (kind != needs.kind && offers(kind, needs.kind)) kinds.push_back(kind);
    Choice found;
    for (const Candidate &candidate : candidates)
        for (const std::string_view kind : kinds)
            for (const VariantRecord *v : list) {
                // Classes first: of a type's variants few share one, and most a schedule.
                if (v->shape_class != candidate.shape_class || v->schedule != candidate.schedule) continue;
                if (v->kind != kind || (candidate.own_size && v->head_dim == 0)) continue;
                if (candidate.fill_tiles_with && !fills_tiles(*v, candidate.fill_tiles_with, candidate.fill)) {
                    const bool fills_one = v->tile_q <= candidate.fill_tiles_with;
                    if (!found.not_filled && fills_one) found.not_filled = v, found.why_better = candidate.reason;
                    continue;
                }
                choice = found;
                choice.variant = v, choice.reason = candidate.reason;
                if (candidate.fill == Candidate::Fill::least_time)
                    choice.variant = quickest_of_few_keys(list, v, candidate.fill_tiles_with);
                return {};
            }
    const std::string of_kind = needs.kind.empty() ? "" : " with the options of this call (" + std::string(needs.kind) + ")";
    return {StatusCode::unsupported, std::string(needs.op.name) + ": no variant for " + name_of(needs.dtype) + of_kind +
                                         " is linked in that this CPU runs"};
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
    std::fprintf(stderr, "attune: %.*s %s (%.*s) %s: %.1f us\n", static_cast<int>(op.size()), op.data(), ran.c_str(),
                 static_cast<int>(choice.reason.size()), choice.reason.data(), sizes.c_str(), us);
}

}  // namespace attune
