// SPDX-License-Identifier: MIT
// Gradients of attention by AMX tiles, with the library's arguments for their kernels, against the reference.
#include "attention_backward/sdpa_backward_call.h"
#include "dispatch/variant_table.h"
#include "tests/amx/amx_machine.h"
#include "tests/support/sdpa_backward_case.h"
#include <algorithm>

using namespace attune_test;

extern "C" {
int amx_sdpa_backward_plain_d64_argv(void **);
int amx_sdpa_backward_plain_d128_argv(void **);
int amx_sdpa_backward_training_d64_argv(void **);
int amx_sdpa_backward_plain_d64_f16_argv(void **);
int amx_sdpa_backward_training_d64_f16_argv(void **);
int amx_sdpa_backward_plain_d64_f32_argv(void **);
int amx_sdpa_backward_training_d64_f32_argv(void **);
}

namespace {

using attune::DType;

attune::VariantRecord record(DType dtype, int head_dim, std::string_view kind, int tile_q, int (*kernel)(void **)) {
    return {"under test", "sdpa_backward", dtype, head_dim, "sapphirerapids", "amx", "", kind, "", "", tile_q, 64, {}, "",
            true,         kernel};
}

const attune::VariantRecord &gradient_kernel(DType dtype, std::string_view kind, std::int64_t head_dim) {
    static const attune::VariantRecord all[] = {
        record(DType::bf16, 64, "plain", 32, amx_sdpa_backward_plain_d64_argv),
        record(DType::bf16, 128, "plain", 64, amx_sdpa_backward_plain_d128_argv),
        record(DType::bf16, 64, "training", 32, amx_sdpa_backward_training_d64_argv),
        record(DType::f16, 64, "plain", 32, amx_sdpa_backward_plain_d64_f16_argv),
        record(DType::f16, 64, "training", 32, amx_sdpa_backward_training_d64_f16_argv),
        record(DType::f32, 64, "plain", 32, amx_sdpa_backward_plain_d64_f32_argv),
        record(DType::f32, 64, "training", 32, amx_sdpa_backward_training_d64_f32_argv)};
    return *std::find_if(std::begin(all), std::end(all), [&](const attune::VariantRecord &v) {
        return v.dtype == dtype && v.kind == kind && v.head_dim == head_dim;
    });
}

template<typename T>
attune::Status run(attune::Context &context, SdpaBackwardArrays<T> &a, std::string_view kind, unsigned wanted = want_all) {
    const attune::SdpaOptions options = a.options();
    attune::BackwardCall call;
    attune::Status status = attune::check_sdpa_backward(a.forward.query.view(), a.forward.key.view(), a.forward.value.view(),
                                                        a.results(), a.gradients(wanted), options, call);
    if (!status.ok()) return status;
    call.forward.op = attune::ops::sdpa_backward, call.capture_op = attune::ops::capture_gradient;
    call.forward.scale = attune::scale_of(options, a.f().head_dim);
    attune::BackwardChoice choice;
    // Chooses all but the kernel of the tiles, which has the same KV block and the same outputs as the chosen one.
    if (status = attune::choose_backward(state_of(context), call, {}, choice); !status.ok()) return status;
    choice.tiles = {&gradient_kernel(call.forward.sizes.dtype, kind, a.f().head_dim), "the kernel under test"};
    return run_backward(context, call, choice, state_of(context).threads);
}

template<typename T>
void check(attune::Context &context, SdpaBackwardArrays<T> &a, std::string_view kind = "plain", unsigned wanted = want_all) {
    attune::Status status = a.run_forward(context);
    INFO(kind << ' ' << describe(a.the) << ' ' << status.message());
    REQUIRE(status.ok());
    status = run(context, a, kind, wanted);
    INFO(status.message());
    REQUIRE(status.ok());
    CHECK(defect(a, ExpectedGradients<T>(a), wanted) == "");
}
template<typename T>
void check(attune::Context &context, const SdpaCase &c, std::string_view kind = "plain", unsigned wanted = want_all) {
    SdpaBackwardArrays<T> a({.forward = c, .grad_lse = c.seed % 2 == 0});
    check(context, a, kind, wanted);
}

}  // namespace

TEMPLATE_TEST_CASE("AMX tiles: gradients of awkward sizes", "[amx]", BFloat16, Float16, float) {
    const Machine machine;
    if (!machine.runs()) return;
    attune::Context context({.threads = 2});
    unsigned seed = 1;
    const bool parts = !std::is_same_v<TestType, BFloat16>;
    for (const std::int64_t head_dim : parts ? std::vector<std::int64_t>{64} : std::vector<std::int64_t>{64, 128})
        for (const auto &[queries, keys] :
             {std::pair(1, 1), {1, 64}, {31, 63}, {32, 64}, {33, 65}, {64, 64}, {65, 129}, {2, 131}, {131, 3}}) {
            SdpaCase c = of_sizes(queries, keys, seed++);
            c.head_dim = c.value_dim = head_dim;
            check<TestType>(context, c);
        }
    CHECK(machine.multiplied());
}

