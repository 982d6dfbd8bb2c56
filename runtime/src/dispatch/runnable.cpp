// SPDX-License-Identifier: MIT
#include "dispatch/runnable.h"
#include "dispatch/cost.h"
#include "dispatch/cost_rule.h"
#include "dispatch/cpu_features.h"
#include "execution/published.h"
#include <algorithm>
#include <atomic>
#include <map>
#include <tuple>
#include <vector>

namespace attune {
namespace {

using Key = std::tuple<std::string_view, DType, std::int64_t, Kind>;  // op, type, head size, kind
using Lists = std::map<Key, std::vector<Runnable>>;

// Whether dispatch has no use for a record where a preferred one was found before: for a more specific target, with fewer
// options that the call does not need, or for the head size of the call.
bool replaces(const VariantRecord &preferred, const VariantRecord &v) {
    return preferred.schedule == v.schedule && preferred.shape_class == v.shape_class;
}

// The list of a key, from records of its op and type, those for one head size first. In the order of preference: by target, by
// kind, and those for the head size before those for any.
std::vector<Runnable> list_of(const VariantRecords &records, const Key &key) {
    const std::int64_t head_dim = std::get<std::int64_t>(key);
    const Kind needed = std::get<Kind>(key);
    std::vector<Kind> wanted = {needed};
    for (const Kind kind : {Kind::plain, Kind::scored, Kind::training})
        if (kind != needed && offers(kind, needed)) wanted.push_back(kind);
    std::vector<Runnable> tuned, root;
    for (const char *target : cpu_targets()) {
        if (!runs_here(target)) continue;
        for (const Kind kind : wanted)
            for (const VariantRecord *v : records) {
                if (!v->dispatched || v->target != target || v->kind_id != kind) continue;
                if (v->head_dim != 0 && v->head_dim != head_dim) continue;
                std::vector<Runnable> &list = v->schedule_id == Schedule::root ? root : tuned;
                const auto better = [&](const Runnable &r) { return replaces(*r.record, *v); };
                if (std::none_of(list.begin(), list.end(), better)) list.push_back(runnable_of(*v));
            }
    }
    return tuned.empty() ? root : tuned;
}

// Lists of every op, type and kind; of every head size that has kernels of its own, and 0 for any other.
Lists lists_of(const VariantRecords &records) {
    std::map<std::pair<std::string_view, DType>, VariantRecords> groups;
    for (const bool own_size : {true, false})
        for (const VariantRecord *v : records)
            if ((v->head_dim != 0) == own_size) groups[{v->op, v->dtype}].push_back(v);
    Lists lists;
    for (const auto &[of, group] : groups)
        for (const VariantRecord *v : group)
            for (const Kind kind : {v->kind_id, Kind::plain, Kind::scored})
                for (const std::int64_t head_dim : {std::int64_t(v->head_dim), std::int64_t(0)}) {
                    const Key key{v->op, v->dtype, head_dim, kind};
                    if (offers(v->kind_id, kind) && !lists.contains(key)) lists[key] = list_of(group, key);
                }
    return lists;
}
constinit Published<Lists> lists_here;

using DeviceLists = std::map<std::tuple<std::string_view, std::string_view, DType>, std::vector<Runnable>>;  // target, op, type
constinit Published<DeviceLists> device_lists;

DeviceLists device_lists_of(const VariantRecords &records) {
    DeviceLists lists;
    for (const VariantRecord *v : records)
        if (!is_cpu_target(v->target)) lists[{v->target, v->op, v->dtype}].push_back(runnable_of(*v));
    for (auto &[of, list] : lists)
        std::stable_sort(list.begin(), list.end(),
                         [](const Runnable &a, const Runnable &b) { return a.record->kind_id < b.record->kind_id; });
    return lists;
}

std::span<const Runnable> found_in(const Lists &lists, const VariantNeeds &n) {
    auto found = lists.find({n.op.name, n.dtype, n.head_dim == n.value_dim ? n.head_dim : 0, n.kind});
    if (found == lists.end()) found = lists.find({n.op.name, n.dtype, 0, n.kind});
    if (found == lists.end()) return {};
    return found->second;
}

// Lists of an op that this program does not have: a plug-in that shares this code with its program calls it. Kept for ever.
struct PlugInOp {
    const VariantRecord *variants;
    Lists lists;
    const PlugInOp *next;
};
std::atomic<const PlugInOp *> plug_in_ops{nullptr};

const Lists &lists_of_plug_in(const Op &op) {
    for (const PlugInOp *known = plug_in_ops; known; known = known->next)
        if (known->variants == op.variants.data()) return known->lists;
    VariantRecords records;
    for (const std::span<const VariantRecord> variants : {op.variants, *op.fallback})
        for (const VariantRecord &v : variants) records.push_back(&v);
    auto *const one = new PlugInOp{op.variants.data(), lists_of(records), plug_in_ops};
    while (!plug_in_ops.compare_exchange_weak(one->next, one)) {}
    return one->lists;
}

}  // namespace

bool takes_full_tiles(const VariantRecord &v) { return v.shape_class.find("full_tile") != std::string_view::npos; }

Runnable runnable_of(const VariantRecord &v) {
    const auto parameter = [&](std::string_view name, int otherwise) { return parameter_of(v, name, otherwise); };
    Runnable r{};
    r.record = &v;
    r.on_device = !is_cpu_target(v.target);
    r.few_rows = parameter("tile_rows", 0) == 1 || parameter("few_rows", 0) == 1;
    r.full_tiles = takes_full_tiles(v);
    r.rank_k_update = parameter("update_depth", 0) > 0;
    r.tile_rows = parameter("tile_rows", v.tile_q), r.tile_columns = parameter("tile_columns", 1);
    r.block = parameter("depth_block", parameter("tile_depth", v.kv_block)), r.key_step = parameter("kv_subblock", 1);
    r.task_rows = parameter("task_rows", 1);
    r.channels = parameter("channels", v.head_dim), r.split_keys = parameter("split_keys", 0);
    r.cost = v.cost_target.empty() ? cost_by_rule(r) : v.cost;
    return r;
}

bool offers(Kind kind, Kind needed) {
    if (kind == needed) return true;
    if (needed == Kind::plain) return kind == Kind::scored || kind == Kind::training;
    return needed == Kind::scored && kind == Kind::training;
}

std::span<const Runnable> runnables(const VariantNeeds &needs) {
    const Lists &lists = lists_here.get(variant_generation(), [] { return lists_of(variant_records()); });
    const std::span<const Runnable> found = found_in(lists, needs);
    return found.empty() && !needs.op.variants.empty() ? found_in(lists_of_plug_in(needs.op), needs) : found;
}

std::span<const Runnable> device_runnables(const Op &op, DType dtype, std::string_view target) {
    const DeviceLists &lists = device_lists.get(variant_generation(), [] { return device_lists_of(variant_records()); });
    const auto found = lists.find({target, op.name, dtype});
    if (found == lists.end()) return {};
    return found->second;
}

std::vector<PlanCandidate> plan_candidates(const std::vector<PredictedVariant> &all) {
    std::vector<PlanCandidate> candidates;
    for (const PredictedVariant &p : all) {
        const VariantRecord &v = *p.variant->record;
        candidates.push_back({std::string(v.name), p.ns / 1000, v.cost_target == v.target});
    }
    return candidates;
}

}  // namespace attune
