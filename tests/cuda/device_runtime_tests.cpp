// SPDX-License-Identifier: MIT
// Calls with tensors on a device, apart from their results: the stream, no copies and no waiting, refusals, and a machine
// without a driver.
#include "tests/cuda/device_variants.h"
#include "tests/cuda/ptx/driver_counts.h"
#include "tests/support/additive_case.h"
#include "tests/support/linear_case.h"
#include "tests/support/masked_softmax_case.h"
#include "tests/support/packed_case.h"
#include "tests/support/refusals.h"
#include "tests/support/sdpa_backward_case.h"
#include <dlfcn.h>

using namespace attune_test;

namespace {

struct Tensors {
    SdpaArrays<float> of{SdpaCase{.batch = 1, .queries = 5, .keys = 7}};
    attune::ConstView query = on_device(attune::ConstView(of.query.view())), key = on_device(attune::ConstView(of.key.view())),
                      value = on_device(attune::ConstView(of.value.view()));
    attune::View out = on_device(of.out.view());
    attune::Status run(attune::Context &context, const attune::SdpaOptions &options = {}) {
        return attune::scaled_dot_product_attention(context, query, key, value, out, options);
    }
};

// Counts of the interpreter; null with another driver.
const DriverCounts *driver_counts() {
    using Ask = const DriverCounts *();
    auto *ask = reinterpret_cast<Ask *>(dlsym(RTLD_DEFAULT, "attune_driver_counts"));
    return ask ? ask() : nullptr;
}

bool multiplies_matrices() {
    for (const attune::VariantInfo &v : attune::variants())
        if (v.name == "sdpa_f16_d64_cuda80_as_ptx_mma") return true;
    return false;
}
bool skipped_without_matrices() {
    if (multiplies_matrices()) return false;
    WARN("SKIPPED: there are no variants for tensor cores, because there was no clang when this was configured");
    return true;
}

}  // namespace

TEST_CASE("device: a kernel is queued on the caller's stream, nothing is copied or waited for", "[device]") {
    if (!driver_counts()) {
        WARN("SKIPPED: only the interpreter counts what it is asked for");
        return;
    }
    Tensors t;
    int context_stands_for = 0, stream_stands_for = 0;
    attune::Context context({.device = {.cuda_context = &context_stands_for, .cuda_stream = &stream_stands_for}});
    REQUIRE(t.run(context).message() == "");
    const DriverCounts *counts = driver_counts();
    const DriverCounts before = *counts;
    attune::SdpaOptions options;
    options.lse = on_device(t.of.lse.view());
    REQUIRE(t.run(context, options).message() == "");
    CHECK(context.last_variant() == std::string("sdpa_f32_d64_cuda80_as_ptx_") + (multiplies_matrices() ? "mma" : "simt"));
    CHECK(counts->launches == before.launches + 1);
    CHECK(counts->copies == before.copies);
    CHECK(counts->waits == before.waits);
    CHECK(counts->allocations == before.allocations);
    CHECK(counts->last_stream == &stream_stands_for);
    CHECK(defect(t.of) == "");
    // Memory for lse that is not wanted comes from the driver, in stream order.
    REQUIRE(t.run(context).ok());
    CHECK(counts->allocations == before.allocations + 1);
    CHECK(counts->waits == before.waits);
}

TEST_CASE("device: the primary context of a device by its number", "[device]") {
    Tensors t;
    attune::SdpaOptions options;
    options.lse = on_device(t.of.lse.view());
    attune::Context first({.device = {.cuda_device = 0}});
    CHECK(t.run(first, options).message() == "");
    CHECK(defect(t.of) == "");
    attune::Context missing({.device = {.cuda_device = 77}}), far({.device = {.cuda_device = std::int64_t(1) << 32}});
    CHECK(t.run(missing).message() == "device.cuda_device: the CUDA driver gives no device 77");
    CHECK(t.run(far).message() == "device.cuda_device: the CUDA driver gives no device 4294967296");
    if (const DriverCounts *counts = driver_counts()) {
        int stands_for = 0;
        attune::Context of_thread, named({.device = {.cuda_context = &stands_for}});
        REQUIRE(t.run(first).ok());  // memory of the driver for lse
        const void *const primary = counts->last_context;
        REQUIRE(t.run(named).ok());
        CHECK(counts->last_context == &stands_for);
        REQUIRE(t.run(of_thread).ok());
        CHECK(counts->last_context != primary);
        CHECK(counts->last_context != &stands_for);
    }
    CHECK(attune::Context({.device = {.cuda_device = -2}}).status().message() ==
          "device.cuda_device: must be the number of a device, or -1 for none, got -2");
}