TEMPLATE_TEST_CASE("AMX tiles: gradients with shared key heads, layouts, causal masks, windows and lengths", "[amx]", BFloat16,
                   Float16, float) {
    const Machine machine;
    if (!machine.runs()) return;
    attune::Context context({.threads = 2});
    SdpaBackwardCase c{.forward = of_sizes(67, 131, 1)};
    c.forward.head_dim = c.forward.value_dim = 64;
    unsigned wanted = want_all;
    SECTION("grouped queries") { c.forward.query_heads = 4, c.forward.key_heads = 2; }
    SECTION("one key head") { c.forward.query_heads = 3, c.forward.key_heads = 1; }
    SECTION("one head, whose tiles are shared among threads") { c.forward.query_heads = c.forward.key_heads = 1; }
    SECTION("that of query alone") { wanted = want_query; }
    SECTION("that of key alone") { wanted = want_key; }
    SECTION("layouts") {
        c.forward.batch = 2, c.grad_layout = Layout::padded;
        c.forward.query_layout = Layout::bshd, c.forward.key_layout = Layout::padded, c.forward.value_layout = Layout::reversed;
        c.forward.out_layout = Layout::fused, c.forward.strided_lse = true;
    }
    SECTION("causal, from the first key") { c.forward.causal = attune::Causal::top_left; }
    SECTION("causal, to the last key") { c.forward.causal = attune::Causal::bottom_right; }
    SECTION("window") { c.forward.causal = attune::Causal::bottom_right, c.forward.window = {60, 0}; }
    SECTION("lengths") { c.forward.batch = 4, c.forward.valid_lens = {0, 1, 70, 131}; }
    SECTION("large scores") { c.forward.spread = 40, c.forward.key_noise = 0.1; }
    SdpaBackwardArrays<TestType> a(c);
    check(context, a, "plain", wanted);
}

TEMPLATE_TEST_CASE("AMX tiles: gradients of steps of scores, and dropout", "[amx]", BFloat16, Float16, float) {
    const Machine machine;
    if (!machine.runs()) return;
    attune::Context context({.threads = 2});
    SdpaCase c = of_sizes(70, 128, 1);
    c.head_dim = c.value_dim = 64;
    SECTION("none") {}
    SECTION("softcap") { c.softcap = 5; }
    SECTION("bias of each pair") { c.bias = "bhij"; }
    SECTION("bias that is shared") { c.bias = "h1j", c.keys = 131; }
    SECTION("mask") { c.mask = "ij"; }
    SECTION("ALiBi and sinks") { c.alibi = Alibi::per_head, c.sinks = true; }
    SECTION("dropout") { c.dropout = {.probability = 0.3, .seed = 7}; }
    SECTION("all of them") {
        c.batch = 2, c.keys = 131, c.softcap = 20, c.bias = "h1j", c.mask = "b11j", c.alibi = Alibi::per_head, c.sinks = true;
        c.causal = attune::Causal::bottom_right, c.valid_lens = {70, 131}, c.dropout = {.probability = 0.1, .seed = 3};
    }
    check<TestType>(context, c, "training");
    CHECK(machine.multiplied());
}

TEMPLATE_TEST_CASE("AMX tiles: what hidden keys and values hold has no effect on gradients", "[amx]", BFloat16, Float16,
                   float) {
    const Machine machine;
    if (!machine.runs()) return;
    attune::Context context({.threads = 2});
    for (const std::string_view kind : {"plain", "training"}) {
        SdpaCase c = of_sizes(67, 195, 5);
        c.head_dim = c.value_dim = 64;
        c.query_heads = c.key_heads = 1, c.batch = 3, c.valid_lens = {0, 67, 130};
        SdpaBackwardArrays<TestType> lengths({.forward = c});
        spoil_hidden_keys(lengths.forward);
        check(context, lengths, kind);
        c.batch = 1, c.valid_lens = {}, c.causal = attune::Causal::offset, c.offset = 70;
        SdpaBackwardArrays<TestType> causal({.forward = c});
        spoil_hidden_keys(causal.forward);
        check(context, causal, kind);
        c.causal = attune::Causal::bottom_right, c.offset = {}, c.window = {30, 0};
        SdpaBackwardArrays<TestType> window({.forward = c});
        spoil_hidden_keys(window.forward);
        check(context, window, kind);
    }
}

TEMPLATE_TEST_CASE("AMX tiles: the same bits of gradients by one thread and by two", "[amx]", BFloat16, Float16, float) {
    const Machine machine;
    if (!machine.runs()) return;
    attune::Context one({.threads = 1}), two({.threads = 2});
    SdpaCase c = of_sizes(170, 200, 9);
    c.query_heads = c.key_heads = 1, c.head_dim = c.value_dim = 64, c.causal = attune::Causal::bottom_right;
    SdpaBackwardArrays<TestType> by_one({.forward = c}), by_two({.forward = c});
    REQUIRE(by_one.run_forward(one).ok());
    REQUIRE(by_two.run_forward(one).ok());
    REQUIRE(run(one, by_one, "plain").ok());
    REQUIRE(run(two, by_two, "plain").ok());
    CHECK(by_one.bits() == by_two.bits());
    CHECK(machine.multiplied());
}
