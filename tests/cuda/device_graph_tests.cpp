// SPDX-License-Identifier: MIT
// Calls on a device with a workspace: captured in a graph, which the interpreting driver keeps and replays; sizes and refusals.
#include "tests/cuda/device_variants.h"
#include "tests/cuda/ptx/driver_counts.h"
#include "tests/support/additive_case.h"
#include "tests/support/append_case.h"
#include "tests/support/linear_case.h"
#include "tests/support/merge_parts_case.h"
#include "tests/support/multi_head_case.h"
#include "tests/support/packed_backward_case.h"
#include "tests/support/paged_case.h"
#include "tests/support/sdpa_backward_case.h"
#include <dlfcn.h>
#include <functional>
#include <memory>

using namespace attune_test;
using attune::Place;

namespace {

template<typename F> F *of_driver(const char *name) { return reinterpret_cast<F *>(dlsym(RTLD_DEFAULT, name)); }
const DriverCounts *driver_counts() {
    auto *ask = of_driver<const DriverCounts *()>("attune_driver_counts");
    return ask ? ask() : nullptr;
}
bool is_interpreted() {
    if (driver_counts()) return true;
    WARN("SKIPPED: only the interpreter captures graphs here");
    return false;
}

struct Workspace {
    std::size_t bytes;
    std::unique_ptr<void, decltype(&std::free)> data;
    explicit Workspace(std::size_t wanted)
        : bytes((wanted + 255) / 256 * 256), data(std::aligned_alloc(256, std::max<std::size_t>(bytes, 256)), &std::free) {}
    attune::DeviceOptions options() const {
        attune::DeviceOptions device;
        device.workspace = data.get(), device.workspace_bytes = bytes;
        return device;
    }
};

// A call: run() by a Context, its result, and changes of the inputs and of the result.
struct Call {
    std::string name;
    std::function<attune::Status(attune::Context &)> run;
    std::function<std::vector<float>()> result;
    std::function<void()> change, forget;
    bool takes_scratch = true;
};

template<typename T> void refill(Array<T> &a, unsigned seed) {
    std::mt19937 random(seed);
    a.randomise(random, 1.7);
}

Call forward(const SdpaCase &c) {
    auto a = std::make_shared<SdpaArrays<float>>(c);
    return {"sdpa",
            [=](attune::Context &context) {
                attune::SdpaOptions options = a->options({});
                options.lse = {};
                return attune::scaled_dot_product_attention(context, on_device(a->query.view()), on_device(a->key.view()),
                                                            on_device(a->value.view()), on_device(a->out.view()), options);
            },
            [=] { return a->out.values(); }, [=] { refill(a->query, 77), refill(a->key, 78), refill(a->value, 79); },
            [=] { refill(a->out, 80); }};
}
Call weights() {
    SdpaCase c{.queries = 5, .keys = 7};
    c.weights = attune::WeightsMode::probabilities;
    auto a = std::make_shared<SdpaArrays<float>>(c);
    return {"weights",
            [=](attune::Context &context) {
                attune::SdpaOptions options = a->options({});
                options.lse = {}, options.weights = on_device(options.weights);
                return attune::scaled_dot_product_attention(context, on_device(a->query.view()), on_device(a->key.view()),
                                                            on_device(a->value.view()), on_device(a->out.view()), options);
            },
            [=] { return a->weights.values(); }, [=] { refill(a->query, 77), refill(a->key, 78); },
            [=] { refill(a->weights, 80); }};
}
Call backward() {
    const SdpaBackwardCase c{.forward = {.queries = 20, .keys = 30}};
    auto a = std::make_shared<SdpaBackwardArrays<float>>(c);
    attune::Context host;
    REQUIRE(a->run_forward(host).message() == "");
    return {"gradients",
            [=](attune::Context &context) {
                return attune::scaled_dot_product_attention_backward(
                    context, on_device(a->forward.query.view()), on_device(a->forward.key.view()),
                    on_device(a->forward.value.view()), there(a->results()), {.key = on_device(a->grad_key.view())});
            },
            [=] { return a->grad_key.values(); }, [=] { refill(a->grad_out, 77); }, [=] { refill(a->grad_key, 80); }};
}
Call bias_gradient() {
    auto a =
        std::make_shared<SdpaBackwardArrays<float>>(SdpaBackwardCase{.forward = {.queries = 20, .keys = 30, .bias = "ij"}});
    attune::Context host;
    REQUIRE(a->run_forward(host).message() == "");
    return {"gradient by bias",
            [=](attune::Context &context) {
                attune::SdpaOptions options = a->options({});
                options.bias = on_device(options.bias);
                return attune::scaled_dot_product_attention_backward(
                    context, on_device(a->forward.query.view()), on_device(a->forward.key.view()),
                    on_device(a->forward.value.view()), there(a->results()), {.bias = on_device(a->grad_bias.view())}, options);
            },
            [=] { return a->grad_bias.values(); }, [=] { refill(a->grad_out, 77); }, [=] { refill(a->grad_bias, 80); }};
}
Call layer() {
    auto a = std::make_shared<MultiHeadArrays<float>>(MultiHeadCase{
        .attention = {.query_heads = 2, .key_heads = 1, .queries = 9, .keys = 300}, .query_bias = true, .out_bias = true});
    return {"layer",
            [=](attune::Context &context) {
                return attune::multi_head_attention(context, on_device(a->query.view()), on_device(a->key_view()),
                                                    on_device(a->value_view()), there(a->weights()), on_device(a->out.view()),
                                                    there(a->options()));
            },
            [=] { return a->out.values(); }, [=] { refill(a->query, 77), refill(a->key, 78); }, [=] { refill(a->out, 80); }};
}
Call merge() {
    MergePartsCase c;
    c.place = Place::device, c.wants_lse = false;
    auto a = std::make_shared<MergePartsArrays<float>>(c);
    return {"merge", [=](attune::Context &context) { return a->run(context); }, [=] { return a->out.values(); },
            [=] { refill(a->outs[1], 77), refill(a->lses[0], 78); }, [=] { refill(a->out, 80); }};
}
Call product() {
    auto a = std::make_shared<LinearArrays<float>>(LinearCase{.leading = {9}, .columns = 20, .depth = 33});
    return {"linear",
            [=](attune::Context &context) {
                return attune::linear(context, on_device(a->x.view()), on_device(a->weight.view()), on_device(a->bias_view()),
                                      on_device(a->out.view()));
            },
            [=] { return a->out.values(); },
            [=] { refill(a->x, 77); },
            [=] { refill(a->out, 80); },
            false};
}
Call packed() {
    auto a = std::make_shared<PackedArrays<float>>(
        PackedCase{.queries = {3, 0, 1, 5}, .keys = {3, 4, 0, 300}, .head_dim = 64, .value_dim = 64});
    return {"packed",
            [=](attune::Context &context) {
                return attune::variable_length_attention(context, on_device(a->query.view()), on_device(a->key.view()),
                                                         on_device(a->value.view()), a->cu_seqlens_q(), a->cu_seqlens_k(),
                                                         on_device(a->out.view()));
            },
            [=] { return a->out.values(); }, [=] { refill(a->query, 77), refill(a->value, 78); }, [=] { refill(a->out, 80); }};
}

Call packed_gradients() {
    struct Arrays {
        std::vector<float> slopes, sinks;
        PackedBackwardArrays<float> of;
        Arrays()
            : slopes(4, 0.125f), sinks(4, 0.5f),
              of(PackedCase{.queries = {3, 0, 9, 0}, .keys = {4, 2, 9, 0}, .head_dim = 64, .value_dim = 64},
                 {.alibi_slopes = {slopes.data(), {4}}, .sinks = {sinks.data(), {4}}}) {}
    };
    auto a = std::make_shared<Arrays>();
    attune::Context host;
    REQUIRE(a->of.run_forward(host).message() == "");
    return {"packed gradients",
            [=](attune::Context &context) {
                PackedBackwardArrays<float> &of = a->of;
                attune::SdpaForward f = of.results();
                for (attune::ConstView *v : {&f.out, &f.lse, &f.grad_out, &f.grad_lse}) *v = on_device(*v);
                const attune::SdpaOptions options{.alibi_slopes = on_device(of.options.alibi_slopes),
                                                  .sinks = on_device(of.options.sinks)};
                return attune::variable_length_attention_backward(
                    context, on_device(of.forward.query.view()), on_device(of.forward.key.view()),
                    on_device(of.forward.value.view()), of.forward.cu_seqlens_q(), of.forward.cu_seqlens_k(), f,
                    {.alibi_slopes = on_device(of.grad_slopes.view()), .sinks = on_device(of.grad_sinks.view())}, options);
            },
            [=] {
                std::vector<float> both = a->of.grad_slopes.values();
                for (const float x : a->of.grad_sinks.values()) both.push_back(x);
                return both;
            },
            [=] { refill(a->of.grad_out, 77); }, [=] { refill(a->of.grad_slopes, 80), refill(a->of.grad_sinks, 81); }};
}

// Steps of a batch, of which a replay has other pages, and sequences that grew.
Call steps() {
    auto a = std::make_shared<PagedArrays<float>>(PagedCase{.queries = {1, 1, 1}, .rows = {300, 20, 5}});
    return {"steps",
            [=](attune::Context &context) {
                const attune::ConstPages key(on_device(attune::ConstView(a->key.view()))),
                    value(on_device(attune::ConstView(a->value.view())));
                return attune::paged_attention(context, on_device(a->query.view()), key, value, a->cu_seqlens_q(),
                                               on_device(a->block_table()), on_device(a->lens()), on_device(a->out.view()));
            },
            [=] { return a->out.values(); },
            [=] {
                refill(a->query, 77), refill(a->key, 78), refill(a->value, 79);
                for (std::size_t n = 0; n < a->table.size(); n++) a->table[n] = std::int32_t(n % std::size_t(a->pages));
                a->the.rows = {290, 97, 6};
            },
            [=] { refill(a->out, 80); }};
}

// New rows, of which a replay stores others in other slots.
Call append() {
    auto a = std::make_shared<PagedAppendArrays<float>>(
        PagedAppendCase{.steps = {.batch = 1, .rows = 9, .norm = true, .pairs = Pairs::halves, .place = Place::device}});
    return {"append",
            [=](attune::Context &context) { return a->run(context); },
            [=] { return a->key_pool.rows.values(); },
            [=] {
                refill(a->keys.x, 77);
                std::swap(a->slots[0], a->slots[3]);
                std::swap(a->keys.positions.data()[0], a->keys.positions.data()[5]);
            },
            [=] { refill(a->key_pool.rows, 80); },
            false};
}

std::vector<Call> calls() {
    return {forward({.queries = 5, .keys = 7}),
            forward({.query_heads = 4, .key_heads = 2, .queries = 1, .keys = 300}),
            weights(),
            backward(),
            bias_gradient(),
            layer(),
            merge(),
            product(),
            packed(),
            packed_gradients(),
            steps(),
            append()};
}

}  // namespace