TEST_CASE("device: a packed batch is a kernel of each sequence with queries, on the caller's stream", "[device]") {
    if (!driver_counts()) {
        WARN("SKIPPED: only the interpreter counts what it is asked for");
        return;
    }
    int stream_stands_for = 0;
    attune::Context context({.device = {.cuda_stream = &stream_stands_for}});
    PackedArrays<float> a({.queries = {3, 0, 1, 5}, .keys = {3, 4, 0, 9}, .head_dim = 64, .value_dim = 64});
    const auto run = [&] {
        return attune::variable_length_attention(context, on_device(a.query.view()), on_device(a.key.view()),
                                                 on_device(a.value.view()), a.cu_seqlens_q(), a.cu_seqlens_k(),
                                                 on_device(a.out.view()), {.lse = on_device(a.lse.view())});
    };
    REQUIRE(run().message() == "");
    const DriverCounts *counts = driver_counts();
    const DriverCounts before = *counts;
    REQUIRE(run().message() == "");
    CHECK(counts->launches == before.launches + 3);
    CHECK(counts->copies == before.copies);
    CHECK(counts->waits == before.waits);
    CHECK(counts->allocations == before.allocations);
    CHECK(counts->last_stream == &stream_stands_for);
}

TEST_CASE("device: matrices are multiplied where type, head size and strides allow it", "[device]") {
    if (skipped_without_matrices()) return;
    attune::Context context;
    const auto chosen = [&](auto zero, SdpaCase c) {
        c.queries = 33, c.keys = 45;
        SdpaArrays<decltype(zero)> a(c);
        attune::SdpaOptions options;
        options.softcap = c.softcap;
        REQUIRE(attune::scaled_dot_product_attention(context, on_device(a.query.view()), on_device(a.key.view()),
                                                     on_device(a.value.view()), on_device(a.out.view()), options)
                    .message() == "");
        return context.last_variant();
    };
    CHECK(chosen(Float16(0), {}) == "sdpa_f16_d64_cuda80_as_ptx_mma");
    CHECK(chosen(Float16(0), {.softcap = 2}) == "sdpa_f16_d64_cuda80_as_ptx_mma_scored");
    CHECK(chosen(BFloat16(0), {}) == "sdpa_bf16_d64_cuda80_as_ptx_mma");
    CHECK(chosen(Float16(0), {.head_dim = 128, .value_dim = 128}) == "sdpa_f16_d128_cuda80_as_ptx_mma");
    CHECK(chosen(Float16(0), {.head_dim = 256, .value_dim = 256, .softcap = 2}) == "sdpa_f16_d256_cuda80_as_ptx_mma_scored");
    CHECK(chosen(BFloat16(0), {.head_dim = 128}) == "sdpa_bf16_dany_cuda80_as_ptx_simt_dim128");
    CHECK(chosen(Float16(0), {.head_dim = 16, .value_dim = 16}) == "sdpa_f16_d16_cuda80_as_ptx_simt");
    CHECK(chosen(Float16(0), {.head_dim = 80, .value_dim = 80}) == "sdpa_f16_d80_cuda80_as_ptx_mma");
    CHECK(chosen(Float16(0), {.key_layout = Layout::padded}) == "sdpa_f16_dany_cuda80_as_ptx_simt_dim64");
    CHECK(chosen(0.0f, {}) == "sdpa_f32_d64_cuda80_as_ptx_mma");
    CHECK(chosen(0.0f, {.key_layout = Layout::padded}) == "sdpa_f32_dany_cuda80_as_ptx_simt_dim64");
}

