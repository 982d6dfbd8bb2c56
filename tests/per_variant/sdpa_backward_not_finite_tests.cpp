// SPDX-License-Identifier: MIT
// One element that is NaN or infinite, in random cases of every score: gradients by every variant are NaN or infinite where the
// reference is, and nowhere else. docs/conventions.md row 35.
#include "tests/support/backward_grid.h"
#include <cstring>

using namespace attune_test;
using attune::Causal, attune::Score;

namespace {
struct Random {
    std::mt19937 bits;
    std::int64_t from(std::int64_t low, std::int64_t high) {
        return low + std::int64_t(bits() % std::uint64_t(high - low + 1));
    }
    bool one_in(unsigned n) { return bits() % n == 0; }
};

SdpaBackwardCase random_case(Random &random, Score score) {
    SdpaBackwardCase c;
    SdpaCase &f = c.forward;
    f.batch = random.from(1, 2), f.key_heads = random.from(1, 2), f.query_heads = f.key_heads * random.from(1, 3);
    f.queries = random.from(1, random.one_in(2) ? 9 : 140), f.keys = random.from(1, random.one_in(2) ? 9 : 140);
    f.head_dim = random.from(score == Score::cosine ? 2 : 1, 40), f.value_dim = random.from(1, 40);
    if (random.one_in(3)) f.head_dim = f.value_dim = 64;
    f.score = score, f.spread = random.one_in(4) ? 8 : 0.7, f.seed = unsigned(random.bits());
    c.grad_lse = random.one_in(2);
    if (random.one_in(2)) f.causal = random.one_in(2) ? Causal::top_left : Causal::bottom_right;
    if (random.one_in(3)) f.window = {random.from(0, 20), random.from(0, 20)};
    if (random.one_in(2)) f.valid_lens.resize(std::size_t(random.one_in(2) ? f.batch : f.batch * f.queries));
    for (std::int32_t &length : f.valid_lens) length = std::int32_t(random.from(0, f.keys));
    if (random.one_in(4)) f.mask = "b1ij";
    if (random.one_in(4)) f.bias = "hij";
    if (random.one_in(3)) f.softcap = random.one_in(2) ? 3 : 150;
    if (random.one_in(4)) f.alibi = Alibi::per_head;
    if (random.one_in(4)) f.sinks = true;
    return c;
}

template<typename T> std::string spoil(SdpaBackwardArrays<T> &a, Random &random) {
    const std::pair<const char *, Array<T> *> tensors[] = {
        {"query", &a.forward.query}, {"key", &a.forward.key}, {"value", &a.forward.value}, {"grad_out", &a.grad_out}};
    if (a.the.grad_lse && random.one_in(5)) {
        const std::int64_t b = random.from(0, a.f().batch - 1), h = random.from(0, a.f().query_heads - 1),
                           i = random.from(0, a.f().queries - 1);
        a.grad_lse(b, h, i) = std::numeric_limits<Sum<T>>::quiet_NaN();
        return "NaN in grad_lse";
    }
    const auto &[name, tensor] = tensors[random.from(0, 3)];
    const attune::View v = tensor->view();
    const std::int64_t at[] = {random.from(0, v.extent[0] - 1), random.from(0, v.extent[1] - 1),
                               random.from(0, v.extent[2] - 1), random.from(0, v.extent[3] - 1)};
    // With softcap an infinite score becomes finite.
    const bool of_score = tensor == &a.forward.query || tensor == &a.forward.key;
    const bool may_be_infinite = !of_score || (a.f().softcap > 0 && a.f().score == Score::dot_product);
    const bool infinite = random.one_in(2) && !is_half<T> && may_be_infinite;
    const double with = infinite ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    (*tensor)(at[0], at[1], at[2], at[3]) = T(random.one_in(2) ? with : -with);
    // A NaN of all ones, from memory filled with 0xff, would be rounded up to a zero.
    if (!infinite && random.one_in(2))
        std::memset(static_cast<void *>(&(*tensor)(at[0], at[1], at[2], at[3])), 0xff, sizeof(T));
    std::ostringstream text;
    text << (infinite ? "Inf" : "NaN") << " in " << name << '(' << at[0] << ", " << at[1] << ", " << at[2] << ", " << at[3]
         << ')';
    return text.str();
}

// Fault where a gradient is finite and the reference is not, or the other way round; infinities that cancel in another order
// may give NaN instead.
template<typename T> std::string reach_defect(SdpaBackwardArrays<T> &a, const SdpaBackwardResult<Reference<T>> &expected) {
    std::ostringstream found;
    a.each_gradient([&](const char *name, unsigned, auto &array, auto member) {
        const auto got = array.values();
        const auto &wanted = member(expected);
        std::size_t wrong = 0, first = 0;
        for (std::size_t n = got.size(); n-- > 0;)
            if (std::isfinite(float(got[n])) != std::isfinite(wanted[n])) wrong++, first = n;
        if (wrong)
            found << name << ": " << wrong << " elements, " << first << " is " << float(got[first]) << ", the reference "
                  << wanted[first] << "; ";
    });
    return found.str();
}

template<typename T> void check_random(attune::Context &context, std::string_view op, Score score, unsigned seed) {
    Random random{std::mt19937(seed)};
    const SdpaBackwardCase c = random_case(random, score);
    SdpaBackwardArrays<T> clean(c);
    const std::string what = spoil(clean, random);
    INFO(describe(c) << ' ' << what << " seed " << seed);
    REQUIRE(clean.run_forward(context).ok());
    const auto expected = clean.template reference<Reference<T>>();
    for (const attune::VariantInfo &v : attune::variants()) {
        if (v.op != op || !v.runs_here || v.dtype != attune::dtype_of<T>() || !fits(v, c.forward)) continue;
        SdpaBackwardArrays<T> a(clean);
        const attune::Status status = a.run(context, v.name);
        INFO(v.name << ' ' << status.message());
        CHECK(status.ok());
        if (status.ok()) CHECK(reach_defect(a, expected) == "");
    }
}
}  // namespace

TEST_CASE("gradients by variant: one NaN or infinity reaches what it counts in, and nothing else",
          "[sdpa_backward][per_variant]") {
    attune::Context context({.threads = 2});
    for (unsigned seed = 1; seed <= 12; seed++) {
        for (const auto &[op, score] : {std::pair("sdpa_backward", Score::dot_product),
                                        {"cosine_backward", Score::cosine},
                                        {"gaussian_backward", Score::gaussian}}) {
            check_random<float>(context, op, score, seed);
            check_random<double>(context, op, score, seed);
        }
        check_random<BFloat16>(context, "sdpa_backward", Score::dot_product, seed);
        check_random<Float16>(context, "sdpa_backward", Score::dot_product, seed);
    }
}
