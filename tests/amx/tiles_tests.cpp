// SPDX-License-Identifier: MIT
// Kernels that multiply with AMX tiles, with the library's arguments, against the reference (docs/conventions.md): on a CPU
// without AMX its instructions are emulated, so that these tests run on any CPU with AVX-512 and bf16.
#include "attention/sdpa_call.h"
#include "dispatch/variant_table.h"
#include "execution/halide_call.h"
#include "layers/linear_call.h"
#include "tests/amx/amx_machine.h"
#include "tests/support/linear_case.h"
#include "tests/support/sdpa_arrays.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

using namespace attune_test;

extern "C" {
int amx_sdpa_plain_d64_argv(void **);
int amx_sdpa_plain_d128_argv(void **);
int amx_sdpa_scored_d64_argv(void **);
int amx_sdpa_training_d64_argv(void **);
int amx_sdpa_plain_d64_f16_argv(void **);
int amx_sdpa_plain_d64_f32_argv(void **);
int amx_sdpa_plain_d128_f32_argv(void **);
int amx_sdpa_scored_d64_f32_argv(void **);
int amx_linear_many_rows_argv(void **);
int amx_linear_depth_in_cache_argv(void **);
int amx_linear_rows16_argv(void **);
int amx_linear_rows32_argv(void **);
int amx_linear_packed_argv(void **);
int amx_linear_packed_rows16_argv(void **);
int amx_linear_packed_many_rows_argv(void **);
}

namespace {

template<class T> const attune::VariantRecord &sdpa_kernel(std::string_view kind, std::int64_t head_dim) {
    using attune::DType;
    const auto record = [](const char *name, DType type, int head_dim, const char *kind, int tile_q, int kv_block,
                           int (*kernel)(void **)) {
        return attune::VariantRecord{name,   "sdpa", type, head_dim, "sapphirerapids", "amx",
                                     "long", kind,   "",   "",       tile_q,           kv_block,
                                     {},     "",     true, kernel};
    };
    static const attune::VariantRecord all[] = {
        record("d64", DType::bf16, 64, "plain", 64, 128, amx_sdpa_plain_d64_argv),
        record("d128", DType::bf16, 128, "plain", 64, 128, amx_sdpa_plain_d128_argv),
        record("scored", DType::bf16, 64, "scored", 32, 64, amx_sdpa_scored_d64_argv),
        record("d64_f32", DType::f32, 64, "plain", 32, 64, amx_sdpa_plain_d64_f32_argv),
        record("d128_f32", DType::f32, 128, "plain", 128, 128, amx_sdpa_plain_d128_f32_argv),
        record("scored_f32", DType::f32, 64, "scored", 32, 64, amx_sdpa_scored_d64_f32_argv),
        record("training", DType::bf16, 64, "training", 32, 64, amx_sdpa_training_d64_argv),
        record("d64_f16", DType::f16, 64, "plain", 32, 64, amx_sdpa_plain_d64_f16_argv)};
    const DType type = attune::dtype_of<T>();
    return *std::find_if(std::begin(all), std::end(all), [&](const attune::VariantRecord &v) {
        return v.dtype == type && v.kind == kind && v.head_dim == head_dim;
    });
}

template<class T> attune::Status check(SdpaArrays<T> &a, attune::SdpaCall &call) {
    const attune::SdpaOptions options = a.options({});
    const attune::Status checked =
        check_attention(a.query.view(), a.key.view(), a.value.view(), a.out.view(), options, {}, call);
    call.scale = attune::scale_of(options, a.the.head_dim);
    return checked;
}

template<class T> attune::Status run(attune::Context &context, SdpaArrays<T> &a, std::string_view kind) {
    attune::SdpaCall call;
    if (const attune::Status checked = check(a, call); !checked.ok()) return checked;
    return run_kernel(state_of(context), call, sdpa_kernel<T>(kind, a.the.head_dim), nullptr);
}

template<class T> void check_sdpa(attune::Context &context, SdpaArrays<T> &a, std::string_view kind = "plain") {
    const attune::Status status = run(context, a, kind);
    INFO(kind << ' ' << describe(a.the) << ' ' << status.message());
    REQUIRE(status.ok());
    CHECK(defect(a) == "");
}
template<class T> void check_sdpa(attune::Context &context, const SdpaCase &c, std::string_view kind = "plain") {
    SdpaArrays<T> a(c);
    check_sdpa(context, a, kind);
}

attune::Status run(attune::Context &context, LinearArrays<BFloat16> &a, int threads, int (*kernel)(void **) = nullptr) {
    const attune::View x = a.x.view(), out = a.out.view();
    attune::ConstView weight = a.weight_view(context);
    const BFloat16 zero;
    const attune::ConstView bias = a.c.bias ? attune::ConstView(a.bias.view()) : attune::ConstView(&zero, {a.c.columns}, {0});
    if (!kernel) kernel = a.c.packed ? amx_linear_packed_argv : amx_linear_many_rows_argv;
    if (a.c.packed && kernel != amx_linear_packed_argv) weight = attune::as_one_matrix(weight);
    attune::HalideBuffer x_buffer(x), weight_buffer(weight), bias_buffer(bias), out_buffer(out);
    std::int32_t ahead = 0, task_tiles = 2;
    void *args[] = {nullptr, x_buffer.get(), weight_buffer.get(), bias_buffer.get(), &ahead, &task_tiles, out_buffer.get()};
    return call_kernel(state_of(context), kernel, args, threads);
}

}  // namespace