TEST_CASE("device: gradients multiply matrices where type, head size and strides allow it", "[device]") {
    if (skipped_without_matrices()) return;
    attune::Context context;
    const auto chosen = [&](auto zero, const SdpaBackwardCase &c) {
        SdpaBackwardArrays<decltype(zero)> a(c);
        REQUIRE(a.run_forward(context).message() == "");
        attune::SdpaForward f = a.results();
        for (attune::ConstView *v : {&f.out, &f.lse, &f.grad_out}) *v = on_device(*v);
        attune::SdpaOptions options;
        options.softcap = c.forward.softcap;
        REQUIRE(attune::scaled_dot_product_attention_backward(
                    context, on_device(a.forward.query.view()), on_device(a.forward.key.view()),
                    on_device(a.forward.value.view()), f, {.query = on_device(a.grad_query.view())}, options)
                    .message() == "");
        return context.last_variant();
    };
    CHECK(chosen(Float16(0), {}) == "sdpa_backward_f16_d64_cuda80_as_ptx_mma");
    CHECK(chosen(Float16(0), {.forward = {.softcap = 2}}) == "sdpa_backward_f16_d64_cuda80_as_ptx_mma_scored");
    CHECK(chosen(BFloat16(0), {}) == "sdpa_backward_bf16_d64_cuda80_as_ptx_mma");
    CHECK(chosen(Float16(0), {.forward = {.head_dim = 128, .value_dim = 128}}) == "sdpa_backward_f16_d128_cuda80_as_ptx_mma");
    CHECK(chosen(BFloat16(0), {.forward = {.head_dim = 128}}) == "sdpa_backward_bf16_dany_cuda80_as_ptx_simt_dim256_scored");
    CHECK(chosen(Float16(0), {.forward = {.query_layout = Layout::padded}}) ==
          "sdpa_backward_f16_dany_cuda80_as_ptx_simt_dim64_scored");
    CHECK(chosen(Float16(0), {.forward = {}, .grad_layout = Layout::padded}) ==
          "sdpa_backward_f16_dany_cuda80_as_ptx_simt_dim64_scored");
    CHECK(chosen(0.0f, {}) == "sdpa_backward_f32_d64_cuda80_as_ptx_mma");
    CHECK(chosen(0.0f, {.forward = {.head_dim = 128, .value_dim = 128, .softcap = 2}}) ==
          "sdpa_backward_f32_d128_cuda80_as_ptx_simt_scored");
}

TEST_CASE("device: keys are split where queries are few and keys many", "[device]") {
    attune::Context context;
    const auto chosen = [&](auto zero, const SdpaCase &c) {
        SdpaArrays<decltype(zero)> a(c);
        attune::SdpaOptions options;
        options.lse = on_device(a.lse.view());
        REQUIRE(attune::scaled_dot_product_attention(context, on_device(a.query.view()), on_device(a.key.view()),
                                                     on_device(a.value.view()), on_device(a.out.view()), options)
                    .message() == "");
        CHECK(defect(a) == "");
        return context.last_variant();
    };
    const bool matrices = multiplies_matrices();
    const std::string in_parts = matrices ? "mma_split" : "split_scored", whole = matrices ? "mma" : "simt";
    const std::string f32 = "sdpa_f32_d64_cuda80_as_ptx_";
    const SdpaCase few{.query_heads = 8, .key_heads = 2, .queries = 1, .keys = 300};
    CHECK(chosen(0.0f, few) == f32 + in_parts);
    CHECK(chosen(Float16(0), few) == "sdpa_f16_d64_cuda80_as_ptx_" + in_parts);
    SdpaCase other = few;
    other.keys = 64;
    CHECK(chosen(0.0f, other) == f32 + whole);
    other = few, other.queries = 16;  // 64 rows per key head
    CHECK(chosen(0.0f, other) == f32 + in_parts);
    other.queries = 64;
    if (matrices) CHECK(chosen(0.0f, other) == f32 + whole);
    // Neighbours change no bit: heads and batch entries do not count.
    other = few, other.query_heads = 4, other.key_heads = 1, other.batch = 1;
    CHECK(chosen(0.0f, other) == f32 + in_parts);
    other.batch = 40;
    CHECK(chosen(0.0f, other) == f32 + in_parts);
    other = few, other.batch = 1, other.query_heads = 160, other.key_heads = 40;
    CHECK(chosen(0.0f, other) == f32 + in_parts);
    other.keys = 64;
    CHECK(chosen(0.0f, other) == f32 + whole);
    other = few, other.head_dim = 50;
    CHECK(chosen(BFloat16(0), other) == "sdpa_bf16_dany_cuda80_as_ptx_split_dim64_scored");
}

