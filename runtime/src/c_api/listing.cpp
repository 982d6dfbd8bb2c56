// SPDX-License-Identifier: MIT
// The lists of variants and targets: a program that calls one of these functions links every kernel.
#include "attune/variants.h"
#include "c_api/run.h"
#include "c_api/structs.h"

using namespace attune;
using namespace attune::c_api;

namespace {

// The entry of a list that attune_variants() or attune_targets() made.
template<typename Info>
const Info *listed(Reader &reader, const std::vector<Info> &list, std::size_t index, const char *made_by) {
    if (index < list.size()) return &list[index];
    reader.refuse({"index"}, "must be below " + std::to_string(list.size()) + ", the number of entries of the last " + made_by +
                                 ", got " + std::to_string(index));
    return nullptr;
}

}  // namespace

attune_status attune_variants(attune_context *context, size_t *count) {
    return run(context, [&](Reader &reader, Context &) -> Status {
        if (!reader.must_be_given(count, {"count"})) return reader.status();
        context->lists.variants = variants();
        context->variant.clear();
        *count = context->lists.variants.size();
        return {};
    });
}

attune_status attune_variant(attune_context *context, size_t index, attune_variant_info *info) {
    return run(context, [&](Reader &reader, Context &) -> Status {
        if (const VariantInfo *entry = listed(reader, context->lists.variants, index, "attune_variants()"))
            write(reader, *entry, context->variant, info, {"info"});
        return reader.status();
    });
}

attune_status attune_targets(attune_context *context, size_t *count) {
    return run(context, [&](Reader &reader, Context &) -> Status {
        if (!reader.must_be_given(count, {"count"})) return reader.status();
        context->lists.targets = targets();
        context->target.clear();
        *count = context->lists.targets.size();
        return {};
    });
}

attune_status attune_target(attune_context *context, size_t index, attune_target_info *info) {
    return run(context, [&](Reader &reader, Context &) -> Status {
        if (const TargetInfo *entry = listed(reader, context->lists.targets, index, "attune_targets()"))
            write(reader, *entry, context->target, info, {"info"});
        return reader.status();
    });
}

attune_status attune_missing_variants(attune_context *context, const char **line) {
    return run(context, [&](Reader &reader, Context &) -> Status {
        if (!reader.must_be_given(line, {"line"})) return reader.status();
        context->missing.clear();
        *line = context->missing.keep(missing_variants());
        return {};
    });
}
