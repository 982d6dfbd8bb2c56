// SPDX-License-Identifier: MIT
// Users' attention (docs/conventions.md rows 7, 8, 11, 13, 14, 15): forward pass, gradients and gradients of captures against
// the formula, pair by pair.
#include "alibi_attention.h"
#include "alibi_by_tiles.h"
#include "bent.h"
#include "every_other.h"
#include "tests/user_attention/everything_case.h"
#include <attune/variants.h>
#include <set>

using namespace attune_test;

namespace {

struct EveryOtherFormula : PlainFormula {
    template<typename R> static bool mask(const Pair &at, const Captured<R> &c) { return at.j % Index(c[0][0]) == 0; }
};
struct BentFormula : PlainFormula {
    template<typename R> static R score(R x, const Pair &, const Captured<R> &) { return std::tanh(x); }
};

// Runs the variants of these names; empty: dispatch.
template<typename T>
void run_alibi(UserArrays<T> &a, attune::Context &context, std::string_view forward = {}, std::string_view backward = {}) {
    const attune::ConstView slopes(a.captures[0].data(), {a.sizes.heads});
    attune::SdpaOptions options;
    options.lse = a.lse_view(), options.variant = forward;
    attune::Status status = alibi_attention::forward(context, a.q_like(a.query), a.k_like(a.key), a.v_like(a.value),
                                                     a.o_like(a.out), {.slopes = slopes, .sdpa = options});
    INFO(status.message());
    REQUIRE(status.ok());
    options.lse = {}, options.variant = backward;
    status =
        alibi_attention::backward(context, a.q_like(a.query), a.k_like(a.key), a.v_like(a.value), a.forward(),
                                  {.sdpa = a.gradients(), .slopes = attune::View(a.grad_captures[0].data(), {a.sizes.heads})},
                                  {.slopes = slopes, .sdpa = options});
    INFO(status.message());
    REQUIRE(status.ok());
}

}  // namespace

TEMPLATE_TEST_CASE("a score with a mask agrees with its formula, forward and backward", "[user_attention]", float, double) {
    attune::Context context({.threads = 2});
    for (const auto &[heads, key_heads, queries, keys] : {std::tuple(2, 2, 1, 1),
                                                          {2, 1, 63, 63},
                                                          {4, 2, 64, 64},
                                                          {2, 2, 65, 129},
                                                          {4, 2, 37, 211},
                                                          {2, 1, 130, 67},
                                                          {4, 1, 1, 300}}) {
        CAPTURE(heads, key_heads, queries, keys);
        UserArrays<TestType> a(sizes_of(2, heads, key_heads, queries, keys, 16), {{}}, 7);
        for (Index h = 0; h < heads; h++) a.captures[0].push_back(TestType(0.25) / TestType(h + 1));
        a.grad_captures[0].resize(a.captures[0].size());
        run_alibi(a, context);
        check_user_attention<AlibiFormula>(a, {0});
    }
}

TEMPLATE_TEST_CASE("every variant of a user's attention agrees with its formula", "[user_attention][per_variant]", float,
                   double) {
    attune::Context context({.threads = 1});
    int tried = 0;
    for (const attune::VariantInfo &v : attune::variants()) {
        const bool forward = v.op == "user_alibi_attention", backward = v.op == "user_alibi_attention_backward";
        if (v.dtype != attune::dtype_of<TestType>() || !v.runs_here || !(forward || backward)) continue;
        for (const auto &[queries, keys] : {std::pair(1, 65), {17, 131}}) {
            CAPTURE(v.name, queries, keys);
            UserArrays<TestType> a(sizes_of(1, 2, 1, queries, keys, 16), {{TestType(0.25), TestType(0.125)}}, 7);
            run_alibi(a, context, forward ? v.name : std::string_view(), backward ? v.name : std::string_view());
            check_user_attention<AlibiFormula>(a, {0});
            tried++;
        }
    }
    CHECK(tried >= 10);
}

TEST_CASE("variants of one head size agree with the formula, by AMX tiles where the target has them",
          "[user_attention][per_variant]") {
    attune::Context context({.threads = 2});
    int tried = 0;
    for (const attune::VariantInfo &v : attune::variants()) {
        if (v.op != "user_alibi_by_tiles" || v.schedule == "blocks" || !v.runs_here) continue;
        for (const auto &[queries, keys] : {std::pair(1, 65), {67, 131}, {40, 300}}) {
            CAPTURE(v.name, queries, keys);
            UserArrays<float> a(sizes_of(1, 2, 1, queries, keys, 64), {{0.25f, 0.125f}}, 7);
            run_alibi(a, context);  // computes the gradients
            const attune::ConstView slopes(a.captures[0].data(), {a.sizes.heads});
            const attune::Status status =
                alibi_by_tiles::forward(context, a.q_like(a.query), a.k_like(a.key), a.v_like(a.value), a.o_like(a.out),
                                        {.slopes = slopes, .sdpa = {.lse = a.lse_view(), .variant = v.name}});
            INFO(status.message());
            REQUIRE(status.ok());
            check_user_attention<AlibiFormula>(a, {0});
            tried++;
        }
    }
    CHECK(tried >= 3);
}