TEST_CASE("device: a captured call allocates nothing, waits for nothing, and is replayed with other data", "[device]") {
    if (!is_interpreted()) return;
    auto *capture = of_driver<DriverCapture>("attune_driver_capture");
    auto *replay = of_driver<DriverReplay>("attune_driver_replay");
    const DriverCounts *counts = driver_counts();
    for (const Call &call : calls()) {
        INFO(call.name);
        attune::Context before;
        REQUIRE(call.run(before).message() == "");  // loads the kernels
        const std::size_t bytes = before.device_scratch_bytes();
        CHECK((bytes > 0) == call.takes_scratch);
        const Workspace workspace(bytes);
        attune::Context context({.device = workspace.options()});
        call.change(), call.forget();
        const DriverCounts at_first = *counts;
        capture(1);
        const attune::Status status = call.run(context);
        capture(0);
        REQUIRE(status.message() == "");
        CHECK(context.device_scratch_bytes() == bytes);
        CHECK(context.last_variant() == before.last_variant());
        CHECK(counts->launches > at_first.launches);
        CHECK(counts->refused == at_first.refused);
        CHECK(counts->allocations == at_first.allocations);
        CHECK(counts->copies == at_first.copies);
        CHECK(counts->waits == at_first.waits);
        REQUIRE(replay() == 0);
        const std::vector<float> replayed = call.result();
        call.forget();
        CHECK_FALSE(same_bits(replayed, call.result()));
        REQUIRE(call.run(before).message() == "");
        CHECK(same_bits(replayed, call.result()));
        // Without a workspace the driver would be asked for memory.
        if (!call.takes_scratch) continue;
        capture(1);
        CHECK(call.run(before).message() == "the device has no memory for this call");
        capture(0);
        CHECK(counts->refused > at_first.refused);
    }
}

