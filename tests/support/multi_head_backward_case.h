// SPDX-License-Identifier: MIT
// One call of multi_head_attention_backward as data, a MultiHeadCase: random arrays for it, and its check.
#pragma once
#include "tests/reference/multi_head_backward_reference.h"
#include "tests/support/multi_head_case.h"

namespace attune_test {

// Sets of wanted gradients, one bit each.
enum WantedOfHeads : unsigned {
    want_inputs = 7,          // query, key, value
    want_weights = 0x78,      // query, key, value, out
    want_biases = 0x780,      // as weights
    want_options = 0x7800,    // bias, slopes, sinks, score weight
    want_everything = 0x7fff  // all that the case has
};

template<typename T> struct MultiHeadBackwardArrays {
    MultiHeadArrays<T> layer;
    Array<T> grad_out;
    Array<T> inputs[3], weights[4], biases[4];  // query, key, value, out
    Array<T> bias, score_weight;
    Array<float> slopes, sinks;

    explicit MultiHeadBackwardArrays(const MultiHeadCase &c) : layer(c) {
        std::mt19937 random(c.attention.seed + 31);
        grad_out = like<T>(layer.out.view(), 1);
        grad_out.randomise(random, 1.7);
        const attune::MultiHeadWeights w = layer.weights();
        const attune::ConstView given[] = {layer.query.view(), layer.key_view(), layer.value_view()},
                                matrices[] = {w.query, w.key, w.value, w.out},
                                sums[] = {w.query_bias, w.key_bias, w.value_bias, w.out_bias};
        for (int n = 0; n < 3; n++) inputs[n] = like<T>(given[n], 2);
        for (int n = 0; n < 4; n++) {
            weights[n] = like<T>(matrices[n], 2);
            if (sums[n].given()) biases[n] = like<T>(sums[n], 2);
        }
        const attune::SdpaOptions o = options().attention;
        if (o.bias.given()) bias = like<T>(o.bias, 2);
        if (o.score_weight.given()) score_weight = like<T>(o.score_weight, 2);
        if (o.alibi_slopes.given()) slopes = like<float>(o.alibi_slopes, 2);
        if (o.alibi) slopes = Array<float>({c.attention.query_heads}, {1}, poison<float>(2));
        if (o.sinks.given()) sinks = like<float>(o.sinks, 2);
    }

    attune::MultiHeadOptions options(std::string_view variant = {}) {
        attune::MultiHeadOptions o = layer.options(variant);
        o.attention.lse = {}, o.attention.weights = {}, o.attention.average_weights = false;
        return o;
    }
    // Calls visit(name, bit, array, member of MultiHeadGradients, vector of MultiHeadBackwardResult) for each gradient of the
    // case.
    template<typename F> void each_gradient(const F &visit) {
        using G = attune::MultiHeadGradients;
        const auto layer_gradient = [&](const char *name, int n, Array<T> &array, auto place, auto member) {
            if (array.view().given()) visit(name, n, array, place, member);
        };
        layer_gradient(
            "query", 0, inputs[0], [](G &g) { return &g.query; }, [](auto &r) { return &r.query.x; });
        layer_gradient(
            "key", 1, inputs[1], [](G &g) { return &g.key; }, [](auto &r) { return &r.key.x; });
        layer_gradient(
            "value", 2, inputs[2], [](G &g) { return &g.value; }, [](auto &r) { return &r.value.x; });
        layer_gradient(
            "weights.query", 3, weights[0], [](G &g) { return &g.weights.query; }, [](auto &r) { return &r.query.weight; });
        layer_gradient(
            "weights.key", 4, weights[1], [](G &g) { return &g.weights.key; }, [](auto &r) { return &r.key.weight; });
        layer_gradient(
            "weights.value", 5, weights[2], [](G &g) { return &g.weights.value; }, [](auto &r) { return &r.value.weight; });
        layer_gradient(
            "weights.out", 6, weights[3], [](G &g) { return &g.weights.out; }, [](auto &r) { return &r.out.weight; });
        layer_gradient(
            "weights.query_bias", 7, biases[0], [](G &g) { return &g.weights.query_bias; },
            [](auto &r) { return &r.query.bias; });
        layer_gradient(
            "weights.key_bias", 8, biases[1], [](G &g) { return &g.weights.key_bias; }, [](auto &r) { return &r.key.bias; });
        layer_gradient(
            "weights.value_bias", 9, biases[2], [](G &g) { return &g.weights.value_bias; },
            [](auto &r) { return &r.value.bias; });
        layer_gradient(
            "weights.out_bias", 10, biases[3], [](G &g) { return &g.weights.out_bias; }, [](auto &r) { return &r.out.bias; });
        layer_gradient(
            "bias", 11, bias, [](G &g) { return &g.attention.bias; }, [](auto &r) { return &r.attention.bias; });
        if (slopes.view().given())
            visit(
                "alibi_slopes", 12, slopes, [](G &g) { return &g.attention.alibi_slopes; },
                [](auto &r) { return &r.attention.alibi_slopes; });
        if (sinks.view().given())
            visit(
                "sinks", 13, sinks, [](G &g) { return &g.attention.sinks; }, [](auto &r) { return &r.attention.sinks; });
        layer_gradient(
            "score_weight", 14, score_weight, [](G &g) { return &g.attention.score_weight; },
            [](auto &r) { return &r.attention.score_weight; });
    }
    attune::MultiHeadGradients gradients(unsigned wanted = want_everything) {
        attune::MultiHeadGradients g;
        each_gradient([&](const char *, int bit, auto &array, auto place, auto) {
            if (wanted & 1u << bit) *place(g) = array.view();
        });
        return g;
    }
    attune::Status run(attune::Context &context, std::string_view variant = {}, unsigned wanted = want_everything) {
        return attune::multi_head_attention_backward(context, layer.query.view(), layer.key_view(), layer.value_view(),
                                                     layer.weights(), grad_out.view(), gradients(wanted), options(variant));
    }
    template<typename Real, typename Stored = Real> MultiHeadBackwardResult<Real> reference(Parts parts = Parts::signed_parts) {
        return multi_head_backward_reference<Real, T, Stored>(layer.query.view(), layer.key_view(), layer.value_view(),
                                                              layer.weights(), grad_out.view(), options(), parts);
    }
    bool untouched() {
        bool all = true;
        each_gradient([&](const char *, int, auto &array, auto, auto) { all = all && array.untouched(); });
        return all;
    }

private:
    template<typename E> static Array<E> like(const attune::ConstView &v, int fill) {
        return Array<E>({v.extent, v.extent + v.rank}, {v.stride, v.stride + v.rank}, poison<E>(fill));
    }
};

// Fault of the gradients, empty if there is none.
template<typename T> std::string defect(MultiHeadBackwardArrays<T> &a, unsigned wanted = want_everything) {
    auto exact = a.template reference<Reference<T>>(), sizes = a.template reference<Reference<T>>(Parts::sizes);
    auto plain = a.template reference<Sum<T>, T>();
    std::string found;
    a.each_gradient([&](const std::string &name, int bit, auto &array, auto, auto member) {
        using E = std::decay_t<decltype(*array.data())>;
        if (!found.empty()) return;
        if (!(wanted & 1u << bit)) {
            if (!array.untouched()) found = name + " was written";
            return;
        }
        if (!array.gaps_untouched()) found = name + " was written outside its elements";
        if (!array.all_written()) found = name + " has elements that were not written";
        const auto *in_type = member(plain);
        const std::vector<Sum<E>> as_sums(in_type->begin(), in_type->end());
        const Verdict verdict = judge(*member(exact), as_sums, array.values(), *member(sizes));
        if (found.empty() && !verdict.right) found = name + ": " + verdict.why;
    });
    return found;
}

template<typename T>
void check_backward(attune::Context &context, const MultiHeadCase &c, std::string_view variant = {},
                    unsigned wanted = want_everything) {
    MultiHeadBackwardArrays<T> a(c);
    INFO("multi_head_attention_backward " << describe(c));
    const attune::Status status = a.run(context, variant, wanted);
    INFO("ran " << context.last_variant() << ' ' << status.message());
    REQUIRE(status.ok());
    CHECK(defect(a, wanted) == "");
}

}  // namespace attune_test