TEMPLATE_TEST_CASE("captures of every kind and a factor of the weights agree with their formula", "[user_attention]", float,
                   double) {
    attune::Context context({.threads = 2});
    for (const auto &[heads, key_heads, queries, keys] :
         {std::tuple(2, 2, 1, 1), {4, 2, 64, 64}, {4, 2, 65, 129}, {2, 1, 37, 211}, {2, 2, 2, 257}}) {
        CAPTURE(heads, key_heads, queries, keys);
        EverythingArrays<TestType> a(sizes_of(2, heads, key_heads, queries, keys, 16), 11);
        const attune::Status status = a.run(context);
        INFO(status.message());
        REQUIRE(status.ok());
        check_user_attention<EverythingFormula>(a, {0, 1, 4});
    }
}

TEST_CASE("a mask of keys alone, a score without a mask and nothing learned agree with their formulas", "[user_attention]") {
    attune::Context context({.threads = 2});
    for (const auto &[queries, keys] : {std::pair(1, 1), {65, 129}, {130, 67}}) {
        CAPTURE(queries, keys);
        UserArrays<float> masked(sizes_of(2, 4, 2, queries, keys, 16), {{3}}, 17), bent(masked.sizes, {}, 17);
        const auto run = [&](UserArrays<float> &a, const auto &forward, const auto &backward, auto options) {
            options.sdpa.lse = a.lse_view();
            REQUIRE(forward(context, a.q_like(a.query), a.k_like(a.key), a.v_like(a.value), a.o_like(a.out), options).ok());
            options.sdpa.lse = {};
            REQUIRE(backward(context, a.q_like(a.query), a.k_like(a.key), a.v_like(a.value), a.forward(),
                             {.sdpa = a.gradients()}, options)
                        .ok());
        };
        run(masked, every_other::forward, every_other::backward, every_other::Options{.step = 3});
        check_user_attention<EveryOtherFormula>(masked, {});
        run(bent, bent::forward, bent::backward, bent::Options{});
        check_user_attention<BentFormula>(bent, {});
    }
}

TEST_CASE("bits of a user's attention do not depend on threads, nor on a kept block mask", "[user_attention][invariance]") {
    EverythingArrays<float> first(sizes_of(2, 4, 2, 130, 195, 16), 5);
    attune::Context one({.threads = 1});
    REQUIRE(first.run(one).ok());
    for (const int threads : {2, 3, 7}) {
        attune::Context context({.threads = threads});
        attune::BlockMask kept;
        EverythingArrays<float> again(first.sizes, 5);
        for (int round = 0; round < 2; round++) {
            REQUIRE(again.run(context, round ? &kept : nullptr).ok());
            REQUIRE(again.run(context, round ? &kept : nullptr).ok());
            CHECK(again.out == first.out);
            CHECK(again.lse == first.lse);
            CHECK(again.grad_query == first.grad_query);
            CHECK(again.grad_key == first.grad_key);
            CHECK(again.grad_value == first.grad_value);
            for (const std::size_t c : {0u, 1u, 4u}) CHECK(again.grad_captures[c] == first.grad_captures[c]);
        }
    }
}

TEST_CASE("what a user's mask leaves out may be NaN", "[user_attention]") {
    attune::Context context({.threads = 1});
    UserArrays<float> a(sizes_of(1, 1, 1, 70, 200, 16), {{0.25f}}, 3);
    run_alibi(a, context);
    const std::vector<float> out = a.out, grad_query = a.grad_query, grad_value = a.grad_value, slope = a.grad_captures[0];
    // Queries before 20 do not see keys from this one on.
    const Index first = 20 + 200 - 70;
    a.sizes.queries = 20;
    UserArrays<float> b(sizes_of(1, 1, 1, 20, 200, 16), {{0.25f}}, 3);
    b.key = a.key, b.value = a.value;
    attune::SdpaOptions options;
    options.lse = b.lse_view(), options.offset = 130;
    std::fill(b.key.begin() + first * 16, b.key.end(), NAN);
    std::fill(b.value.begin() + first * 16, b.value.end(), NAN);
    const attune::ConstView slopes(b.captures[0].data(), {1});
    REQUIRE(alibi_attention::forward(context, b.q_like(b.query), b.k_like(b.key), b.v_like(b.value), b.o_like(b.out),
                                     {.slopes = slopes, .sdpa = options})
                .ok());
    options.lse = {};
    REQUIRE(alibi_attention::backward(context, b.q_like(b.query), b.k_like(b.key), b.v_like(b.value), b.forward(),
                                      {.sdpa = b.gradients(), .slopes = attune::View(b.grad_captures[0].data(), {1})},
                                      {.slopes = slopes, .sdpa = options})
                .ok());
    const auto finite = [](const std::vector<float> &x) {
        return std::all_of(x.begin(), x.end(), [](float e) { return std::isfinite(e); });
    };
    CHECK(finite(b.out));
    CHECK(finite(b.grad_query));
    CHECK(finite(b.grad_key));
    CHECK(finite(b.grad_value));
    CHECK(finite(b.grad_captures[0]));
}

