// SPDX-License-Identifier: MIT
#include <attune/attune.h>
#include <cstdio>
#include <vector>

// Runs masked_softmax by dispatch and prints the variant that ran, and its parameters.
int normalise() {
    std::vector<float> scores(64, 1), out(64);
    attune::Context context;
    const attune::Status status = attune::masked_softmax(context, {scores.data(), {2, 32}}, {out.data(), {2, 32}});
    if (!status.ok()) return std::fprintf(stderr, "%s\n", status.message().c_str()), 1;
    for (const attune::VariantInfo &v : attune::variants())
        if (v.name == context.last_variant())
            std::printf("%s %s %g\n", context.last_variant().c_str(), std::string(v.parameters).c_str(), 32.0 * out[0]);
    return 0;
}