TEMPLATE_TEST_CASE("AMX tiles: attention of awkward sizes", "[amx]", BFloat16, Float16, float) {
    const Machine machine;
    if (!machine.runs()) return;
    attune::Context context({.threads = 2});
    unsigned seed = 1;
    for (const auto &[queries, keys] : {std::pair(1, 1), {1, 128}, {63, 127}, {64, 128}, {65, 129}, {2, 257}, {37, 131}})
        check_sdpa<TestType>(context, of_sizes(queries, keys, seed++));
    if (!std::is_same_v<TestType, Float16>)
        for (const auto &[queries, keys] : {std::pair(1, 127), {13, 128}, {65, 259}}) {
            SdpaCase c = of_sizes(queries, keys, seed++);
            c.head_dim = c.value_dim = 128;
            check_sdpa<TestType>(context, c);
        }
    CHECK(machine.multiplied());
}

TEMPLATE_TEST_CASE("AMX tiles: attention with shared key heads, layouts, causal masks, windows and lengths", "[amx]", BFloat16,
                   Float16, float) {
    const Machine machine;
    if (!machine.runs()) return;
    attune::Context context({.threads = 2});
    SdpaCase c = of_sizes(67, 257, 1);
    SECTION("grouped queries") { c.query_heads = 4, c.key_heads = 2; }
    SECTION("one key head") { c.query_heads = 3, c.key_heads = 1; }
    SECTION("layouts") {
        c.batch = 2;
        c.query_layout = Layout::bshd, c.key_layout = Layout::padded, c.value_layout = Layout::reversed;
        c.out_layout = Layout::fused, c.strided_lse = true;
    }
    SECTION("one element off") { c.query_layout = c.key_layout = c.value_layout = c.out_layout = Layout::shifted; }
    SECTION("causal, from the first key") { c.causal = attune::Causal::top_left; }
    SECTION("causal, to the last key") { c.causal = attune::Causal::bottom_right; }
    SECTION("window") { c.causal = attune::Causal::bottom_right, c.window = {160, 0}; }
    SECTION("lengths") { c.batch = 4, c.valid_lens = {0, 1, 131, 257}; }
    SECTION("large scores") { c.spread = 40, c.key_noise = 0.1; }
    check_sdpa<TestType>(context, c);
}

TEMPLATE_TEST_CASE("AMX tiles: steps of scores", "[amx]", BFloat16, float) {
    const Machine machine;
    if (!machine.runs()) return;
    attune::Context context({.threads = 2});
    SdpaCase c = of_sizes(35, 131, 1);
    SECTION("none") {}
    SECTION("softcap") { c.softcap = 5; }
    SECTION("bias") { c.bias = "bhij"; }
    SECTION("mask") { c.mask = "ij"; }
    SECTION("ALiBi and sinks") { c.alibi = Alibi::standard, c.sinks = true; }
    SECTION("all of them") {
        c.batch = 2, c.softcap = 20, c.bias = "h1j", c.mask = "b11j", c.alibi = Alibi::per_head, c.sinks = true;
        c.causal = attune::Causal::bottom_right, c.valid_lens = {70, 131};
    }
    check_sdpa<TestType>(context, c, "scored");
    // Where a table may hide keys, KV blocks are computed by pairs instead of tiles.
    if (c.bias.empty() && c.mask.empty()) CHECK(machine.multiplied());
}

