// SPDX-License-Identifier: MIT
// Gradients of a packed batch as data, after its forward pass: arrays, the call, the same sequences one by one, and references.
#pragma once
#include "attune/varlen_backward.h"
#include "tests/support/packed_case.h"
#include "tests/support/sdpa_backward_case.h"

namespace attune_test {

template<typename T> struct PackedBackwardArrays {
    PackedArrays<T> forward;
    attune::SdpaOptions options;
    Array<T> grad_out, grad_query, grad_key, grad_value;
    Array<Sum<T>> grad_lse;
    Array<float> grad_slopes, grad_sinks;
    bool has_grad_lse;

    PackedBackwardArrays(const PackedCase &c, const attune::SdpaOptions &o, bool with_grad_lse = true)
        : forward(c), options(o), has_grad_lse(with_grad_lse) {
        const std::int64_t tq = forward.query.view().extent[0], tk = forward.key.view().extent[0];
        grad_out = forward.rows(tq, c.query_heads, c.value_dim);
        grad_query = forward.rows(tq, c.query_heads, c.head_dim, poison<T>(2));
        grad_key = forward.rows(tk, c.key_heads, c.head_dim, poison<T>(2));
        grad_value = forward.rows(tk, c.key_heads, c.value_dim, poison<T>(2));
        grad_lse = Array<Sum<T>>({c.query_heads, tq}, {tq + 1, 1});
        std::mt19937 random(c.seed + 17);
        grad_out.randomise(random, 1.7), grad_lse.randomise(random, 1.7);
        if (o.alibi_slopes.rank == 2)
            grad_slopes = Array<float>({forward.batch(), c.query_heads}, {c.query_heads + 2, 1}, poison<float>(2));
        else if (o.alibi || o.alibi_slopes.given())
            grad_slopes = Array<float>({c.query_heads}, {2}, poison<float>(2));
        if (o.sinks.given()) grad_sinks = Array<float>({c.query_heads}, {2}, poison<float>(2));
    }

    attune::SdpaForward results() {
        return {forward.out.view(), forward.lse.view(), grad_out.view(),
                has_grad_lse ? attune::ConstView(grad_lse.view()) : attune::ConstView()};
    }
    attune::SdpaGradients gradients(unsigned wanted = want_all) {
        attune::SdpaGradients g;
        if (wanted & want_query) g.query = grad_query.view();
        if (wanted & want_key) g.key = grad_key.view();
        if (wanted & want_value) g.value = grad_value.view();
        if (wanted & want_slopes && has_slopes()) g.alibi_slopes = grad_slopes.view();
        if (wanted & want_sinks && options.sinks.given()) g.sinks = grad_sinks.view();
        return g;
    }
    bool has_slopes() const { return options.alibi || options.alibi_slopes.given(); }
    attune::Status run_forward(attune::Context &context) {
        attune::SdpaOptions o = options;
        o.variant = {};
        return forward.run(context, o);
    }
    attune::Status run(attune::Context &context, unsigned wanted = want_all) {
        return attune::variable_length_attention_backward(context, forward.query.view(), forward.key.view(),
                                                          forward.value.view(), forward.cu_seqlens_q(), forward.cu_seqlens_k(),
                                                          results(), gradients(wanted), options);
    }
    // The call of sequence s alone: its inputs, and its gradients within `to`; gradients that sequences share are left out.
    SdpaBackwardInputs inputs_alone(std::int64_t s) {
        const auto queries = [&](attune::View v) { return forward.of_queries(v, s); };
        attune::SdpaForward f{queries(forward.out.view()), queries(forward.lse.view()), queries(grad_out.view())};
        if (has_grad_lse) f.grad_lse = queries(grad_lse.view());
        return {queries(forward.query.view()), forward.of_keys(forward.key.view(), s), forward.of_keys(forward.value.view(), s),
                f, forward.options_alone(options, s)};
    }
    attune::Status run_alone(attune::Context &context, std::int64_t s, PackedBackwardArrays &to) {
        const SdpaBackwardInputs in = inputs_alone(s);
        attune::SdpaGradients g;
        g.query = forward.of_queries(to.grad_query.view(), s), g.key = forward.of_keys(to.grad_key.view(), s);
        g.value = forward.of_keys(to.grad_value.view(), s);
        if (options.alibi_slopes.rank == 2) {
            g.alibi_slopes = to.grad_slopes.view();
            g.alibi_slopes.data = to.grad_slopes.data() + s * g.alibi_slopes.stride[0], g.alibi_slopes.extent[0] = 1;
        }
        return attune::scaled_dot_product_attention_backward(context, in.query, in.key, in.value, in.forward, g, in.options);
    }
    // Reference gradients, after run_forward(): those of all sequences, in the order of memory of dense arrays (T, H, D).
    template<typename Real, typename Stored = Real> SdpaBackwardResult<Real> reference(Parts parts = Parts::signed_parts) {
        SdpaBackwardResult<Real> all;
        const auto append = [](std::vector<Real> &to, const std::vector<Real> &from, std::int64_t heads, std::int64_t rows,
                               std::int64_t width) {
            for (std::int64_t i = 0; i < rows; i++)
                for (std::int64_t h = 0; h < heads; h++)
                    for (std::int64_t d = 0; d < width; d++) to.push_back(from[std::size_t((h * rows + i) * width + d)]);
        };
        const auto add = [](std::vector<Real> &to, const std::vector<Real> &from) {
            to.resize(from.size());
            for (std::size_t n = 0; n < from.size(); n++) to[n] += from[n];
        };
        const PackedCase &c = forward.the;
        for (std::int64_t s = 0; s < forward.batch(); s++) {
            const auto one = sdpa_backward_reference<Real, T, Stored>(inputs_alone(s), parts);
            const std::int64_t queries = c.queries[std::size_t(s)], keys = c.keys[std::size_t(s)];
            append(all.query, one.query, c.query_heads, queries, c.head_dim);
            append(all.key, one.key, c.key_heads, keys, c.head_dim);
            append(all.value, one.value, c.key_heads, keys, c.value_dim);
            add(all.sinks, one.sinks);
            if (options.alibi_slopes.rank == 2)
                all.alibi_slopes.insert(all.alibi_slopes.end(), one.alibi_slopes.begin(), one.alibi_slopes.end());
            else
                add(all.alibi_slopes, one.alibi_slopes);
        }
        return all;
    }

    // Calls visit(name, which, array, elements of all sequences, member of SdpaBackwardResult) for each gradient of the case.
    template<typename F> void each_gradient(const F &visit) {
        const PackedCase &c = forward.the;
        const std::int64_t tq = forward.query_ends.back(), tk = forward.key_ends.back();
        visit(
            "query", want_query, grad_query, tq * c.query_heads * c.head_dim, [](auto &r) -> auto & { return r.query; });
        visit(
            "key", want_key, grad_key, tk * c.key_heads * c.head_dim, [](auto &r) -> auto & { return r.key; });
        visit(
            "value", want_value, grad_value, tk * c.key_heads * c.value_dim, [](auto &r) -> auto & { return r.value; });
        if (has_slopes())
            visit(
                "alibi_slopes", want_slopes, grad_slopes, std::int64_t(grad_slopes.values().size()),
                [](auto &r) -> auto & { return r.alibi_slopes; });
        if (options.sinks.given())
            visit(
                "sinks", want_sinks, grad_sinks, c.query_heads, [](auto &r) -> auto & { return r.sinks; });
    }
    std::vector<std::vector<unsigned char>> bits(unsigned wanted = want_all) {
        std::vector<std::vector<unsigned char>> all;
        each_gradient([&](const char *, unsigned which, auto &array, std::int64_t, auto) {
            if (!(wanted & which)) return;
            const auto values = array.values();
            const auto *bytes = reinterpret_cast<const unsigned char *>(values.data());
            all.emplace_back(bytes, bytes + values.size() * sizeof(values[0]));
        });
        return all;
    }
};

// Fault of the gradients that were wanted against the references of the sequences, empty if there is none.
template<typename T> std::string defect(PackedBackwardArrays<T> &a, unsigned wanted = want_all) {
    const auto exact = a.template reference<Reference<T>>();
    const auto sizes = a.template reference<Reference<T>>(Parts::sizes);
    const auto plain = a.template reference<Sum<T>, T>();
    std::string found;
    a.each_gradient([&](const std::string &name, unsigned which, auto &array, std::int64_t count, auto member) {
        if (!(wanted & which)) return;
        using E = std::decay_t<decltype(*array.data())>;
        if (!found.empty()) return;
        auto values = array.values();
        for (std::size_t n = std::size_t(count); n < values.size(); n++)
            if (!same_bits(values[n], poison<E>(2))) found = name + ": rows beyond the last sequence are written";
        values.resize(std::size_t(count));
        const auto &steps = member(plain);
        const Verdict verdict = judge(member(exact), std::vector<Sum<E>>(steps.begin(), steps.end()), values, member(sizes));
        if (!array.gaps_untouched())
            found = name + ": written beyond its elements";
        else if (!verdict.right)
            found = name + ": " + verdict.why;
        else if (suspiciously_empty(member(exact), values) && !is_half<E>)
            found = name + ": zeros where the reference has none";
    });
    return found;
}

// Runs the gradients of the batch, and of each of its sequences alone: all bits must agree, and nothing else be written.
// Gradients that sequences share are the same for all numbers of threads.
template<typename T>
void check_packed_backward(attune::Context &context, const PackedCase &c, const attune::SdpaOptions &options = {}) {
    INFO(describe(c));
    PackedBackwardArrays<T> all(c, options), alone(c, options), by_one(c, options);
    attune::Context one({.threads = 1});
    for (auto *a : {&all, &alone, &by_one}) REQUIRE(a->run_forward(one).ok());
    const attune::Status status = all.run(context);
    INFO("ran " << context.last_variant() << ' ' << status.message());
    REQUIRE(status.ok());
    REQUIRE(by_one.run(one).ok());
    CHECK(all.bits() == by_one.bits());
    for (std::int64_t s = 0; s < all.forward.batch(); s++) {
        const attune::Status single = all.run_alone(one, s, alone);
        INFO("sequence " << s << ' ' << single.message());
        REQUIRE(single.ok());
    }
    const unsigned of_a_sequence = want_query | want_key | want_value | (options.alibi_slopes.rank == 2 ? want_slopes : 0u);
    CHECK(all.bits(of_a_sequence) == alone.bits(of_a_sequence));
    all.each_gradient([&](const char *name, unsigned, auto &array, std::int64_t, auto) {
        INFO(name);
        CHECK(array.gaps_untouched());
    });
}

}  // namespace attune_test
