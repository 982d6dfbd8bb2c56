// SPDX-License-Identifier: MIT
#include <attune/attune.h>
#include <cstdio>
#include <vector>

int main() {
    attune::Context context;
    const std::vector<float> scores(2 * 4, 1.0f);
    const std::vector<std::int32_t> lens = {2, 4};
    std::vector<float> out(scores.size());
    attune::MaskedSoftmaxOptions options;
    options.valid_lens = lens;
    const attune::Status status = attune::masked_softmax(context, {scores, {2, 4}}, {out, {2, 4}}, options);
    if (!status.ok()) return std::printf("%s\n", status.message().c_str()), 1;
    std::printf("%g %g %g %g %g %g\n", out[0], out[1], out[4], out[5], out[6], out[7]);
}
