// SPDX-License-Identifier: MIT
// Registration of a user's struct, with a check of its members. Included by the one file that attune_add_attention() writes.
#pragma once
#include "generators/attention/equations/user_attention.h"
#include <concepts>

namespace attune {

template<typename T>
concept has_score = requires {
    &T::score;
};
template<typename T>
concept has_mask = requires {
    &T::mask;
};
template<typename T>
concept has_probability = requires {
    &T::probability;
};
template<typename T>
concept gives_score = requires(const T &t, Halide::Expr x, const Index &at) {
    { t.score(x, at) } -> std::convertible_to<Halide::Expr>;
};
template<typename T>
concept gives_mask = requires(const T &t, const Index &at) {
    { t.mask(at) } -> std::convertible_to<Halide::Expr>;
};
template<typename T>
concept gives_probability = requires(const T &t, const Index &at) {
    { t.probability(at) } -> std::convertible_to<Halide::Expr>;
};

template<typename User> struct RegisterAttention {
    static_assert(has_score<User> || has_mask<User> || has_probability<User>,
                  "attune: an attention has a member score, mask or probability (attune/generator/attention.h)");
    static_assert(!has_score<User> || gives_score<User>,
                  "attune: score must be: Halide::Expr score(Halide::Expr x, attune::Index at) const");
    static_assert(!has_mask<User> || gives_mask<User>, "attune: mask must be: Halide::Expr mask(attune::Index at) const");
    static_assert(!has_probability<User> || gives_probability<User>,
                  "attune: probability must be: Halide::Expr probability(attune::Index at) const");

    static_assert(std::is_default_constructible_v<User>, "attune: an attention is constructed without arguments");

    explicit RegisterAttention(const std::string &name) {
        set_user_attention([name] { return attention_of(name); });
    }

private:
    static UserAttention attention_of(const std::string &name) {
        UserAttention attention{name, {}, {}, {}, {}};
        Capture::collector = &attention.captures;
        const auto user = std::make_shared<const User>();
        Capture::collector = nullptr;
        if constexpr (gives_score<User>)
            attention.score = [user](Halide::Expr x, const Index &at) -> Halide::Expr { return user->score(x, at); };
        if constexpr (gives_mask<User>) attention.mask = [user](const Index &at) -> Halide::Expr { return user->mask(at); };
        if constexpr (gives_probability<User>)
            attention.probability = [user](const Index &at) -> Halide::Expr { return user->probability(at); };
        return attention;
    }
};

}  // namespace attune
