// SPDX-License-Identifier: MIT
// Packed batches on a device, forward and backward: every sequence against the reference, and by the bits of its own call.
#include "tests/cuda/device_variants.h"
#include "tests/support/packed_backward_case.h"
#include "tests/support/sdpa_arrays.h"

using namespace attune_test;
using attune::Causal, attune::ConstView, attune::View;

namespace {

constexpr unsigned computed = want_query | want_key | want_value;

// Lengths that are awkward: none, one, primes, both sides of a warp; and keys that are cut in splits.
PackedCase awkward(unsigned seed) {
    PackedCase c{.queries = {0, 1, 17, 31, 5, 0, 33, 2}, .keys = {4, 1, 16, 70, 0, 0, 33, 263}, .seed = seed};
    c.heads_first = seed % 2;
    return c;
}
// Head sizes of the variants that are built for OpenCL and, without --all, as PTX.
void set_head_sizes(const attune::VariantRecord &v, PackedCase &c) {
    c.head_dim = c.value_dim = v.head_dim;
    if (v.head_dim == 0) c.head_dim = 17, c.value_dim = 21;
}
// Whether a variant represents others of its form: one of each schedule, type and kind.
bool stands_for_others(const attune::VariantRecord &v) {
    return v.head_dim == 64 || (v.head_dim == 0 && attune::parameter_of(v, "channels", 0) == 64);
}

// Options whose lists of sequences are on the host and whose slopes and sinks are on the device; on the heap, since no GPU
// reaches the stack.
struct DeviceOptions {
    std::vector<std::int32_t> offsets = {3, 0, -2, 40, 1, 2, 0, 250};
    std::vector<float> slopes, sinks = {0.5f, -1, 2, 0};
    DeviceOptions() {
        for (int n = 0; n < 32; n++) slopes.push_back(float(n % 11) / 30);
    }
    std::vector<attune::SdpaOptions> of(std::string_view kind) const {
        const ConstView of_sequences = {slopes.data(), {8, 4}}, of_heads = {slopes.data(), {4}}, sink = {sinks.data(), {4}};
        if (kind == "plain")
            return {{},
                    {.causal = Causal::bottom_right, .window = {12, 0}},
                    {.causal = Causal::offset, .offsets = {offsets.data(), {8}}}};
        if (kind == "training")
            return {{.dropout = {0.3, 5, 1}},
                    {.alibi_slopes = of_heads, .causal = Causal::bottom_right, .dropout = {0.6, 7, 2, 3, 1, 5, 9}}};
        return {{.softcap = 3, .alibi_slopes = of_heads, .causal = Causal::bottom_right},
                {.alibi_slopes = of_sequences, .causal = Causal::offset, .offsets = {offsets.data(), {8}}, .sinks = sink}};
    }
};
attune::SdpaOptions there(attune::SdpaOptions o) {
    o.alibi_slopes = on_device(o.alibi_slopes), o.sinks = on_device(o.sinks), o.lse = on_device(o.lse);
    return o;
}

template<typename T> attune::Status run_there(attune::Context &context, PackedArrays<T> &a, attune::SdpaOptions options) {
    options.lse = a.lse.view();
    return attune::variable_length_attention(context, on_device(a.query.view()), on_device(a.key.view()),
                                             on_device(a.value.view()), a.cu_seqlens_q(), a.cu_seqlens_k(),
                                             on_device(a.out.view()), there(options));
}
template<typename T>
attune::Status run_sequence_there(attune::Context &context, PackedArrays<T> &a, std::int64_t s,
                                  const attune::SdpaOptions &given, PackedArrays<T> &to) {
    attune::SdpaOptions options = a.options_alone(given, s);
    options.lse = a.of_queries(to.lse.view(), s);
    options.offsets = on_device(options.offsets);
    return attune::scaled_dot_product_attention(context, on_device(a.of_queries(a.query.view(), s)),
                                                on_device(a.of_keys(a.key.view(), s)), on_device(a.of_keys(a.value.view(), s)),
                                                on_device(a.of_queries(to.out.view(), s)), there(options));
}
template<typename T>
attune::Status run_there(attune::Context &context, PackedBackwardArrays<T> &a, unsigned wanted = computed) {
    attune::SdpaForward f = a.results();
    for (ConstView *v : {&f.out, &f.lse, &f.grad_out, &f.grad_lse}) *v = on_device(*v);
    attune::SdpaGradients g = a.gradients(wanted);
    for (View *v : {&g.query, &g.key, &g.value, &g.alibi_slopes, &g.sinks}) *v = on_device(*v);
    PackedArrays<T> &all = a.forward;
    return attune::variable_length_attention_backward(context, on_device(all.query.view()), on_device(all.key.view()),
                                                      on_device(all.value.view()), all.cu_seqlens_q(), all.cu_seqlens_k(), f, g,
                                                      there(a.options));
}

// Fault of out and lse of sequence s, empty if there is none.
template<typename T> std::string defect(PackedArrays<T> &a, std::int64_t s, const attune::SdpaOptions &given) {
    const attune::SdpaOptions options = a.options_alone(given, s);
    const View q = a.of_queries(a.query.view(), s), k = a.of_keys(a.key.view(), s), v = a.of_keys(a.value.view(), s);
    return packed_defect<T>({q, k, v}, a, a.query_ends[std::size_t(s)], options);
}

}  // namespace

