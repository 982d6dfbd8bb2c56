// SPDX-License-Identifier: MIT
// One struct on both devices: a call on the CPU, the number of kernels for each, and what a call of tensors on a device says
// where there is no driver.
#include <attune/variants.h>
#include <cstdio>
#include <recency.h>
#include <vector>

int main() {
    std::vector<float> rows(2 * 3 * 64, 0.5f), rate = {0.25f, 0.5f}, out(rows.size());
    const auto view = [](std::vector<float> &x) { return attune::View(x.data(), {1, 2, 3, 64}); };
    attune::Context context;
    attune::Status s = recency::forward(context, view(rows), view(rows), view(rows), view(out), {.rate = rate});
    std::printf("CPU: %s%g\n", s.ok() ? "" : s.message().c_str(), double(out[0]));

    int of_cpu = 0, of_device = 0;
    for (const attune::VariantInfo &v : attune::variants())
        if (v.op.substr(0, 12) == "user_recency") ++(v.target == "cuda80" ? of_device : of_cpu);
    std::printf("kernels for the CPU: %s, for CUDA: %s\n", of_cpu ? "yes" : "no", of_device ? "yes" : "no");

    const auto on_device = [](std::vector<float> &x) { return attune::device_view(x, {1, 2, 3, 64}); };
    s = recency::forward(context, on_device(rows), on_device(rows), on_device(rows), on_device(out),
                         {.rate = attune::device_view(rate, {2})});
    std::printf("device: %s\n", s.message().c_str());
}