TEST_CASE("device: a workspace that does not suffice is refused before anything is queued", "[device]") {
    if (!is_interpreted()) return;
    const DriverCounts *counts = driver_counts();
    for (const Call &call : calls()) {
        if (!call.takes_scratch) continue;
        INFO(call.name);
        attune::Context before;
        REQUIRE(call.run(before).message() == "");
        const std::size_t bytes = before.device_scratch_bytes();
        const Workspace workspace(bytes);
        attune::DeviceOptions too_few = workspace.options();
        too_few.workspace_bytes = bytes - 1;
        attune::Context context({.device = too_few});
        const long launches = counts->launches;
        const attune::Status status = call.run(context);
        CHECK(status.code() == attune::StatusCode::out_of_memory);
        CHECK(status.message() ==
              "device.workspace: has " + std::to_string(bytes - 1) + " bytes, this call takes " + std::to_string(bytes));
        CHECK(counts->launches == launches);
        CHECK(context.last_variant() == "");
    }
}

TEST_CASE("device: a workspace is memory that begins at a line", "[device]") {
    const Workspace workspace(512);
    attune::DeviceOptions device = workspace.options();
    device.workspace = static_cast<char *>(device.workspace) + 16;
    CHECK(attune::Context({.device = device}).status().message() == "device.workspace: must begin at a multiple of 256 bytes");
    device.workspace = nullptr;
    CHECK(attune::Context({.device = device}).status().message() == "device.workspace: is null, of 512 bytes");
}

