// SPDX-License-Identifier: MIT
// Bytes as tensors of DLPack and of the C API, and as options of attention: refused, or computed over memory that ends where
// `capacity` says, at a protected page, so that an access beyond it is a crash in kernels, too. The pages and the context are
// those of all executions, which then take few system calls; the memory is cleared for each.
#include "attune/attune_c.h"
#include "tests/support/fenced.h"
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

// Bytes one after another; zeros behind the end.
struct Bytes {
    const std::uint8_t *at, *end;
    template<typename T> T next() {
        T x{};
        const std::size_t count = std::min<std::size_t>(sizeof x, std::size_t(end - at));
        if (count > 0) std::memcpy(&x, at, count);
        at += count;
        return x;
    }
    // Mostly small, sometimes anything.
    std::int64_t number() {
        const auto kind = next<std::uint8_t>();
        return kind < 240 ? kind % 9 : kind < 250 ? -std::int64_t(kind % 9) : next<std::int64_t>();
    }
};

constexpr std::int64_t most = 4096;  // elements of a tensor, of at most 8 bytes
constexpr std::size_t tensors = 6;

char *fenced_end() {
    constexpr std::size_t size = std::size_t(most) * 8;
    return static_cast<char *>(attune_test::allocate_fenced(size, attune_test::Fence::behind)) + size;
}
// The end of memory of tensor n.
char *end_of(std::size_t n) {
    static char *const ends[tensors] = {fenced_end(), fenced_end(), fenced_end(), fenced_end(), fenced_end(), fenced_end()};
    return ends[n];
}

struct Tensor {
    attune_tensor tensor{};
    Tensor(Bytes &bytes, std::size_t number, const attune_tensor *like) {
        const auto kind = bytes.next<std::uint8_t>();
        if (like && kind % 2) {
            tensor = *like;
        } else {
            std::int64_t extents[ATTUNE_TENSOR_DIMENSIONS];  // as many as attune_dense() reads
            for (std::int64_t &extent : extents) extent = bytes.number();
            tensor = attune_dense(nullptr, bytes.next<std::uint8_t>() % 11 ? ATTUNE_F32 : bytes.next<std::int32_t>(),
                                  kind % 16 ? 4 : std::int32_t(bytes.next<std::int8_t>()), extents);
        }
        if (kind % 5 == 0)
            for (std::int64_t &stride : tensor.strides) stride = bytes.number();
        if (kind % 7 == 0) tensor.place = bytes.next<std::int8_t>();
        if (kind % 11 == 0) tensor.reserved = bytes.next<std::int8_t>();
        tensor.capacity = 1 + std::int64_t(bytes.next<std::uint16_t>()) % most;
        // A stride of 0 makes any number of keys legal, and the call as long.
        if (tensor.strides[2] == 0) tensor.extents[2] = std::min(tensor.extents[2], most);
        const std::int32_t size = attune_dtype_size(tensor.dtype);
        const std::size_t bytes_of_memory = std::size_t(tensor.capacity) * std::size_t(size > 0 ? size : 8);
        tensor.data = std::memset(end_of(number) - bytes_of_memory, 0, bytes_of_memory);
    }
};

attune_context *make_context() {
    attune_context *context = nullptr;
    attune_context_options how = ATTUNE_CONTEXT_OPTIONS_INIT;
    how.threads = 1;
    if (attune_context_create(&how, &context) != ATTUNE_OK) std::abort();
    return context;
}

void describe_dlpack(attune_context *context, Bytes &bytes) {
    std::int64_t shape[4], strides[4];
    for (int n = 0; n < 4; n++) shape[n] = bytes.number(), strides[n] = bytes.number();
    attune_dl_tensor dl{};
    char data[64];
    dl.data = bytes.next<std::uint8_t>() % 4 ? data : nullptr;
    dl.device = {std::int32_t(bytes.number()), 0};
    dl.ndim = std::int32_t(bytes.number());
    dl.dtype = bytes.next<attune_dl_data_type>();
    dl.shape = shape, dl.strides = bytes.next<std::uint8_t>() % 2 ? strides : nullptr;
    dl.byte_offset = std::uint64_t(bytes.number());
    attune_tensor to;
    if (attune_from_dlpack(context, &dl, &to) != ATTUNE_OK) return;
    if (to.rank != dl.ndim || to.rank < 1 || to.rank > 4) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *all, std::size_t count) {
    Bytes bytes{all, all + count};
    static attune_context *const context = make_context();
    describe_dlpack(context, bytes);
    const Tensor query(bytes, 0, nullptr), key(bytes, 1, &query.tensor), value(bytes, 2, &key.tensor),
        out(bytes, 3, &query.tensor), mask(bytes, 4, nullptr), lens(bytes, 5, nullptr);
    // As many zeros behind it as its size may say: the size is the caller's word for the memory.
    static union {
        char zeros[1 << 16];
        attune_sdpa_options options;
    } memory;
    attune_sdpa_options &options = memory.options;
    options = ATTUNE_SDPA_OPTIONS_INIT;
    const auto given = bytes.next<std::uint8_t>();
    if (given & 1) options.causal = bytes.next<std::int8_t>();
    if (given & 2) options.bias = &mask.tensor;
    if (given & 4) options.valid_lens = &lens.tensor;
    if (given & 8) options.softcap = bytes.next<double>();
    if (given & 16) options.window = {bytes.number(), bytes.number()};
    if (given & 32) options.size = bytes.next<std::uint16_t>();
    const attune_status status = attune_scaled_dot_product_attention(context, &query.tensor, &key.tensor, &value.tensor,
                                                                     &out.tensor, given & 64 ? &options : nullptr);
    if (status != ATTUNE_OK && !*attune_last_message(context)) std::abort();
    return 0;
}
