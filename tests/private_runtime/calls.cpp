// SPDX-License-Identifier: MIT
// Calls of the library that need all of its handlers: for threads, scratch memory, and a kernel's error.
#include <attune/attune.h>
#include <vector>

extern "C" int calls_of_plug_in() {
    for (const int threads : {1, 3}) {
        attune::Context context({.threads = threads});
        const std::int64_t heads = 4, queries = 70, keys = 130, size = 24;
        const std::vector<float> query(std::size_t(heads * queries * size), 0.5f), key(std::size_t(heads * keys * size), 1.0f);
        std::vector<float> out(query.size());
        if (!attune::scaled_dot_product_attention(context, {query.data(), {1, heads, queries, size}},
                                                  {key.data(), {1, heads, keys, size}}, {key.data(), {1, heads, keys, size}},
                                                  {out.data(), {1, heads, queries, size}})
                 .ok())
            return 1;
        for (const float x : out)
            if (!(x > 0.999f && x < 1.001f)) return 2;
        const std::vector<float> scores(1000 * 200, 1.0f);
        std::vector<float> weights(scores.size());
        if (!attune::masked_softmax(context, {scores.data(), {1000, 200}}, {weights.data(), {1000, 200}}).ok()) return 3;
        if (!(weights[777] > 0.0049f && weights[777] < 0.0051f)) return 4;
    }
    return 0;
}
