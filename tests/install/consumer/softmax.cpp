// SPDX-License-Identifier: MIT
// A program of one function of the library, which links no kernels of others.
#include <attune/masked_softmax.h>
#include <cstdio>

int main() {
    const float scores[4] = {1, 2, 3, 4};
    float weights[4];
    attune::Context context;
    const attune::Status status = attune::masked_softmax(context, {scores, {1, 1, 1, 4}}, {weights, {1, 1, 1, 4}});
    if (!status.ok()) return std::fprintf(stderr, "%s\n", status.message().c_str()), 1;
    std::printf("%.4f %.4f %.4f %.4f\n", weights[0], weights[1], weights[2], weights[3]);
}
