// SPDX-License-Identifier: MIT
#include "attune/merge.h"
#include "dispatch/op_call.h"
#include "execution/halide_call.h"
#include "kernel_arguments.h"
#include "tensors/checks.h"
#include "tensors/overlap.h"
#include <algorithm>
#include <array>

namespace attune {
namespace {

// Elements that a core merges in about the time in which another core wakes.
constexpr std::int64_t merged_per_thread = 1 << 15;

// Views of rank 4, (B, H, Sq, Dv); views of lse lack the last dimension.
struct MergeCall {
    ConstView out_a, lse_a, out_b, lse_b;
    View out, lse;
};

Status check_part(std::string_view name, const ConstView &v, const ConstView &out) {
    if (v.rank != out.rank) return invalid(name, "rank is " + text(v.rank) + ", that of out_a is " + text(out.rank));
    if (Status s = check_same_type(name, v.dtype, "out_a", out.dtype); !s.ok()) return s;
    if (Status s = check_memory(name, v); !s.ok()) return s;
    if (Status s = check_dense(name, v); !s.ok()) return s;
    for (int n = 0; n < v.rank; n++)
        if (Status s = check_extent(name, "extent " + text(n), v.extent[n], "out_a", out.extent[n]); !s.ok()) return s;
    return {};
}

Status check_lse(std::string_view name, const ConstView &v, const ConstView &out) {
    if (v.rank != out.rank - 1)
        return invalid(name, "rank must be " + text(out.rank - 1) + ", one less than that of out_a, got " + text(v.rank));
    if (v.dtype != sum_type(out.dtype))
        return invalid(name, std::string("type must be ") + name_of(sum_type(out.dtype)) + " where out_a is " +
                                 name_of(out.dtype) + ", got " + name_of(v.dtype));
    if (Status s = check_memory(name, v); !s.ok()) return s;
    for (int n = 0; n < v.rank; n++)
        if (Status s = check_extent(name, "extent " + text(n), v.extent[n], "out_a", out.extent[n]); !s.ok()) return s;
    return {};
}

// (.., Sq) as the first three dimensions of (B, H, Sq, 1).
template<typename Data> BasicView<Data> as_rows(BasicView<Data> v) {
    v.extent[v.rank] = 1, v.stride[v.rank] = 1;
    v.rank++;
    v = as_rank4(v, false);
    v.rank = 3;
    return v;
}

Status check(const ConstView &out_a, const ConstView &lse_a, const ConstView &out_b, const ConstView &lse_b, const View &out,
             const View &lse, MergeCall &c) {
    if (out_a.rank < 2 || out_a.rank > max_rank) return invalid("out_a", "rank must be from 2 to 4, got " + text(out_a.rank));
    if (Status s = check_real("out_a", out_a); !s.ok()) return s;
    if (Status s = check_part("out_a", out_a, out_a); !s.ok()) return s;
    if (Status s = check_lse("lse_a", lse_a, out_a); !s.ok()) return s;
    if (Status s = check_part("out_b", out_b, out_a); !s.ok()) return s;
    if (Status s = check_lse("lse_b", lse_b, out_a); !s.ok()) return s;
    if (Status s = check_part("out", out, out_a); !s.ok()) return s;
    if (lse.given())
        if (Status s = check_lse("lse", lse, out_a); !s.ok()) return s;
    // An output may be the very view of an input.
    auto unless = [](bool same, const ConstView &v) { return same ? ConstView() : v; };
    const std::array<NamedView, 4> inputs{{{"out_a", unless(same_memory(out_a, out), out_a)},
                                           {"lse_a", unless(lse.given() && same_memory(lse_a, lse), lse_a)},
                                           {"out_b", unless(same_memory(out_b, out), out_b)},
                                           {"lse_b", unless(lse.given() && same_memory(lse_b, lse), lse_b)}}};
    const std::array<NamedView, 2> outputs{{{"out", out}, {"lse", lse}}};
    if (Status s = check_overlaps(inputs, outputs); !s.ok()) return s;
    c = {as_rank4(out_a, false), as_rows(lse_a), as_rank4(out_b, false), as_rows(lse_b), as_rank4(out, false), {}};
    if (lse.given()) c.lse = as_rows(lse);
    return {};
}

Status run_kernel(Context::State &context, MergeCall &c, const VariantRecord &variant, std::int64_t rows) {
    // The kernel always writes lse.
    const DType sum = c.lse_a.dtype;
    ScratchBlock block(*context.scratch, c.lse.given() ? 0 : static_cast<std::size_t>(rows * size_of(sum)));
    if (!block.data()) return no_memory();
    if (!c.lse.given()) {
        c.lse = View(static_cast<float *>(block.data()), {c.out.extent[0], c.out.extent[1], c.out.extent[2]});
        c.lse.dtype = sum;
    }
    join_rows(c.out, c.out_a, c.lse_a, c.out_b, c.lse_b, c.lse);  // tasks are cut from one dimension
    HalideBuffer out_a(c.out_a), lse_a(c.lse_a), out_b(c.out_b), lse_b(c.lse_b), out(c.out), lse(c.lse);
    const MergeArguments arguments{.out_a = out_a.get(),
                                   .lse_a = lse_a.get(),
                                   .out_b = out_b.get(),
                                   .lse_b = lse_b.get(),
                                   .out = out.get(),
                                   .lse = lse.get()};
    const std::int64_t worth = rows * c.out.extent[3] / merged_per_thread;
    const int threads = static_cast<int>(std::clamp<std::int64_t>(worth, 1, context.threads));
    return call_kernel(context, variant.kernel, arguments, threads);
}

Status merge(Context::State &context, const ConstView &out_a, const ConstView &lse_a, const ConstView &out_b,
             const ConstView &lse_b, const View &out, const View &lse) {
    const CallStart start = start_of_call();
    MergeCall call;
    if (Status s = check(out_a, lse_a, out_b, lse_b, out, lse, call); !s.ok()) return s;
    static constexpr Candidate candidates[] = {{Schedule::rows, "", "always"}, {Schedule::root, "", "nothing else is built"}};
    Choice choice;
    const VariantNeeds needs{.op = ops::merge, .dtype = out_a.dtype};
    if (Status s = choose_variant(needs, candidates, forced_variant(context, {}, needs.op), choice); !s.ok()) return s;
    const std::int64_t *n = call.out.extent;
    const std::array<std::int64_t, 4> sizes{n[0], n[1], n[2], n[3]};
    const std::int64_t rows = elements_of(call.lse_a);
    if (rows == 0)
        choice = {nullptr, "no queries"};
    else if (Status s = run_kernel(context, call, *choice.variant, rows); !s.ok())
        return s;
    record_call(context, choice, needs.op.name, start, [&] {
        return "b " + text(sizes[0]) + " h " + text(sizes[1]) + " q " + text(sizes[2]) + " d " + text(sizes[3]);
    });
    return {};
}

}  // namespace

Status merge_attention(Context &context, const ConstView &out_a, const ConstView &lse_a, const ConstView &out_b,
                       const ConstView &lse_b, const View &out, const View &lse) noexcept {
    const auto body = [](Context::State &state, const ConstView &oa, const ConstView &la, const ConstView &ob,
                         const ConstView &lb, const View &o, const View &l) { return merge(state, oa, la, ob, lb, o, l); };
    return answer(context, body, out_a, lse_a, out_b, lse_b, out, lse);
}

}  // namespace attune
