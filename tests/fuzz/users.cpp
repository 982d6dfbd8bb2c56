// SPDX-License-Identifier: MIT
// Attention that users write: results, and gradients of tensors and captures, against the formula pair by pair; the same bits
// for any threads, repeats and kept block masks. A program of its own, since its kernels are no part of a default build.
#include "tests/fuzz/family.h"
// The macros of judge.h come before the headers of tests/support.
#include "tests/user_attention/formula_captures.h"
#include "tests/user_attention/user_attention_case.h"

namespace attune_fuzz {
namespace {
using namespace attune_test;
using attune::ConstView, attune::detail::AttentionRecord;

// Copies of the tensors of a call in drawn layouts, which the call reads and writes.
template<typename T> struct Strided {
    Array<T> query, key, value, out, grad_out, grad_query, grad_key, grad_value;

    Strided(Draw &draw, UserArrays<T> &a) {
        const UserSizes &s = a.sizes;
        const auto make = [&](const char *name, Index heads, Index rows, Index width, bool is_output = false) {
            return Array<T>({s.batch, heads, rows, width}, draw_layout(draw, name, is_output));
        };
        query = make("query_layout", s.heads, s.queries, s.head_dim), key = make("key_layout", s.key_heads, s.keys, s.head_dim);
        value = make("value_layout", s.key_heads, s.keys, s.value_dim);
        out = make("out_layout", s.heads, s.queries, s.value_dim, true);
        grad_out = make("grad_layout", s.heads, s.queries, s.value_dim, true);
        grad_query = make("query_gradient_layout", s.heads, s.queries, s.head_dim, true);
        grad_key = make("key_gradient_layout", s.key_heads, s.keys, s.head_dim, true);
        grad_value = make("value_gradient_layout", s.key_heads, s.keys, s.value_dim, true);
        fill(query, a.query), fill(key, a.key), fill(value, a.value), fill(grad_out, a.grad_out);
    }
    // Where heads share memory the last one decides, so the vector takes the array's values.
    static void fill(Array<T> &to, std::vector<T> &from) {
        auto next = from.begin();
        to.each([&](T &x) { x = *next++; });
        from = to.values();
    }
    bool gaps_untouched() {
        bool all = true;
        for (Array<T> *x : {&out, &grad_query, &grad_key, &grad_value}) all = all && x->gaps_untouched();
        return all;
    }
    bool same_gradients(Strided &other) {
        return same_bits(grad_query.values(), other.grad_query.values()) &&
               same_bits(grad_key.values(), other.grad_key.values()) &&
               same_bits(grad_value.values(), other.grad_value.values());
    }
};

UserSizes draw_sizes(Draw &draw, Index most_pairs) {
    UserSizes s{};
    s.batch = draw.number("batch", 1, 2), s.key_heads = draw.number("key_heads", 1, 2);
    s.heads = s.key_heads * draw.number("group", 1, 2);
    s.head_dim = draw.number("head_dim", 1, 140),
    s.value_dim = draw.flag("other_value_dim", 4) ? draw.number("value_dim", 1, 140) : s.head_dim;
    const Index pairs = most_pairs / (s.batch * s.heads);
    s.keys = draw.number("keys", 1, std::min<Index>(pairs, 400));
    s.queries = draw.number("queries", 1, std::max<Index>(1, std::min<Index>(pairs / s.keys, 200)));
    s.scale = 1 / std::sqrt(double(s.head_dim));
    return s;
}

// Lengths, and positions of query 0, of batch entries.
struct Places {
    std::vector<std::int32_t> lengths, offsets;
    bool some_lengths, some_offsets;