TEST_CASE("bad captures are refused in their words before anything is written", "[user_attention]") {
    attune::Context context({.threads = 1});
    EverythingArrays<float> a(sizes_of(2, 2, 2, 5, 9, 16), 3);
    const auto refused = [&](const everything::Options &o) {
        const attune::Status s =
            everything::forward(context, a.q_like(a.query), a.k_like(a.key), a.v_like(a.value), a.o_like(a.out), o);
        CHECK_FALSE(s.ok());
        CHECK(std::all_of(a.out.begin(), a.out.end(), [](float x) { return std::isnan(x); }));
        return std::string(s.message());
    };
    everything::Options o = a.options();
    o.table = {};
    CHECK(refused(o) == "table: must be given");
    o = a.options(), o.table = attune::ConstView(a.captures[0].data(), {22});
    CHECK(refused(o) == "table: rank must be 2, got 1");
    o = a.options(), o.document = attune::ConstView(a.captures[0].data(), {2, 9});
    CHECK(refused(o) == "document: type must be i32, got f32");
    o = a.options(), o.cap = {};
    CHECK(refused(o) == "cap: must be given");
    o = a.options(), o.table = attune::ConstView(a.captures[0].data(), {1, 11});
    CHECK(refused(o).find("table: is too small: everything reads beyond its extents") == 0);
    o = a.options(), o.sdpa.softcap = 1;
    CHECK(refused(o).find("user_everything: no variant for f32 with the options of this call (scored) is linked in") == 0);
    o = a.options(), o.sdpa.score = attune::Score::cosine;
    CHECK(refused(o).find("score: must be dot_product") == 0);
    o = a.options(), o.table = attune::ConstView(a.out.data(), {2, 11});
    CHECK(refused(o).find("overlap") != std::string::npos);
}

TEST_CASE("gradients whose captures are too small for the last head or rows alone write nothing", "[user_attention]") {
    const int threads = GENERATE(1, 4);
    CAPTURE(threads);
    attune::Context context({.threads = threads});
    EverythingArrays<float> a(sizes_of(2, 4, 4, 130, 65, 16), 3);
    everything::Options o = a.options();
    o.sdpa.lse = a.lse_view();
    REQUIRE(everything::forward(context, a.q_like(a.query), a.k_like(a.key), a.v_like(a.value), a.o_like(a.out), o).ok());
    const auto refused = [&](const everything::Options &o) {
        const attune::Status s = everything::backward(context, a.q_like(a.query), a.k_like(a.key), a.v_like(a.value),
                                                      a.forward(), {.sdpa = a.gradients()}, o);
        for (const auto *x : {&a.grad_query, &a.grad_key, &a.grad_value})
            CHECK(std::all_of(x->begin(), x->end(), [](float e) { return std::isnan(e); }));
        return std::string(s.message());
    };
    o = a.options(), o.table = attune::ConstView(a.captures[0].data(), {3, 11});
    CHECK(refused(o).find("table: is too small: everything reads beyond its extents") == 0);
    o = a.options(), o.temperature = attune::ConstView(a.captures[1].data(), {1, 4});
    CHECK(refused(o).find("temperature: is too small: everything reads beyond its extents") == 0);
    o = a.options(), o.allowed = attune::ConstView(a.allowed.get(), {129, 65});
    CHECK(refused(o).find("allowed: is too small: everything reads beyond its extents") == 0);
}

TEST_CASE("variants of a user's attention are listed", "[user_attention]") {
    int forward = 0, backward = 0;
    for (const attune::VariantInfo &v : attune::variants()) {
        forward += v.op == "user_alibi_attention" && v.runs_here;
        backward += v.op == "user_alibi_attention_backward" && v.runs_here;
    }
    CHECK(forward > 0);
    CHECK(backward > 0);
}

TEST_CASE("names of users' attentions and of the library never meet", "[user_attention]") {
    std::set<std::string_view> names;
    for (const attune::VariantInfo &v : attune::variants()) {
        CAPTURE(v.name, v.op);
        CHECK(names.insert(v.name).second);
        CHECK(v.name.substr(0, v.op.size()) == v.op);
        if (attune::detail::find_attention(v.op)) CHECK(v.op.starts_with("user_"));
    }
    CHECK(attune::detail::find_attention("user_alibi_attention"));
    CHECK_FALSE(attune::detail::find_attention("alibi_attention"));  // without the prefix of users' ops
    CHECK_FALSE(attune::detail::find_attention(""));
}
