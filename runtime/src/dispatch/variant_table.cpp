// SPDX-License-Identifier: MIT
#include "dispatch/variant_table.h"
#include "dispatch/cpu_features.h"
#include "dispatch/ops.h"
#include "execution/published.h"
#include <algorithm>
#include <atomic>
#include <charconv>
#include <iterator>
#include <set>

// Begin and end of the section attune_ops, by the linker; null where no object has that section.
extern "C" {
[[gnu::weak, gnu::visibility("hidden")]] extern const attune::Op *const __start_attune_ops[];
[[gnu::weak, gnu::visibility("hidden")]] extern const attune::Op *const __stop_attune_ops[];
}

namespace attune {

std::span<const Op *const> linked_ops() noexcept { return {__start_attune_ops, __stop_attune_ops}; }

namespace {

// Registered by static objects of archives, so in any order and before main(), or later by a program; a list of nodes that are
// never freed, because what registers them is never unloaded by us. The latest first.
struct Registered {
    std::span<const VariantRecord> variants;
    const AttentionRecord *attention;  // null: variants alone
    const Registered *next;
};
std::atomic<const Registered *> first_registered{nullptr};
std::atomic<int> generation{0};
constinit Published<VariantRecords> all_records;

void add(std::span<const VariantRecord> variants, const AttentionRecord *attention) noexcept {
    auto *node = new (std::nothrow) Registered{variants, attention, first_registered};
    if (!node) return;  // then dispatch says that there are no variants
    while (!first_registered.compare_exchange_weak(node->next, node)) {}
    generation++;
}

// A name says op, type, head size, target, schedule, class and kind: of records with one name the latest counts.
const VariantRecord *find_registered(std::string_view name) noexcept {
    for (const Registered *r = first_registered; r; r = r->next)
        for (const VariantRecord &v : r->variants)
            if (v.name == name) return &v;
    return nullptr;
}

// Calls visit(record) for each variant of the library's ops that are linked in.
template<typename Visit> void for_each_linked(const Visit &visit) {
    for (const Op *op : linked_ops())
        for (const std::span<const VariantRecord> variants : {op->variants, *op->fallback})
            for (const VariantRecord &v : variants) visit(v);
}

}  // namespace

detail::VariantRegistration::VariantRegistration(ArrayView<const VariantRecord> variants) noexcept { add(variants, nullptr); }

detail::AttentionRegistration::AttentionRegistration(const AttentionRecord &attention) noexcept {
    add(attention.variants, &attention);
}

const AttentionRecord *detail::find_attention(std::string_view op) noexcept {
    for (const Registered *r = first_registered; r; r = r->next)
        if (r->attention && !op.empty() && (r->attention->op == op || r->attention->backward_op == op)) return r->attention;
    return nullptr;
}

int variant_generation() noexcept { return generation; }

const VariantRecords &variant_records() {
    return all_records.get(variant_generation(), [] {
        VariantRecords all;
        std::set<std::string_view> listed;
        const auto list = [&](const VariantRecord &v) {
            if (!listed.insert(v.name).second) return;
            const VariantRecord *latest = find_registered(v.name);
            all.push_back(latest ? latest : &v);
        };
        for_each_linked(list);
        for (const Registered *r = first_registered; r; r = r->next)
            for (const VariantRecord &v : r->variants) list(v);
        return all;
    });
}

const VariantRecord *find_variant(std::string_view name) noexcept {
    if (const VariantRecord *v = find_registered(name)) return v;
    const VariantRecord *found = nullptr;
    for_each_linked([&](const VariantRecord &v) {
        if (v.name == name) found = &v;
    });
    return found;
}

bool is_of_unlinked_op(std::string_view name) noexcept {
    // The longest name of an op that `name` begins with: <op>_<dtype>_...
    static constexpr std::string_view dtypes[] = {"f32_", "f64_", "bf16_", "f16_", "bool_"};
    const auto begins_with = [&](std::string_view op) {
        if (!name.starts_with(op) || name.size() <= op.size() || name[op.size()] != '_') return false;
        const std::string_view rest = name.substr(op.size() + 1);
        return std::any_of(std::begin(dtypes), std::end(dtypes), [&](std::string_view d) { return rest.starts_with(d); });
    };
    const std::span<const Op *const> linked = linked_ops();
    const auto is_linked = [&](std::string_view op) {
        return std::any_of(linked.begin(), linked.end(), [&](const Op *o) { return o->name == op; });
    };
    return std::any_of(std::begin(op_names), std::end(op_names),
                       [&](std::string_view op) { return begins_with(op) && !is_linked(op); });
}

bool runs_here(std::string_view target) noexcept { return nothing_missing_for(target); }

bool is_cpu_target(std::string_view target) noexcept {
    const std::span<const char *const> all = cpu_targets();
    return std::find(all.begin(), all.end(), target) != all.end();
}

std::string missing_variants(std::span<const std::string_view> usable, std::span<const std::string_view> tuned) {
    if (usable.empty()) return {};
    const std::string_view best = usable.front();
    for (const std::string_view target : usable) {
        if (std::find(tuned.begin(), tuned.end(), target) == tuned.end()) continue;
        if (target == best) return {};
        return "no kernels of this CPU's target " + std::string(best) + " are linked in, those of " + std::string(target) +
               " run in their place: build Attune with ATTUNE_TARGETS=" + std::string(best) + " or the preset portable";
    }
    return "no tuned kernels that this CPU runs are linked in, every call takes the slow root schedule on one thread: build "
           "Attune with ATTUNE_TARGETS=" +
           std::string(best) + " or the preset portable";
}

std::string missing_linked_variants() {
    std::vector<std::string_view> usable, tuned;
    const VariantRecords &records = variant_records();
    for (const std::string_view target : cpu_targets()) {
        if (!runs_here(target)) continue;
        usable.push_back(target);
        const auto of_target = [&](const VariantRecord *v) { return v->target == target && v->schedule_id != Schedule::root; };
        if (std::any_of(records.begin(), records.end(), of_target)) tuned.push_back(target);
    }
    return missing_variants(usable, tuned);
}

int parameter_of(const VariantRecord &v, std::string_view name, int otherwise) {
    const std::string_view all = v.parameters;
    for (std::size_t at = all.find(name); at != all.npos; at = all.find(name, at + 1)) {
        const std::size_t end = at + name.size();
        if ((at > 0 && all[at - 1] != ' ') || end >= all.size() || all[end] != '=') continue;
        int found = otherwise;
        std::from_chars(all.data() + end + 1, all.data() + all.size(), found);
        return found;
    }
    return otherwise;
}

}  // namespace attune