// The number of barriers: a loop over KV blocks that skips a block must not reach its one or two barriers.
TEST_CASE("device: KV blocks that a tile does not see are not come to", "[device]") {
    const DriverCounts *counts = driver_counts();
    if (!counts || !multiplies_matrices()) {
        if (!counts) WARN("SKIPPED: only the interpreter counts barriers");
        return;
    }
    attune::Context context;
    const auto barriers = [&](const SdpaCase &c, std::string_view variant) {
        SdpaArrays<Float16> a(c);
        attune::SdpaOptions options = a.options(variant);
        for (attune::ConstView *v : {&options.offsets, &options.valid_lens}) *v = on_device(*v);
        options.lse = on_device(a.lse.view());
        const long before = counts->barriers;
        REQUIRE(attune::scaled_dot_product_attention(context, on_device(a.query.view()), on_device(a.key.view()),
                                                     on_device(a.value.view()), on_device(a.out.view()), options)
                    .message() == "");
        CHECK(defect(a) == "");
        return counts->barriers - before;
    };
    const SdpaCase few_keys{.batch = 1, .query_heads = 1, .key_heads = 1, .queries = 64, .keys = 96};
    SdpaCase hidden = few_keys;
    hidden.keys = 2000, hidden.causal = attune::Causal::top_left;
    SdpaCase window = few_keys;
    window.keys = 2000, window.window = {40, 20}, window.offset = 900;
    for (const std::string_view variant : {"sdpa_f16_d64_cuda80_as_ptx_mma", "sdpa_f16_d64_cuda80_as_ptx_mma_split"}) {
        const long most = barriers(few_keys, variant) + 8;
        CAPTURE(variant, most);
        // In a split form, splits that see nothing have the barriers around their loops.
        const long of_other_parts = variant.ends_with("split") ? 4 * 4 * 16 : 0;
        CHECK(barriers(hidden, variant) <= most + of_other_parts);
        CHECK(barriers(window, variant) <= most + of_other_parts);
    }
}

TEST_CASE("device: the bits of a batch entry do not depend on the others", "[device]") {
    attune::Context context;
    const SdpaCase c{.batch = 3, .query_heads = 4, .key_heads = 2, .queries = 2, .keys = 300};
    SdpaArrays<float> all(c);
    REQUIRE(attune::scaled_dot_product_attention(context, on_device(all.query.view()), on_device(all.key.view()),
                                                 on_device(all.value.view()), on_device(all.out.view()))
                .ok());
    const auto entry = [](auto view, std::int64_t b) {
        view.data =
            static_cast<decltype(view.data)>((char *)view.data + b * view.stride[0] * static_cast<std::int64_t>(sizeof(float)));
        view.extent[0] = 1;
        return on_device(view);
    };
    SdpaArrays<float> one(c);
    REQUIRE(attune::scaled_dot_product_attention(context, entry(attune::ConstView(all.query.view()), 1),
                                                 entry(attune::ConstView(all.key.view()), 1),
                                                 entry(attune::ConstView(all.value.view()), 1), entry(one.out.view(), 1))
                .ok());
    for (std::int64_t h = 0; h < 4; h++)
        for (std::int64_t i = 0; i < 2; i++)
            for (std::int64_t d = 0; d < 64; d++) CHECK(same_bits(one.out(1, h, i, d), all.out(1, h, i, d)));
}

TEST_CASE("device: no keys, and no queries", "[device]") {
    attune::Context context;
    SdpaArrays<float> no_keys(SdpaCase{.batch = 1, .queries = 5, .keys = 0});
    attune::SdpaOptions options;
    options.lse = on_device(no_keys.lse.view());
    REQUIRE(attune::scaled_dot_product_attention(context, on_device(no_keys.query.view()), on_device(no_keys.key.view()),
                                                 on_device(no_keys.value.view()), on_device(no_keys.out.view()), options)
                .message() == "");
    CHECK(defect(no_keys) == "");
    SdpaArrays<float> no_queries(SdpaCase{.batch = 1, .queries = 0});
    CHECK(attune::scaled_dot_product_attention(context, on_device(no_queries.query.view()), on_device(no_queries.key.view()),
                                               on_device(no_queries.value.view()), on_device(no_queries.out.view()))
              .ok());
}

