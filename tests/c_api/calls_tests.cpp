// SPDX-License-Identifier: MIT
// Each function of C gives the bits of the C++ call with the same arguments, every option among them.
#include "tests/c_api/mirror_structs.h"
#include "tests/support/catch.h"
#include "tests/support/op_calls.h"
#include "tests/support/small_calls.h"

namespace attune_test {
namespace {

// The call of C with the arguments of a small call.
attune_status run_in_c(attune_context *c, SmallCall &call) {
    Mirror m;
    if (auto *x = dynamic_cast<small::Linear *>(&call))
        return attune_linear(c, m.of(x->x), m.of(x->weight), m.of(x->bias), m.of(x->out), m.of(x->options));
    if (auto *x = dynamic_cast<small::LinearBackward *>(&call))
        return attune_linear_backward(c, m.of(x->x), m.of(x->weight), m.of(x->grad_out), m.of(x->gradients), m.of(x->options));
    if (auto *x = dynamic_cast<small::BatchDot *>(&call))
        return attune_batch_dot(c, m.of(x->a), m.of(x->x), m.of(x->out), m.of(x->options));
    if (auto *x = dynamic_cast<small::PackedLinear *>(&call)) {
        int64_t extents[3];
        attune_status status = attune_packed_weight_extents(c, ATTUNE_F32, x->weight.extent[0], x->weight.extent[1], extents);
        CHECK(std::equal(extents, extents + 3, x->packed.extent));
        if (status == ATTUNE_OK) status = attune_pack_linear_weight(c, m.of(x->weight), m.of(x->packed), nullptr);
        return status == ATTUNE_OK ? attune_linear(c, m.of(x->x), m.of(x->packed), m.of(x->bias), m.of(x->out), nullptr)
                                   : status;
    }
    const auto sdpa = [&](auto *x) {
        return attune_scaled_dot_product_attention(c, m.of(x->query), m.of(x->key), m.of(x->value), m.of(x->out),
                                                   m.of(x->options));
    };
    if (auto *x = dynamic_cast<small::Sdpa *>(&call)) return sdpa(x);
    if (auto *x = dynamic_cast<small::SdpaWeights *>(&call)) return sdpa(x);
    if (auto *x = dynamic_cast<small::SdpaBackward *>(&call))
        return attune_scaled_dot_product_attention_backward(c, m.of(x->query), m.of(x->key), m.of(x->value), m.of(x->forward),
                                                            m.of(x->gradients), m.of(x->options));
    if (auto *x = dynamic_cast<small::Additive *>(&call))
        return attune_additive_attention(c, m.of(x->query), m.of(x->key), m.of(x->value), m.of(x->out), m.of(x->options));
    if (auto *x = dynamic_cast<small::AdditiveBackward *>(&call))
        return attune_additive_attention_backward(c, m.of(x->query), m.of(x->key), m.of(x->value), m.of(x->forward),
                                                  m.of(x->gradients), m.of(x->options));
    if (auto *x = dynamic_cast<small::MultiHead *>(&call))
        return attune_multi_head_attention(c, m.of(x->query), m.of(x->key), m.of(x->value), m.of(x->weights), m.of(x->out),
                                           m.of(x->options));
    if (auto *x = dynamic_cast<small::MultiHeadBackward *>(&call))
        return attune_multi_head_attention_backward(c, m.of(x->query), m.of(x->key), m.of(x->value), m.of(x->weights),
                                                    m.of(x->grad_out), m.of(x->gradients), m.of(x->options));
    if (auto *x = dynamic_cast<small::VariableLength *>(&call))
        return attune_variable_length_attention(c, m.of(x->query), m.of(x->key), m.of(x->value), m.of(x->query_ends),
                                                m.of(x->key_ends), m.of(x->out), m.of(x->options));
    if (auto *x = dynamic_cast<small::VariableLengthBackward *>(&call))
        return attune_variable_length_attention_backward(c, m.of(x->query), m.of(x->key), m.of(x->value), m.of(x->query_ends),
                                                         m.of(x->key_ends), m.of(x->forward), m.of(x->gradients),
                                                         m.of(x->options));
    if (auto *x = dynamic_cast<small::Merge *>(&call))
        return attune_merge_attention(c, m.of(x->out_a), m.of(x->lse_a), m.of(x->out_b), m.of(x->lse_b), m.of(x->out),
                                      m.of(x->lse));
    if (auto *x = dynamic_cast<small::MaskedSoftmax *>(&call))
        return attune_masked_softmax(c, m.of(x->scores), m.of(x->out), m.of(x->options));
    if (auto *x = dynamic_cast<small::MaskedSoftmaxBackward *>(&call))
        return attune_masked_softmax_backward(c, m.of(x->out), m.of(x->grad_out), m.of(x->grad_scores), m.of(x->options));
    if (auto *x = dynamic_cast<small::DropoutMask *>(&call))
        return attune_dropout_mask(c, m.of(attune::Dropout{.probability = 0.5}), m.of(x->out));
    if (auto *x = dynamic_cast<small::KvAppend *>(&call))
        return attune_kv_append(c, m.of(x->key), m.of(x->value), m.of(x->lens), m.of(x->key_cache), m.of(x->value_cache),
                                m.of(x->options));
    if (auto *x = dynamic_cast<small::TransformRows *>(&call))
        return attune_transform_rows(c, m.of(x->x), m.of(x->positions), m.of(x->out), m.of(x->steps));
    if (auto *x = dynamic_cast<small::TransformRowsBackward *>(&call))
        return attune_transform_rows_backward(c, m.of(x->x), m.of(x->positions), m.of(x->grad_out), m.of(x->grad_x),
                                              m.of(x->grad_weight), m.of(x->steps));
    FAIL("no call in C of " << call.name);
    return ATTUNE_INTERNAL;
}

// Results of a call in C++ and in C, each with memory of its own.
template<typename InCpp, typename InC> void require_same(const InCpp &in_cpp, const InC &in_c) {
    attune::Context context;
    const CContext c;
    Outputs of_cpp, of_c;
    const attune::Status expected = in_cpp(context, of_cpp);
    const attune_status status = in_c(c.context, of_c);
    CHECK(expected.ok());
    CHECK(c.message() == expected.message());
    REQUIRE(status == static_cast<attune_status>(expected.code()));
    REQUIRE(of_cpp.bytes() == of_c.bytes());
    REQUIRE(context.last_variant() == attune_last_variant(c));
}

TEST_CASE("a call in C has the bits of the call in C++", "[c_api]") {
    auto in_cpp = small::calls(), in_c = small::calls();
    attune::Context context;
    const CContext c;
    for (std::size_t n = 0; n < in_c.size(); n++) {
        INFO(in_c[n]->name);
        const attune::Status expected = in_cpp[n]->run(context);
        const attune_status status = run_in_c(c, *in_c[n]);
        CHECK(expected.message() == c.message());
        REQUIRE(status == ATTUNE_OK);
        REQUIRE(in_c[n]->written() == in_cpp[n]->written());
        REQUIRE(context.last_variant() == attune_last_variant(c));
    }
}

TEST_CASE("a call in C is refused in the words of the call in C++", "[c_api]") {
    auto in_cpp = small::calls(), in_c = small::calls();
    attune::Context context;
    const CContext c;
    for (std::size_t n = 0; n < in_c.size(); n++) {
        INFO(in_c[n]->name);
        for (auto *call : {in_cpp[n].get(), in_c[n].get()}) call->outputs.front()->rank = 1;
        const attune::Status expected = in_cpp[n]->run(context);
        REQUIRE_FALSE(expected.ok());
        REQUIRE(run_in_c(c, *in_c[n]) == static_cast<attune_status>(expected.code()));
        REQUIRE(expected.message() == c.message());
        REQUIRE(in_c[n]->untouched());
    }
}

TEST_CASE("options of attention that a small call leaves out reach the library from C", "[c_api]") {
    const attune::ConstView query(input<float>(0), {2, 4, 9, 16}), key(input<float>(1), {2, 2, 30, 16}),
        value(input<float>(2), {2, 2, 30, 8});
    static const std::int32_t cache_lens[] = {21, 3};
    attune::SdpaOptions all[6];
    all[0] = {.scale = 0.3, .softcap = 5, .alibi = true, .causal = attune::Causal::offset, .offset = 7};
    all[1] = {.causal = attune::Causal::bottom_right, .window = {.left = 4, .right = 0}};
    all[2] = {.cache_lens = {cache_lens, {2}}, .invariant = true};
    all[3] = {.dropout = {.probability = 0.3, .seed = 1234567890123ull, .offset = 5}};
    all[4] = {.score = attune::Score::gaussian, .window = {.left = 3, .right = 2}};
    all[5] = {.variant = "sdpa_f32_dany_generic_root"};
    for (attune::SdpaOptions &options : all) {
        INFO("options " << &options - all);
        const auto with_outputs = [&](Outputs &outputs, attune::View &out) {
            attune::SdpaOptions given = options;
            out = outputs.make<float>({2, 4, 9, 8}), given.lse = outputs.make<float>({2, 4, 9});
            given.weights = outputs.make<float>({2, 4, 9, 30}), given.weights_mode = attune::WeightsMode::masked;
            return given;
        };
        require_same(
            [&](attune::Context &context, Outputs &outputs) {
                attune::View out;
                const attune::SdpaOptions given = with_outputs(outputs, out);
                return attune::scaled_dot_product_attention(context, query, key, value, out, given);
            },
            [&](attune_context *c, Outputs &outputs) {
                Mirror m;
                attune::View out;
                const attune::SdpaOptions given = with_outputs(outputs, out);
                return attune_scaled_dot_product_attention(c, m.of(query), m.of(key), m.of(value), m.of(out), m.of(given));
            });
    }
}

TEST_CASE("rows, pages and attention over pages in C have the bits of C++", "[c_api]") {
    static const std::int32_t positions[] = {7, 0, 3, 900, 12, 5}, table[] = {1, 0}, ends[] = {0, 2, 3}, lens[] = {9, 5};
    static const std::int64_t slots[] = {17, -1, 0, 5, 31, 2};
    const attune::ConstView rows(input<float>(0), {6, 2, 16}), more(input<float>(1), {6, 2, 16}),
        query(input<float>(3), {3, 4, 16});
    attune::AppendOptions append;
    append.key_steps = {.norm_weight = {input<float>(2), {16}}, .norm_eps = 1e-5, .hadamard = true};
    append.key_steps.rope = {.base = 500, .scaling = 2, .dim = 8, .offset = 4, .pairs = attune::RopePairs::interleaved};
    append.positions = {positions, {6}}, append.rotate_values = true;
    attune::PagedOptions options;
    options.scale = 0.25, options.softcap = 9, options.causal = false, options.window = {.left = 6, .right = 1};
    options.sinks = {input<float>(5), {4}};
    const auto pages = [](Outputs &outputs) {
        const attune::View memory = outputs.make<float>({2, 16, 2, 16});
        return attune::Pages(memory);
    };
    require_same(
        [&](attune::Context &context, Outputs &outputs) {
            const attune::Pages keys = pages(outputs), values = pages(outputs);
            if (attune::Status s = attune::paged_append(context, rows, more, {slots, {6}}, keys, values, append); !s.ok())
                return s;
            attune::PagedOptions given = options;
            given.lse = outputs.make<float>({4, 3}), given.weight_sums = outputs.make<float>({2, 2, 9});
            return attune::paged_attention(context, query, keys, values, {ends, {3}}, {table, {2, 1}}, {lens, {2}},
                                           outputs.make<float>({3, 4, 16}), given);
        },
        [&](attune_context *c, Outputs &outputs) {
            Mirror m;
            const attune::Pages keys = pages(outputs), values = pages(outputs);
            attune_status status = attune_paged_append(c, m.of(rows), m.of(more), m.of(attune::ConstView(slots, {6})),
                                                       m.of(keys), m.of(values), m.of(append));
            if (status != ATTUNE_OK) return status;
            attune::PagedOptions given = options;
            given.lse = outputs.make<float>({4, 3}), given.weight_sums = outputs.make<float>({2, 2, 9});
            return attune_paged_attention(c, m.of(query), m.of(keys), m.of(values), m.of(attune::ConstView(ends, {3})),
                                          m.of(attune::ConstView(table, {2, 1})), m.of(attune::ConstView(lens, {2})),
                                          m.of(outputs.make<float>({3, 4, 16})), m.of(given));
        });
    require_same(
        [&](attune::Context &context, Outputs &outputs) {
            const attune::View cos = outputs.make<float>({9, 4}), sin = outputs.make<float>({9, 4});
            return attune::rope_tables(context, 10000, 2, cos, sin);
        },
        [&](attune_context *c, Outputs &outputs) {
            Mirror m;
            const attune::View cos = outputs.make<float>({9, 4}), sin = outputs.make<float>({9, 4});
            return attune_rope_tables(c, 10000, 2, m.of(cos), m.of(sin));
        });
}

TEST_CASE("the merge of several parts in C has the bits of C++", "[c_api]") {
    std::vector<attune::PartialAttention> parts;
    for (int n = 0; n < 3; n++)
        parts.push_back({{input<float>(n), {2, 3, 5, 8}}, attune::ConstView(input<float>(3 + n), {2, 3, 5})});
    require_same(
        [&](attune::Context &context, Outputs &outputs) {
            return attune::merge_attention(context, parts.data(), parts.size(), outputs.make<float>({2, 3, 5, 8}));
        },
        [&](attune_context *c, Outputs &outputs) {
            Mirror m;
            std::vector<attune_partial_attention> given;
            for (const attune::PartialAttention &p : parts) given.push_back({m.of(p.out), m.of(p.lse)});
            return attune_merge_attentions(c, given.data(), given.size(), m.of(outputs.make<float>({2, 3, 5, 8})), nullptr);
        });
}

}  // namespace
}  // namespace attune_test
