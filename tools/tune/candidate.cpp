// SPDX-License-Identifier: MIT
// Loading of a shared object as a variant of the library.
#include "candidate.h"
#include "attune/detail/registration.h"
#include "parameters.h"
#include "tools/error.h"
#include <dlfcn.h>

namespace attune::tune {
namespace {

attune::DType dtype_of(const std::string &name) {
    for (const attune::DType dtype : {attune::DType::f32, attune::DType::f64, attune::DType::bf16, attune::DType::f16})
        if (name == attune::name_of(dtype)) return dtype;
    throw program::InputError("dtype", "expected f32, f64, bf16 or f16, is \"" + name + "\"");
}

// Storage of a library record's pointers; it lives as long as the process, as the loaded code does.
struct Registered {
    CandidateVariant variant;
    LoadableCandidate candidate;
    std::string name;
    attune::detail::VariantRecord record;
};

std::string why() {
    const char *const error = dlerror();
    return error ? error : "unknown reason";
}

}  // namespace

std::string load_candidate(const CandidateVariant &variant, const LoadableCandidate &candidate) {
    const attune::DType dtype = dtype_of(variant.dtype);
    Parameters parameters = parse_parameters(candidate.parameters);
    const auto parameter = [&](const char *name) { return parameters.count(name) ? parameters[name] : 1; };
    void *const library = dlopen(candidate.object.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) throw program::MachineError("candidate " + candidate.id, "cannot be loaded: " + why());
    const auto kernel = reinterpret_cast<int (*)(void **)>(dlsym(library, (candidate.symbol + "_argv").c_str()));
    if (!kernel) throw program::MachineError("candidate " + candidate.id, "lacks its symbol: " + why());
    auto *const r = new Registered{variant, candidate, variant.name + "@" + candidate.id, {}};
    r->record = {.name = r->name,
                 .op = r->variant.op,
                 .dtype = dtype,
                 .head_dim = variant.head_dim,
                 .target = r->variant.target,
                 .schedule = r->candidate.schedule.empty() ? r->variant.schedule : r->candidate.schedule,
                 .shape_class = r->candidate.schedule.empty() ? r->variant.shape_class : r->candidate.shape_class,
                 .kind = r->variant.kind,
                 .parameters = r->candidate.parameters,
                 .provenance = "a candidate of the tuner",
                 .tile_q = parameter("tile_q"),
                 .kv_block = parameter("kv_block"),
                 .cost = {},
                 .cost_target = {},
                 .dispatched = false,
                 .kernel = kernel};
    attune::detail::VariantRegistration{{&r->record, 1}};
    return r->name;
}

}  // namespace attune::tune
