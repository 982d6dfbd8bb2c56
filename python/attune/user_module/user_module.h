// SPDX-License-Identifier: MIT
// An attention of attune.define(): a shared object that holds its kernels and all of the library that they need, and exports
// one table. The extension module has a library of its own, and shares no symbol with such an object: it calls the object
// through the table, and only where both were compiled with the headers of one version.
#pragma once
#include <attune/attune.h>
#include <attune/detail/user_attention.h>

namespace attune_python {

struct UserModule {
    const char *version;  // of the library; comes first, so that any version can read it
    std::size_t sizes;    // a number of the sizes of the structs below
    const attune::detail::AttentionRecord *attention;
    // A Context belongs to the library that made it.
    attune::Context *(*make)(const attune::ContextOptions &);
    void (*destroy)(attune::Context *);
    const attune::Status &(*status)(const attune::Context &);
    const std::string &(*last_variant)(const attune::Context &);
    decltype(&attune::detail::run_user_attention) forward;
    decltype(&attune::detail::run_user_attention_backward) backward;
    decltype(&attune::detail::run_user_attention_over_ranks) forward_over_ranks;
    decltype(&attune::detail::run_user_attention_backward_over_ranks) backward_over_ranks;
};

// Differs where a struct that is handed over has another size.
constexpr std::size_t user_module_sizes() {
    std::size_t sum = 0;
    for (const std::size_t size :
         {sizeof(attune::View), sizeof(attune::SdpaOptions), sizeof(attune::SdpaForward), sizeof(attune::SdpaGradients),
          sizeof(attune::detail::CaptureArgument), sizeof(attune::detail::CaptureRecord),
          sizeof(attune::detail::AttentionRecord), sizeof(attune::ContextOptions), sizeof(attune::Status),
          sizeof(attune::Communicator), sizeof(attune::ParallelPlan), sizeof(attune::ParallelOptions), sizeof(UserModule)})
        sum = sum * 1021 + size;
    return sum;
}

using UserModuleEntry = const UserModule *();  // extern "C" attune_user_module

}  // namespace attune_python