TEST_CASE("device: a plan says which variant runs and what scratch it takes", "[device]") {
    if (!is_interpreted()) return;
    for (const SdpaCase &c : {SdpaCase{.queries = 5, .keys = 7},
                              {.query_heads = 4, .key_heads = 2, .queries = 1, .keys = 300},
                              {.queries = 3, .keys = 9, .head_dim = 17, .value_dim = 21}}) {
        attune::Context context;
        const Call call = forward(c);
        REQUIRE(call.run(context).message() == "");
        attune::SdpaProblem problem{.batch = c.batch,
                                    .query_heads = c.query_heads,
                                    .key_heads = c.key_heads,
                                    .queries = c.queries,
                                    .keys = c.keys,
                                    .head_dim = c.head_dim,
                                    .value_dim = c.value_dim,
                                    .place = Place::device};
        attune::Plan plan;
        const DriverCounts before = *driver_counts();
        REQUIRE(attune::plan_sdpa(context, problem, plan).message() == "");
        CHECK(driver_counts()->allocations == before.allocations);
        CHECK(driver_counts()->launches == before.launches);
        CHECK(plan.variant == context.last_variant());
        CHECK(plan.reason == "least predicted time");
        REQUIRE_FALSE(plan.candidates.empty());
        CHECK(plan.candidates[0].variant == plan.variant);
        CHECK(std::is_sorted(plan.candidates.begin(), plan.candidates.end(),
                             [](const auto &a, const auto &b) { return a.predicted_us < b.predicted_us; }));
        REQUIRE(call.run(context).message() == "");
        CHECK(plan.workspace_bytes == context.device_scratch_bytes());
        problem.dropout = true;
        REQUIRE(attune::plan_sdpa(context, problem, plan).message() == "");
        CHECK(plan.variant.ends_with("_training"));
        problem.invariant = true;
        CHECK(attune::plan_sdpa(context, problem, plan).message() == "invariant: is not taken on a device");
    }
}