TEST_CASE("AMX tiles: dropout", "[amx]") {
    const Machine machine;
    if (!machine.runs()) return;
    attune::Context context({.threads = 2});
    SdpaCase c = of_sizes(37, 131, 1);
    c.dropout = {.probability = 0.3, .seed = 7};
    SECTION("whole KV blocks and the last") {}
    SECTION("causal, with a bias") { c.causal = attune::Causal::bottom_right, c.bias = "hij"; }
    check_sdpa<BFloat16>(context, c, "training");
    if (c.bias.empty()) CHECK(machine.multiplied());
}

TEMPLATE_TEST_CASE("AMX tiles: what hidden keys and values hold has no effect", "[amx]", BFloat16, Float16, float) {
    const Machine machine;
    if (!machine.runs()) return;
    attune::Context context({.threads = 2});
    for (const std::string_view kind : {"plain", "scored"}) {
        if (kind == "scored" && std::is_same_v<TestType, Float16>) continue;
        SdpaCase c = of_sizes(33, 261, 5);
        c.key_heads = 1, c.batch = 3, c.valid_lens = {0, 133, 190};
        SdpaArrays<TestType> lengths(c);
        spoil_hidden_keys(lengths);
        check_sdpa(context, lengths, kind);
        c.batch = 1, c.valid_lens = {}, c.causal = attune::Causal::offset, c.offset = 140;
        SdpaArrays<TestType> causal(c);
        spoil_hidden_keys(causal);
        check_sdpa<TestType>(context, causal, kind);
        c.causal = attune::Causal::bottom_right, c.offset = {}, c.window = {30, 0};
        SdpaArrays<TestType> window(c);
        spoil_hidden_keys(window);
        check_sdpa(context, window, kind);
    }
}

TEST_CASE("AMX tiles: f32 is the sum of its parts", "[amx]") {
    const Machine machine;
    if (!machine.runs()) return;
    attune::Context context({.threads = 1});
    using Limits = std::numeric_limits<float>;
    const float infinity = Limits::infinity();
    const std::vector<float> numbers = {0.1f,
                                        -0.1f,
                                        Limits::max(),
                                        Limits::lowest(),
                                        1 + Limits::epsilon(),
                                        16777215.f,
                                        -1e-30f,
                                        3e-20f,
                                        0.f,
                                        1e30f / 3,
                                        infinity,
                                        -infinity,
                                        Limits::quiet_NaN(),
                                        std::bit_cast<float>(0x7f800001u),
                                        std::bit_cast<float>(0x3f7fffffu)};
    // With one key a query gets its value.
    SdpaArrays<float> one(of_sizes(2, 1, 3));
    for (std::int64_t d = 0; d < one.the.head_dim; d++) one.value(0, 0, 0, d) = numbers[std::size_t(d) % numbers.size()];
    REQUIRE(run(context, one, "plain").ok());
    for (std::int64_t d = 0; d < one.the.head_dim; d++) {
        const float value = one.value(0, 0, 0, d), out = one.out(0, 0, 1, d);
        INFO("value " << value << " out " << out);
        CHECK((std::isnan(value) ? std::isnan(out) : value == out));
    }
    // In a KV block that no mask touches, an infinite value reaches its channel, a NaN in a query its row, and nothing else.
    SdpaArrays<float> kv_block(of_sizes(5, 64, 4));
    kv_block.value(0, 0, 7, 3) = infinity, kv_block.value(0, 0, 9, 4) = -infinity,
                            kv_block.value(0, 0, 11, 5) = Limits::quiet_NaN();
    kv_block.query(0, 0, 2, 6) = Limits::quiet_NaN();
    REQUIRE(run(context, kv_block, "plain").ok());
    for (std::int64_t i = 0; i < 5; i++)
        for (std::int64_t d = 0; d < kv_block.the.head_dim; d++) {
            const float out = kv_block.out(0, 0, i, d);
            INFO("query " << i << " channel " << d << ' ' << out);
            if (i == 2 || d == 5)
                CHECK(std::isnan(out));
            else if (d == 3 || d == 4)
                CHECK(out == (d == 3 ? infinity : -infinity));
            else
                CHECK(std::isfinite(out));
        }
    CHECK(machine.multiplied());
}