    Places(Draw &draw, UserSizes &s, unsigned seed)
        : some_lengths(draw.flag("lengths", 3)), some_offsets(draw.flag("offsets", 3)) {
        std::mt19937 random(seed);
        for (Index b = 0; b < s.batch; b++) {
            lengths.push_back(std::int32_t(some_lengths ? random() % unsigned(s.keys + 1) : unsigned(s.keys)));
            offsets.push_back(some_offsets ? std::int32_t(random() % unsigned(s.keys + 8)) - 4
                                           : std::int32_t(s.keys - s.queries));
        }
        s.lengths.assign(lengths.begin(), lengths.end()), s.offset.assign(offsets.begin(), offsets.end());
    }
    attune::SdpaOptions options(std::string_view variant) const {
        attune::SdpaOptions o;
        const Index batch = Index(lengths.size());
        if (some_lengths) o.valid_lens = ConstView(lengths.data(), {batch});
        if (some_offsets) o.offsets = ConstView(offsets.data(), {batch});
        o.variant = variant;
        return o;
    }
};

// Pairs of a case, so that its reference takes a tenth of a second or two: each element of a capture is varied for each pair.
constexpr Index pairs_of_results = 20000, pairs_of_gradients = 800;

template<typename Formula, typename T> void run_formula(Draw &draw, const char *name) {
    const AttentionRecord *const record = attune::detail::find_attention(std::string("user_") + name);
    check(record != nullptr, std::string("no attention ") + name + " in this program");
    const bool with_gradients = draw.flag("gradients");
    const unsigned seed = draw.seed();
    UserSizes sizes = draw_sizes(draw, with_gradients ? pairs_of_gradients : pairs_of_results);
    const Places places(draw, sizes, seed);
    const DrawnVariant variant = draw_variant(draw, record->op, attune::dtype_of<T>(), {"plain", "scored", "training"}),
                       backward = draw_variant(draw, record->backward_op, attune::dtype_of<T>(),
                                               {"plain", "scored", "training"}, "backward_variant");
    if (variant.head_dim)
        sizes.head_dim = sizes.value_dim = variant.head_dim, sizes.scale = 1 / std::sqrt(double(sizes.head_dim));
    const GivenCaptures captures = Formula::captures(sizes);
    const FormulaCaptures<T> given(*record, captures, attune::Place::host);
    const std::vector<std::size_t> wanted = given.wanted();
    UserArrays<T> a(sizes, FormulaCaptures<T>::numbers(captures), seed);
    const attune::ContextOptions options = draw_context(draw);
    const DrawnFence fence(draw);
    attune::BlockMask kept;
    attune::BlockMask *const block_mask = record->has_mask && draw.flag("kept_mask", 3) ? &kept : nullptr;
    const auto forward = [&](attune::Context &context, Strided<T> &x, std::vector<Sum<T>> &lse) {
        attune::SdpaOptions o = places.options(variant.name);
        o.lse = attune::View(lse.data(), {sizes.batch, sizes.heads, sizes.queries});
        return attune::detail::run_user_attention(context, *record, x.query.view(), x.key.view(), x.value.view(), x.out.view(),
                                                  o, given.arguments(a.captures), block_mask);
    };
    const auto gradients = [&](attune::Context &context, Strided<T> &x, std::vector<Sum<T>> &lse,
                               Captured<Sum<T>> &of_captures) {
        const attune::View lse_view(lse.data(), {sizes.batch, sizes.heads, sizes.queries});
        return attune::detail::run_user_attention_backward(
            context, *record, x.query.view(), x.key.view(), x.value.view(), {x.out.view(), lse_view, x.grad_out.view(), {}},
            {.query = x.grad_query.view(), .key = x.grad_key.view(), .value = x.grad_value.view()},
            given.gradients(of_captures, wanted), places.options(backward.name), given.arguments(a.captures), block_mask);
    };
    Strided<T> x(draw, a);
    const Inputs inputs(x.query, x.key, x.value, x.grad_out);
    attune::Context context(options);
    if (!ran(forward(context, x, a.lse), context, variant.forced(), [&] { return x.out.untouched(); })) return;
    INFO("ran " << context.last_variant());
    a.out = x.out.values();
    if (with_gradients) {
        const Inputs results(x.out);
        const auto untouched = [&] { return x.grad_query.untouched() && x.grad_key.untouched() && x.grad_value.untouched(); };
        if (!ran(gradients(context, x, a.lse, a.grad_captures), context, backward.forced(), untouched)) return;
        a.grad_query = x.grad_query.values(), a.grad_key = x.grad_key.values(), a.grad_value = x.grad_value.values();
        results.check_unchanged();
    }
    inputs.check_unchanged();
    check(x.gaps_untouched(), "memory between rows was written");
    check_user_attention<Formula>(a, wanted, with_gradients);
    if (!draw.flag("again")) return;
    Strided<T> again = x;
    for (Array<T> *y : {&again.out, &again.grad_query, &again.grad_key, &again.grad_value}) y->forget();
    attune::Context other(draw_context(draw, "other_"));
    std::vector<Sum<T>> lse(a.lse.size());
    Captured<Sum<T>> of_captures = a.grad_captures;
    check(forward(other, again, lse).ok(), "refused the second time");
    check(same_bits(again.out.values(), a.out) && same_bits(lse, a.lse), "other bits with another Context");
    if (!with_gradients) return;
    check(gradients(other, again, lse, of_captures).ok(), "gradients were refused the second time");
    check(again.same_gradients(x), "gradients: other bits with another Context");
    for (const std::size_t n : wanted)
        check(same_bits(of_captures[n], a.grad_captures[n]), "gradient of a capture: other bits with another Context");
}

void run_alibi(Draw &draw) {
    with_any_type(draw, [&](auto zero) {
        using T = decltype(zero);
        run_formula<AlibiFormula, T>(draw, is_half<T> ? "alibi_of_16_bits" : "alibi_attention");
    });
}
void run_everything(Draw &draw) {
    with_type<float, double>(draw, [&](auto zero) { run_formula<EverythingFormula, decltype(zero)>(draw, "everything"); });
}
void run_prefix(Draw &draw) { run_formula<PrefixLmFormula, float>(draw, "prefix_attention"); }

}  // namespace

std::span<const Family> families() {
    static constexpr Family all[] = {
        {"user_alibi", 500, run_alibi}, {"user_everything", 250, run_everything}, {"user_prefix", 250, run_prefix}};
    return all;
}

std::span<const CorpusCase> corpus() { return {}; }

}  // namespace attune_fuzz
