// SPDX-License-Identifier: MIT
// A call of the attention Everything of attentions.h, with random tensors and captures.
#pragma once
#include "everything.h"
#include "tests/user_attention/formulas.h"
#include "tests/user_attention/user_attention_case.h"
#include <memory>

namespace attune_test {

// Arrays behind everything::Options, beside the tensors.
template<typename T> struct EverythingArrays : UserArrays<T> {
    std::unique_ptr<bool[]> allowed;
    std::vector<std::int32_t> document;

    static Captured<T> captures_of(const UserSizes &s, unsigned seed) {
        std::mt19937 random(seed);
        std::normal_distribution<double> normal;
        const std::size_t reach = 5, heads = std::size_t(s.heads), batch = std::size_t(s.batch);
        Captured<T> c(7);
        for (std::size_t n = 0; n < heads * (2 * reach + 1); n++) c[0].push_back(T(normal(random)));
        for (std::size_t n = 0; n < heads * batch; n++) c[1].push_back(T(0.5 + 0.25 * double(n)));
        for (Index n = 0; n < s.queries * s.keys; n++) c[2].push_back(T(random() % 5 != 0));
        for (std::size_t b = 0; b < batch; b++)
            for (Index j = 0; j < s.keys; j++) c[3].push_back(T((j + 11 * Index(b)) / 70));
        c[4] = {T(0.75)}, c[5] = {T(1.5)}, c[6] = {T(reach)};
        if (s.queries > 3)  // a query that sees no key
            for (Index j = 0; j < s.keys; j++) c[2][std::size_t(3 * s.keys + j)] = 0;
        return c;
    }
    EverythingArrays(const UserSizes &s, unsigned seed) : UserArrays<T>(s, captures_of(s, seed), seed) {
        allowed = std::make_unique<bool[]>(std::size_t(s.queries * s.keys));
        for (std::size_t n = 0; n < this->captures[2].size(); n++) allowed[n] = this->captures[2][n] != 0;
        for (const T x : this->captures[3]) document.push_back(std::int32_t(x));
    }
    everything::Options options() {
        const UserSizes &s = this->sizes;
        return {.table = attune::ConstView(this->captures[0].data(), {s.heads, 11}),
                .temperature = attune::ConstView(this->captures[1].data(), {s.batch, s.heads}),
                .allowed = attune::ConstView(allowed.get(), {s.queries, s.keys}),
                .document = attune::ConstView(document.data(), {s.batch, s.keys}),
                .decay = attune::ConstView(this->captures[4].data(), {1}),
                .cap = 1.5,
                .reach = 5,
                .sdpa = {}};
    }
    attune::Status run(attune::Context &context, attune::BlockMask *block_mask = nullptr) {
        everything::Options o = options();
        o.block_mask = block_mask;
        o.sdpa.lse = this->lse_view();
        if (attune::Status s = everything::forward(context, this->q_like(this->query), this->k_like(this->key),
                                                   this->v_like(this->value), this->o_like(this->out), o);
            !s.ok())
            return s;
        o.sdpa.lse = {};
        const UserSizes &s = this->sizes;
        return everything::backward(context, this->q_like(this->query), this->k_like(this->key), this->v_like(this->value),
                                    this->forward(),
                                    {.sdpa = this->gradients(),
                                     .table = attune::View(this->grad_captures[0].data(), {s.heads, 11}),
                                     .temperature = attune::View(this->grad_captures[1].data(), {s.batch, s.heads}),
                                     .decay = attune::View(this->grad_captures[4].data(), {1})},
                                    o);
    }
};

inline UserSizes sizes_of(Index batch, Index heads, Index key_heads, Index queries, Index keys, Index width) {
    UserSizes s{batch, heads, key_heads, queries, keys, width, width, 1 / std::sqrt(double(width)), {}, {}};
    s.offset.assign(std::size_t(batch), keys - queries);
    s.lengths.assign(std::size_t(batch), keys);
    return s;
}

}  // namespace attune_test
