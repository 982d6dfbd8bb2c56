#include "attune/variants.h"
#include "cpu_features.h"
#include "variant_table.h"

namespace attune {

const VariantRecord *find_variant(std::string_view name) noexcept {
    for (const VariantRecord &v : variant_records())
        if (v.name == name) return &v;
    return nullptr;
}

bool runs_here(std::string_view target) noexcept {
    static const std::vector<std::string_view> usable = [] {
        std::vector<std::string_view> u;
        for (const char *t : cpu_targets())
            if (missing_for(t).empty()) u.push_back(t);
        return u;
    }();
    for (std::string_view t : usable)
        if (t == target) return true;
    return false;
}

std::vector<VariantInfo> variants() {
    std::vector<VariantInfo> infos;
    for (const char *target : cpu_targets())
        for (const VariantRecord &v : variant_records()) {
            if (v.target != target) continue;
            std::string missing = missing_for(v.target);
            infos.push_back({v.name, v.op, v.dtype, v.head_dim, v.target, v.schedule, v.kind, v.shape_class, v.numbers,
                             v.provenance, v.dispatched, missing.empty(), missing.empty() ? "" : "this CPU lacks " + missing});
        }
    return infos;
}

std::vector<TargetInfo> targets() {
    std::vector<TargetInfo> infos;
    for (const char *target : cpu_targets()) infos.push_back({target, missing_for(target)});
    return infos;
}

}  // namespace attune
