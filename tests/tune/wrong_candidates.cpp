// SPDX-License-Identifier: MIT
// An f32 kernel of attention with the arguments of Halide's kernels (runtime/src/attention/sdpa_kernel.cpp), and copies that
// are wrong in one way each: <name>_argv for each line of wrong_candidates.h. It computes KV blocks, whose partial results are
// in scratch memory until they are merged; a task is a tile of queries of one head.
#include "wrong_candidates.h"
#include "runtime/src/execution/halide_runtime.h"
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

namespace {

using namespace attune_tune_tests;

constexpr int tile = 8, kv_block = 16;
constexpr float infinity = std::numeric_limits<float>::infinity();

struct View {
    const halide_buffer_t *b;
    int extent(int n) const { return b->dim[n].extent; }
    int stride(int n) const { return b->dim[n].stride; }
    template<typename T = float> T *at(int x0, int x1 = 0, int x2 = 0, int x3 = 0) const {
        const int x[] = {x0, x1, x2, x3};
        std::int64_t offset = 0;
        for (int n = 0; n < b->dimensions; n++) offset += std::int64_t(x[n]) * stride(n);
        return reinterpret_cast<T *>(b->host) + offset;
    }
};

struct Call {
    View query, key, band_begin, band_end, lengths, value, out, lse;  // innermost first: (channel, row, head, entry)
    double scale;
    int call;  // number of the call of this kernel, from 0
    int tiles() const { return (query.extent(1) + tile - 1) / tile; }
    int channels() const { return value.extent(0); }
    int kv_blocks() const { return (key.extent(1) + kv_block - 1) / kv_block; }
};

std::atomic<int> calls{0};
float shared_partials[64];
thread_local int last_call_of_thread = -1;

// Keys [from, to) of a query.
template<Defect defect> void keys_of(const Call &c, int entry, int i, int &from, int &to) {
    const int begin = *c.band_begin.at<int>(entry), end = *c.band_end.at<int>(entry), length = *c.lengths.at<int>(i, entry);
    from = std::max(0, i + begin + (defect == window_edge ? 1 : 0));
    to = std::min(c.key.extent(1), i + end + (defect == causal_edge ? 1 : 0));
    const bool ignored = defect == lengths_in_last_kv_block && length > (c.kv_blocks() - 1) * kv_block;
    if (!ignored) to = std::min(to, length);
}

template<Defect defect> float score(const Call &c, int entry, int h, int key_head, int i, int j) {
    const float *q = c.query.at(0, i, h, entry), *k = c.key.at(0, j, key_head, entry);
    float sum = 0;
    for (int d = 0; d < c.query.extent(0); d++) sum += q[d] * k[d];
    const auto scale = static_cast<float>(c.scale);
    return sum * scale * (defect == scale_twice ? scale : 1);
}

// Maximum, sum and weighted values of a kv_block: 2 + channels numbers at `partial`.
template<Defect defect> void compute_kv_block(const Call &c, int entry, int h, int i, int n, float *partial) {
    const int heads = c.query.extent(2), key_heads = c.key.extent(2);
    const int key_head = defect == group_mapping ? h % key_heads : h * key_heads / heads;
    int from, to;
    keys_of<defect>(c, entry, i, from, to);
    const int first = std::max(from, n * kv_block), last = std::min(to, (n + 1) * kv_block);
    float most = -infinity, weights[kv_block] = {}, sum = 0;
    for (int j = first; j < last; j++)
        most = std::max(most, weights[j - n * kv_block] = score<defect>(c, entry, h, key_head, i, j));
    for (int j = first; j < last; j++) {
        float &w = weights[j - n * kv_block];
        w = std::exp(w - most);
        if (defect == coarse_weights) w = std::round(w * 256) / 256;
        sum += w;
    }
    partial[0] = most, partial[1] = sum;
    float *const pv = partial + 2;
    if (defect != uninitialised_scratch) std::memset(pv, 0, sizeof(float) * static_cast<std::size_t>(c.channels()));
    const int keys = c.key.extent(1), end = std::min(keys, (n + 1) * kv_block);
    for (int j = defect == masked_values_leak ? n * kv_block : first; j < (defect == masked_values_leak ? end : last); j++) {
        const float w = j >= first && j < last ? weights[j - n * kv_block] : 0;
        const float *v = c.value.at(0, j, key_head, entry);
        if (defect == value_strides) v = c.value.at(0) + ((entry * key_heads + key_head) * keys + j) * c.channels();
        for (int d = 0; d < c.channels(); d++) pv[d] += w * v[d];
    }
    if (defect == reads_beyond && n + 1 == c.kv_blocks())
        pv[0] += 0 * *const_cast<volatile float *>(c.value.at(0, keys - 1, key_head, entry) + c.channels());
}

template<Defect defect> void merge(const Call &c, int entry, int h, int i, const float *partials) {
    const int width = 2 + c.channels(), kv_blocks = c.kv_blocks();
    const int counted =
        defect == last_kv_block_skipped && c.key.extent(1) % kv_block && kv_blocks > 1 ? kv_blocks - 1 : kv_blocks;
    const int m = defect == swapped_state ? 1 : 0, l = 1 - m;
    float most = -infinity, sum = 0;
    for (int n = 0; n < counted; n++) most = std::max(most, partials[n * width + m]);
    float *const out = c.out.at(0, i, h, entry);
    const int channels = c.channels();
    const int written = defect == tail_channels && channels % 4 ? channels / 4 * 4 : channels;
    const bool empty = most == -infinity;
    if (defect == empty_row_is_garbage && empty) return void(*c.lse.at(0, i, h, entry) = -infinity);
    for (int d = 0; d < written; d++) out[d] = 0;
    for (int n = 0; n < counted; n++) {
        const float *const p = partials + n * width;
        if (p[m] == -infinity && defect != empty_row_is_nan) continue;
        const float factor = defect == dropped_rescale ? 1 : std::exp(p[m] - most);
        sum += factor * p[l];
        for (int d = 0; d < written; d++) out[d] += factor * p[2 + d];
    }
    float adjust = 1;
    if (defect == earlier_call && c.call % 2) adjust = 1 + 0x1p-22f;
    if (defect == thread_count && last_call_of_thread != c.call) {
        adjust = 1 + 0x1p-22f, last_call_of_thread = c.call;
        // Long enough for another thread to take part, even where cores are few and busy.
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (int d = 0; d < written && (!empty || defect == empty_row_is_nan); d++) out[d] = out[d] / sum * adjust;
    const bool padded = c.out.stride(1) > channels && c.out.stride(1) < 2 * channels;
    if (defect == padding_written && padded && i + 1 < c.out.extent(1)) out[channels] = 0;
    if (defect == writes_before && entry + h + i == 0) out[-1] = 0;
    if (defect == writes_after && i + 1 == c.out.extent(1)) out[channels] = 0;
    const float lse = most + std::log(sum);
    if (defect == lse_unwritten) return;
    *c.lse.at(0, i, h, entry) = empty ? -infinity : defect == lse_base_2 ? lse * 1.442695f : lse;
}

template<Defect defect> int run_tile(void *user_context, int task, std::uint8_t *closure) {
    const Call &c = *reinterpret_cast<const Call *>(closure);
    const int heads = c.query.extent(2), t = task % c.tiles(), h = task / c.tiles() % heads, entry = task / c.tiles() / heads;
    const int width = 2 + c.channels();
    const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(width * c.kv_blocks());
    auto *const partials = static_cast<float *>(halide_malloc(user_context, bytes));
    if (!partials) return halide_error_code_out_of_memory;
    if (defect == scratch_overrun) partials[(bytes + 127) / 128 * 32] = 0;
    const int last = std::min((t + 1) * tile, c.query.extent(1));
    for (int i = t * tile; i < last; i++) {
        if (defect == tail_rows && last % tile != 0 && t > 0) break;
        for (int n = 0; n < c.kv_blocks(); n++) {
            float *const own = partials + n * width;
            float *const partial = defect == race && width <= 64 ? shared_partials : own;
            compute_kv_block<defect>(c, entry, h, i, n, partial);
            if (partial == own) continue;
            // Long enough for another thread to get there, even where cores are few and busy.
            std::this_thread::sleep_for(std::chrono::microseconds(20));
            std::memcpy(own, partial, sizeof(float) * static_cast<std::size_t>(width));
        }
        merge<defect>(c, entry, h, i, partials);
    }
    if (defect == input_written) *c.query.at(0, t * tile, h, entry) += 1;
    halide_free(user_context, partials);
    return 0;
}

template<Defect defect> int kernel(void **args) {
    const auto view = [&](int n) { return View{static_cast<const halide_buffer_t *>(args[n])}; };
    if (defect == crash) *static_cast<volatile int *>(nullptr) = 1;
    if (defect == hang)
        for (volatile int forever = 1; forever;) {}
    const Call c{view(1), view(2), view(3), view(4), view(6), view(10), view(12), view(13), *static_cast<double *>(args[9]),
                 calls++};
    const int tasks = c.tiles() * c.query.extent(2) * c.query.extent(3);
    return halide_do_par_for(*static_cast<void **>(args[0]), run_tile<defect>, 0, tasks,
                             reinterpret_cast<std::uint8_t *>(const_cast<Call *>(&c)));
}

}  // namespace

#define ATTUNE_EXPORT(name, words) \
    extern "C" int name##_argv(void **args) { return kernel<attune_tune_tests::name>(args); }
ATTUNE_WRONG_CANDIDATES(ATTUNE_EXPORT)
