// SPDX-License-Identifier: MIT
// The lists of all variants of the library, for people: a program that calls one of these functions links every kernel.
#include "attune/variants.h"
#include "device/device_call.h"
#include "dispatch/cpu_features.h"
#include "dispatch/ops.h"
#include "dispatch/variant_table.h"

namespace attune {
namespace {

#define ATTUNE_ADDRESS(name) &ops::name,
[[gnu::used]] const Op *const all_ops[] = {ATTUNE_OPS(ATTUNE_ADDRESS)};
#undef ATTUNE_ADDRESS

}  // namespace

std::vector<VariantInfo> variants() {
    std::vector<VariantInfo> infos;
    const VariantRecords &records = variant_records();
    for (const char *target : cpu_targets())
        for (const VariantRecord *v : records) {
            if (v->target != target) continue;
            std::string missing = missing_for(v->target);
            infos.push_back({v->name, v->op, v->dtype, v->head_dim, v->target, v->schedule, v->kind, v->shape_class,
                             v->parameters, v->provenance, v->dispatched, missing.empty(),
                             missing.empty() ? "" : "this CPU lacks " + missing, v->cost_target == v->target});
        }
    for (const VariantRecord *v : records) {
        if (is_cpu_target(v->target)) continue;
        std::string why_not = "is for tensors on a device";
        const DeviceBackend *backend = device_backend();
        if (backend && backend->target == v->target && !backend->missing().empty()) why_not += ", and " + backend->missing();
        infos.push_back({v->name, v->op, v->dtype, v->head_dim, v->target, v->schedule, v->kind, v->shape_class, v->parameters,
                         v->provenance, v->dispatched, false, std::move(why_not), v->cost_target == v->target});
    }
    return infos;
}

std::vector<TargetInfo> targets() {
    std::vector<TargetInfo> infos;
    for (const char *target : cpu_targets()) infos.push_back({target, missing_for(target)});
    return infos;
}

std::string missing_variants() { return missing_linked_variants(); }

}  // namespace attune