TEST_CASE("device: packed batches, each sequence against the reference and its own call", "[device]") {
    attune::Context context;
    unsigned seed = 1;
    for_each_device_variant("sdpa", {"plain", "scored", "training"}, [&](const attune::VariantRecord &v, auto zero) {
        using T = decltype(zero);
        if (!stands_for_others(v)) return;
        const DeviceOptions made;
        for (attune::SdpaOptions options : made.of(v.kind)) {
            options.variant = v.name;
            PackedCase c = awkward(seed++);
            set_head_sizes(v, c);
            if (v.head_dim) c.heads_first = false;  // there rows would not begin at 16 bytes
            INFO(describe(c));
            PackedArrays<T> all(c), alone(c);
            REQUIRE(run_there(context, all, options).message() == "");
            CHECK(context.last_variant() == v.name);
            for (std::int64_t s = 0; s < all.batch(); s++) {
                INFO("sequence " << s);
                CHECK(defect(all, s, options) == "");
                REQUIRE(run_sequence_there(context, all, s, options, alone).message() == "");
            }
            CHECK(same_bits(all.out.values(), alone.out.values()));
            CHECK(same_bits(all.lse.values(), alone.lse.values()));
            CHECK((all.out.gaps_untouched() && all.lse.gaps_untouched()));
        }
    });
}

TEST_CASE("device: gradients of packed batches against the reference", "[device]") {
    attune::Context context({.threads = 2});
    unsigned seed = 1;
    for_each_device_variant("sdpa_backward", {"plain", "scored", "training"}, [&](const attune::VariantRecord &v, auto zero) {
        using T = decltype(zero);
        if (!stands_for_others(v)) return;
        const DeviceOptions made;
        for (attune::SdpaOptions options : made.of(v.kind)) {
            options.variant = v.name;
            PackedCase c = awkward(seed++);
            c.keys.back() = 65;
            set_head_sizes(v, c);
            if (v.head_dim) c.heads_first = false;
            INFO(describe(c));
            PackedBackwardArrays<T> a(c, options, seed % 2);
            REQUIRE(a.run_forward(context).message() == "");
            REQUIRE(run_there(context, a).message() == "");
            CHECK(context.last_variant() == v.name);
            CHECK(defect(a, computed) == "");
        }
    });
}

TEST_CASE("device: packed batches choose a kernel for each sequence, and some gradients alone", "[device]") {
    if (!has_device()) return;
    attune::Context context;
    PackedCase c = awkward(7);
    c.keys.back() = 65, c.head_dim = 17, c.value_dim = 21;
    const DeviceOptions made;
    for (const attune::SdpaOptions &options : made.of("scored")) {
        PackedArrays<float> forward(c);
        REQUIRE(run_there(context, forward, options).message() == "");
        for (std::int64_t s = 0; s < forward.batch(); s++) CHECK(defect(forward, s, options) == "");
    }
    for (const unsigned wanted : {want_query, want_key, want_value}) {
        PackedBackwardArrays<float> a(c, {.causal = Causal::top_left});
        REQUIRE(a.run_forward(context).message() == "");
        REQUIRE(run_there(context, a, wanted).message() == "");
        CHECK(defect(a, wanted) == "");
    }
    PackedArrays<float> none({.queries = {}, .keys = {}});
    CHECK(run_there(context, none, {}).message() == "");
    CHECK(context.last_variant().empty());
}

TEST_CASE("device: gradients of packed batches by slopes and by sinks", "[device]") {
    if (!has_device()) return;
    attune::Context context;
    const DeviceOptions made;
    for (const auto &[seed, share] : {std::pair(2u, false), {3u, false}, {2u, true}, {3u, true}})
        for (unsigned wanted : {unsigned(want_slopes), unsigned(want_sinks), computed | want_slopes | want_sinks}) {
            wanted = linked_gradients(wanted);
            if (!wanted) continue;
            PackedCase c = awkward(seed);
            c.keys.back() = 65, c.head_dim = 17, c.value_dim = 21;
            INFO(describe(c));
            attune::SdpaOptions options = made.of("scored")[1];
            CAPTURE(share);
            if (share) options.alibi_slopes = {made.slopes.data(), {4}};
            PackedBackwardArrays<float> a(c, options, seed % 2), again = a;
            for (auto *arrays : {&a, &again}) {
                REQUIRE(arrays->run_forward(context).message() == "");
                REQUIRE(run_there(context, *arrays, wanted).message() == "");
                CHECK(defect(*arrays, wanted) == "");
            }
            CHECK(a.bits(wanted) == again.bits(wanted));
        }
    // Without keys, or without queries, in the whole batch.
    const unsigned wanted = linked_gradients(computed | want_slopes);
    const ConstView of_each(made.slopes.data(), {2, 4}), shared(made.slopes.data(), {4});
    for (const auto &[c, slopes] : {std::pair(PackedCase{.queries = {0, 3}, .keys = {0, 0}}, of_each),
                                    {{.queries = {0, 0}, .keys = {0, 2}}, of_each},
                                    {{.queries = {0, 3}, .keys = {0, 0}}, shared},
                                    {{.queries = {0, 0}, .keys = {0, 2}}, shared},
                                    {{.queries = {0, 0}, .keys = {0, 0}}, shared}}) {
        INFO(describe(c));
        PackedBackwardArrays<float> a(c, {.alibi_slopes = slopes});
        REQUIRE(a.run_forward(context).message() == "");
        REQUIRE(run_there(context, a, wanted).message() == "");
        CHECK(defect(a, wanted) == "");
    }
    if (!(wanted & want_slopes)) return;
    PackedBackwardArrays<float> empty(
        {.queries = {}, .keys = {}}, {.alibi_slopes = shared, .causal = Causal::offset, .offsets = {made.offsets.data(), {0}}});
    CHECK(run_there(context, empty, want_slopes).message() == "");
    CHECK(empty.grad_slopes.values() == std::vector<float>(4, 0));
}