TEST_CASE("AMX tiles: each f16 is the sum of its parts", "[amx]") {
    const Machine machine;
    if (!machine.runs()) return;
    attune::Context context({.threads = 1});
    // With one visible key a query gets its value.
    SdpaCase c = of_sizes(64, 64, 1);
    c.batch = 16, c.query_heads = c.key_heads = 1, c.head_dim = c.value_dim = 64, c.window = {0, 0};
    SdpaArrays<Float16> each(c);
    for (std::int64_t b = 0; b < c.batch; b++)
        for (std::int64_t j = 0; j < c.keys; j++)
            for (std::int64_t d = 0; d < c.value_dim; d++)
                each.value(b, 0, j, d) = std::bit_cast<Float16>(std::uint16_t((b * c.keys + j) * c.value_dim + d));
    REQUIRE(run(context, each, "plain").ok());
    std::int64_t wrong = 0;
    for (std::int64_t b = 0; b < c.batch; b++)
        for (std::int64_t j = 0; j < c.keys; j++)
            for (std::int64_t d = 0; d < c.value_dim; d++) {
                const float value = float(each.value(b, 0, j, d)), out = float(each.out(b, 0, j, d));
                wrong += std::isnan(value) ? !std::isnan(out) : value != out;
            }
    CHECK(wrong == 0);
    // An infinite key times a number without a second part: 1 is not split into 1 and 0.
    SdpaArrays<Float16> kv_block(of_sizes(2, 64, 4));
    for (std::int64_t d = 0; d < c.head_dim; d++)
        kv_block.query(0, 0, 0, d) = Float16(1), kv_block.query(0, 0, 1, d) = Float16(d == 5 ? 0.f : -1.f);
    kv_block.key(0, 0, 9, 5) = Float16(-std::numeric_limits<float>::infinity());
    REQUIRE(run(context, kv_block, "plain").ok());
    CHECK(std::isfinite(float(kv_block.out(0, 0, 0, 0))));  // the key has no weight
    CHECK(std::isnan(float(kv_block.out(0, 0, 1, 0))));     // 0 times infinity
    CHECK(machine.multiplied());
}

TEST_CASE("AMX tiles: linear layers of awkward sizes", "[amx]") {
    const Machine machine;
    if (!machine.runs()) return;
    attune::Context context({.threads = 2});
    const std::int64_t rows[] = {1, 15, 16, 17, 37, 64, 65}, columns[] = {1, 63, 65, 16, 64, 101};
    unsigned seed = 1;
    for (const std::int64_t depth : {1, 2, 3, 31, 32, 33, 255, 256, 257, 515}) {
        LinearCase c;
        c.leading = {1 + (seed % 7 < 3), 1, rows[seed % 7]}, c.columns = columns[seed % 6], c.depth = depth;
        c.bias = seed % 2, c.order = Order(seed % 4), c.seed = seed;
        seed++;
        LinearArrays<BFloat16> a(c);
        const attune::Status status = run(context, a, 2);
        INFO(describe(c) << ' ' << status.message());
        REQUIRE(status.ok());
        CHECK(defect(a) == "");
        LinearArrays<BFloat16> packed(c);
        packed.c.packed = true;
        REQUIRE(run(context, packed, 2).ok());
        CHECK(same_bits(a.out.values(), packed.out.values()));
        for (const auto kernel : {amx_linear_depth_in_cache_argv, amx_linear_rows16_argv}) {
            LinearArrays<BFloat16> other(c);
            REQUIRE(run(context, other, 2, kernel).ok());
            CHECK(same_bits(a.out.values(), other.out.values()));
        }
        c.columns = std::max<std::int64_t>(c.columns, 32), c.depth = (depth + 31) / 32 * 32;
        LinearArrays<BFloat16> many(c), whole(c);
        REQUIRE(run(context, many, 2).ok());
        REQUIRE(run(context, whole, 2, amx_linear_rows32_argv).ok());
        CHECK(defect(whole) == "");
        CHECK(same_bits(many.out.values(), whole.out.values()));
        for (const auto kernel : {amx_linear_packed_rows16_argv, amx_linear_packed_many_rows_argv}) {
            LinearArrays<BFloat16> panels(c);
            panels.c.packed = true;
            REQUIRE(run(context, panels, 2, kernel).ok());
            CHECK(same_bits(many.out.values(), panels.out.values()));
        }
    }
    CHECK(machine.multiplied());
}