TEST_CASE("device: a key-value cache whose lengths are on the device", "[device]") {
    SdpaCase c{
        .batch = 2, .queries = 3, .keys = 40, .causal = attune::Causal::offset, .offsets = {11, 20}, .valid_lens = {14, 23}};
    SdpaArrays<float> a(c);
    attune::Context context;
    attune::SdpaOptions options;
    const std::vector<std::int32_t> lens = {11, 20};  // on the heap, since no GPU reaches the stack
    options.causal = attune::Causal::offset;
    options.cache_lens = on_device(attune::ConstView(lens.data(), {2}));
    options.lse = on_device(a.lse.view());
    REQUIRE(attune::scaled_dot_product_attention(context, on_device(a.query.view()), on_device(a.key.view()),
                                                 on_device(a.value.view()), on_device(a.out.view()), options)
                .message() == "");
    CHECK(defect(a) == "");
}

TEST_CASE("device: what is refused", "[device]") {
    Tensors t;
    attune::Context context;
    auto refused = [&](const attune::SdpaOptions &options, const std::string &message) {
        const attune::Status status = t.run(context, options);
        CHECK(!status.ok());
        CHECK(status.message() == message);
    };
    refused({.dropout = {1, 1, 0}}, "dropout: of every weight (probability 1) is not computed on a device");
    refused({.score = attune::Score::cosine}, "score: tensors on a device take dot_product");
    refused({.alibi = true}, "alibi: tensors on a device take alibi_slopes, on the device as well");
    refused({.lse = t.of.lse.view()}, "lse: is on the host, query is on a device");
    refused(
        {.variant = "sdpa_f32_d128_cuda80_as_ptx_simt"},
        "variant: sdpa_f32_d128_cuda80_as_ptx_simt is no variant of cuda80_as_ptx for the type, sizes, alignment and options "
        "of this call");
    const attune::SdpaOptions forced{.variant = "sdpa_f32_d64_cuda80_as_ptx_simt"};
    const attune::Status of_host = t.of.run(context, forced.variant);
    CHECK(of_host.message() == "variant: sdpa_f32_d64_cuda80_as_ptx_simt is for tensors on a device, these are on the host");
    t.key.place = attune::Place::host;
    refused({}, "key: is on the host, query is on a device");
}

TEST_CASE("device: a machine without a driver refuses, or computes on the CPU where the caller allows it", "[no_driver]") {
    REQUIRE(attune::device_backend());
    for (const attune::VariantInfo &v : attune::variants())
        if (v.target == attune::device_backend()->target) CHECK(!v.runs_here);
    const std::string missing = attune::device_backend()->missing();
    if (missing.empty()) {
        WARN("SKIPPED: this machine has a driver");
        return;
    }
    Tensors t;
    attune::Context context;
    const attune::Status status = t.run(context);
    CHECK(status.code() == attune::StatusCode::unsupported);
    CHECK(status.message() == "query: is on a device, but " + missing);
    for (const float x : t.of.out.values()) CHECK(same_bits(x, poison<float>(2)));

    attune::Context allowed({.device = {.cpu_instead = true}});
    attune::SdpaOptions options;
    options.lse = on_device(t.of.lse.view());
    REQUIRE(t.run(allowed, options).message() == "");
    CHECK(defect(t.of) == "");
    CHECK(allowed.last_variant().find("cuda80") == std::string::npos);

    // Other functions behave in the same way.
    SoftmaxCase rows{.place = attune::Place::device};
    check_case<float>(allowed, rows);
    SoftmaxArrays<float> softmax(rows);
    CHECK(attune::masked_softmax(context, on_device(softmax.scores.view()), on_device(softmax.out.view())).message() ==
          "scores: is on a device, but " + missing);
    LinearArrays<float> product({});
    const auto multiply = [&](attune::Context &by) {
        return attune::linear(by, on_device(product.x.view()), on_device(product.weight.view()), on_device(product.bias_view()),
                              on_device(product.out.view()))
            .message();
    };
    CHECK(multiply(context) == "x: is on a device, but " + missing);
    CHECK(multiply(allowed) == "");
    CHECK(defect(product) == "");
    AdditiveArrays<float> additive({.attention = {.queries = 3, .keys = 5}, .hidden = 8, .w_query = false, .w_key = false});
    const auto attend = [&](attune::Context &by) {
        attune::AdditiveOptions o = additive.options({});
        o.w_score = on_device(o.w_score), o.attention.lse = on_device(o.attention.lse);
        return attune::additive_attention(by, on_device(additive.base.query.view()), on_device(additive.base.key.view()),
                                          on_device(additive.base.value.view()), on_device(additive.base.out.view()), o)
            .message();
    };
    CHECK(attend(context) == "query: is on a device, but " + missing);
    CHECK(attend(allowed) == "");
    CHECK(defect(additive) == "");
}