TEST_CASE("device: packed batches that are refused", "[device]") {
    if (!has_device()) return;
    attune::Context context;
    PackedArrays<float> a(awkward(1));
    const auto refused = [&](const attune::SdpaOptions &options) { return run_there(context, a, options).message(); };
    CHECK(refused({.dropout = {1, 1, 0}}) == "dropout: of every weight (probability 1) is not computed on a device");
    CHECK(refused({.score = attune::Score::cosine}) == "score: tensors on a device take dot_product");
    CHECK(refused({.alibi = true}) == "alibi: tensors on a device take alibi_slopes, on the device as well");
    const DeviceOptions made;
    const ConstView offsets = on_device(ConstView(made.offsets.data(), {8}));
    CHECK(refused({.causal = Causal::offset, .offsets = offsets}) ==
          "offsets: is on a device; a packed batch there takes it on the host");
    const auto run_with = [&](ConstView key, ConstView ends) {
        return attune::variable_length_attention(context, on_device(a.query.view()), key, on_device(a.value.view()), ends,
                                                 a.cu_seqlens_k(), on_device(a.out.view()))
            .message();
    };
    CHECK(run_with(a.key.view(), a.cu_seqlens_q()) == "key: is on the host, query is on a device");
    CHECK(run_with(on_device(a.key.view()), on_device(a.cu_seqlens_q())) ==
          "cu_seqlens_q: is on a device; a packed batch there takes it on the host");
    CHECK(a.out.untouched());
    PackedBackwardArrays<float> b({.queries = {0, 0}, .keys = {0, 0}}, {});
    for (const auto &slopes : {ConstView(made.slopes.data(), {2, 4}), ConstView(made.slopes.data(), {4})}) {
        const auto none = [](auto view, int rows) {
            view.extent[rows] = 0;
            return on_device(view);
        };
        const attune::SdpaForward f = b.results();
        std::vector<float> gradient(8, 1);
        View by_slopes(gradient.data(), {2, 4});
        if (slopes.rank == 1) by_slopes = View(gradient.data(), {4});
        CHECK(attune::variable_length_attention_backward(
                  context, none(b.forward.query.view(), 0), none(b.forward.key.view(), 0), none(b.forward.value.view(), 0),
                  b.forward.cu_seqlens_q(), b.forward.cu_seqlens_k(), {none(f.out, 0), none(f.lse, 1), none(f.grad_out, 0), {}},
                  {.alibi_slopes = on_device(by_slopes)}, {.alibi_slopes = on_device(slopes)})
                  .message() == "gradients.alibi_slopes: of no queries and keys is not computed on a device");
        CHECK(gradient == std::vector<float>(8, 1));
    }
    PackedBackwardArrays<double> wide(awkward(3), {});
    REQUIRE(wide.run_forward(context).message() == "");
    CHECK(run_there(context, wide).message() == "query: there are no kernels for f64 on a device");
    CHECK((b.grad_query.untouched() && wide.grad_query.untouched()));
}

TEST_CASE("device: packed batches on a machine without a driver", "[no_driver]") {
    if (attune::device_backend()->missing().empty()) {
        WARN("SKIPPED: this machine has a driver");
        return;
    }
    attune::Context context, allowed({.device = {.cpu_instead = true}});
    PackedBackwardArrays<float> a(awkward(4), {.causal = Causal::bottom_right});
    const std::string refusal = "query: is on a device, but " + attune::device_backend()->missing();
    CHECK(run_there(context, a.forward, a.options).message() == refusal);
    CHECK(a.forward.out.untouched());
    REQUIRE(run_there(allowed, a.forward, a.options).message() == "");
    for (std::int64_t s = 0; s < a.forward.batch(); s++) CHECK(defect(a.forward, s, a.options) == "");
    CHECK(run_there(context, a).message() == refusal);
    REQUIRE(run_there(allowed, a).message() == "");
    CHECK(defect(a, computed) == "");
}