TEST_CASE("AMX tiles: few heads at a time have the bits of all", "[amx]") {
    const Machine machine;
    if (!machine.runs()) return;
    attune::Context context;
    for (const std::string_view kind : {"scored", "training"}) {
        SdpaCase c{.batch = 2, .query_heads = 6, .key_heads = 3, .queries = 37, .keys = 131, .head_dim = 64, .value_dim = 64};
        c.valid_lens = {131, 70}, c.sinks = true, c.alibi = Alibi::standard, c.bias = "hij", c.mask = "b1ij", c.softcap = 3;
        if (kind == "training") c.dropout = {.probability = 0.3, .seed = 11};
        SdpaArrays<BFloat16> whole(c), parts(c);
        REQUIRE(run(context, whole, kind).ok());
        attune::SdpaCall call;
        REQUIRE(check(parts, call).ok());
        for (std::int64_t b = 0; b < c.batch; b++)
            for (const auto &[first, end] : {std::pair<std::int64_t, std::int64_t>(0, 1), {1, 3}}) {
                const attune::SdpaCall part = slice_key_heads(slice(call, b, b + 1), first, end);
                REQUIRE(run_kernel(state_of(context), part, sdpa_kernel<BFloat16>(kind, 64), nullptr).ok());
            }
        INFO(kind);
        CHECK(same_bits(parts.out.values(), whole.out.values()));
        CHECK(same_bits(parts.lse.values(), whole.lse.values()));
    }
}

TEST_CASE("AMX tiles: copies of keys and values are bounded", "[amx]") {
    const attune::VariantRecord &tiles = sdpa_kernel<BFloat16>("plain", 128);
    attune::SdpaProblem p{.dtype = attune::DType::bf16,
                          .batch = 3,
                          .query_heads = 64,
                          .key_heads = 16,
                          .queries = 64,
                          .keys = 1024,
                          .head_dim = 128,
                          .value_dim = 128};
    CHECK(key_heads_together(tiles, p, 2) == 3 * 16);
    p.keys = 16384;  // 10 MiB per head: 128 channels for keys and values each, and room for 32 more, of 2 bytes
    CHECK(key_heads_together(tiles, p, 2) == 6);
    CHECK(key_heads_together(tiles, p, 64) == 16);
    p.keys = 1 << 20;
    CHECK(key_heads_together(tiles, p, 2) == 2);
    attune::Context context({.threads = 2});
    const auto of_head = static_cast<std::size_t>(640 * p.keys);
    CHECK(sdpa_workspace_bytes(state_of(context), tiles, p) < 4 * of_head);  // the copies of 2, and the weighted sums of tasks
}

TEST_CASE("AMX tiles: the same bits by one thread and by two", "[amx]") {
    const Machine machine;
    if (!machine.runs()) return;
    attune::Context one({.threads = 1}), two({.threads = 2});
    SdpaCase c = of_sizes(70, 200, 9);
    c.key_heads = 1, c.causal = attune::Causal::bottom_right;
    SdpaArrays<BFloat16> by_one(c), by_two(c);
    REQUIRE(run(one, by_one, "plain").ok());
    REQUIRE(run(two, by_two, "plain").ok());
    CHECK(same_bits(by_one.out.values(), by_two.out.values()));
    CHECK(same_bits(by_one.lse.values(), by_two.lse.values()));

    LinearCase layer;
    layer.leading = {1, 1, 81}, layer.columns = 65, layer.depth = 257;
    LinearArrays<BFloat16> rows_by_one(layer), rows_by_two(layer);
    REQUIRE(run(one, rows_by_one, 1).ok());
    REQUIRE(run(two, rows_by_two, 2).ok());
    CHECK(same_bits(rows_by_one.out.values(), rows_by_two.out.values()));
    CHECK(machine.multiplied());
}
