// SPDX-License-Identifier: MIT
// Merge of attentions. A kernel adds up to four parts to a sum of the parts before them; the lse of all parts stand one after
// another in scratch.
#include "device/device_call.h"
#include "execution/halide_call.h"
#include "kernel_arguments.h"
#include "serving/merge_call.h"
#include "tensors/overlap.h"
#include <algorithm>

namespace attune {
namespace {

// Elements that a core merges in about the time in which another core wakes.
constexpr std::int64_t merged_per_thread = 1 << 15;

constexpr std::size_t merged_at_once = 4;

Status check_out(std::string_view name, const ConstView &v, const Part &first) {
    const ConstView &out = first.out;
    if (v.rank != out.rank)
        return invalid(name, "rank is " + text(v.rank) + ", that of " + first.name_of_out + " is " + text(out.rank));
    if (Status s = check_same_type(name, v.dtype, first.name_of_out, out.dtype); !s.ok()) return s;
    if (Status s = check_memory(name, v); !s.ok()) return s;
    if (Status s = check_dense(name, v); !s.ok()) return s;
    for (int n = 0; n < v.rank; n++)
        if (Status s = check_extent(name, "extent " + text(n), v.extent[n], first.name_of_out, out.extent[n]); !s.ok())
            return s;
    return {};
}

Status check_lse(std::string_view name, const ConstView &v, const Part &first) {
    const ConstView &out = first.out;
    const std::string &of = first.name_of_out;
    if (v.rank != out.rank - 1)
        return invalid(name, "rank must be " + text(out.rank - 1) + ", one less than that of " + of + ", got " + text(v.rank));
    if (v.dtype != sum_type(out.dtype))
        return invalid(name, std::string("type must be ") + name_of(sum_type(out.dtype)) + " where " + of + " is " +
                                 name_of(out.dtype) + ", got " + name_of(v.dtype));
    if (Status s = check_memory(name, v); !s.ok()) return s;
    for (int n = 0; n < v.rank; n++)
        if (Status s = check_extent(name, "extent " + text(n), v.extent[n], of, out.extent[n]); !s.ok()) return s;
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

}  // namespace

Status check_merge(MergeCall &c) {
    const Part first = c.parts[0];
    if (first.out.rank < 2 || first.out.rank > max_rank)
        return invalid(first.name_of_out, "rank must be from 2 to 4, got " + text(first.out.rank));
    if (Status s = check_real(first.name_of_out, first.out); !s.ok()) return s;
    for (const Part &part : c.parts) {
        if (Status s = check_out(part.name_of_out, part.out, first); !s.ok()) return s;
        if (Status s = check_lse(part.name_of_lse, part.lse, first); !s.ok()) return s;
    }
    if (Status s = check_out("out", c.out, first); !s.ok()) return s;
    if (c.lse.given())
        if (Status s = check_lse("lse", c.lse, first); !s.ok()) return s;
    // An output may be the very view of an input.
    auto unless = [](bool same, const ConstView &v) { return same ? ConstView() : v; };
    std::vector<NamedView> inputs;
    for (const Part &part : c.parts) {
        inputs.push_back({part.name_of_out, unless(same_memory(part.out, c.out), part.out)});
        inputs.push_back({part.name_of_lse, unless(c.lse.given() && same_memory(part.lse, c.lse), part.lse)});
    }
    const std::int64_t rows = elements_of(first.lse), most_parts = most_extent / std::max<std::int64_t>(rows, 1);
    if (static_cast<std::int64_t>(c.parts.size()) > most_parts)
        return unsupported("count", text(c.parts.size()) + " parts of " + text(rows) + " rows are more than 2^31 - 1 together");
    const std::array<NamedView, 2> outputs{{{"out", c.out}, {"lse", c.lse}}};
    if (Status s = check_overlaps(inputs, outputs); !s.ok()) return s;
    for (Part &part : c.parts) part.out = as_rank4(part.out, false), part.lse = as_rows(part.lse);
    c.out = as_rank4(c.out, false);
    if (c.lse.given()) c.lse = as_rows(c.lse);
    return {};
}

std::string merge_sizes_text(const MergeCall &call) {
    const std::int64_t *n = call.out.extent;
    const std::string several = call.parts.size() == 2 ? "" : "parts " + std::to_string(call.parts.size()) + " ";
    return several + "b " + text(n[0]) + " h " + text(n[1]) + " q " + text(n[2]) + " d " + text(n[3]);
}

MergeCall as_host(const MergeCall &call) {
    MergeCall on_host = call;
    for (Part &part : on_host.parts) part.out.place = part.lse.place = Place::host;
    on_host.out.place = on_host.lse.place = Place::host;
    return on_host;
}

namespace {

// Copies the rows of one part's lse to contiguous memory.
template<typename Sum> void copy_rows(const ConstView &lse, Sum *to) {
    const std::int64_t *n = lse.extent, *stride = lse.stride;
    for (std::int64_t b = 0; b < n[0]; b++)
        for (std::int64_t h = 0; h < n[1]; h++, to += n[2]) {
            const Sum *from = static_cast<const Sum *>(lse.data) + b * stride[0] + h * stride[1];
            if (stride[2] == 1)
                std::copy_n(from, n[2], to);
            else
                for (std::int64_t i = 0; i < n[2]; i++) to[i] = from[i * stride[2]];
        }
}
void copy_rows(const ConstView &lse, char *to) {
    if (lse.dtype == DType::f64)
        copy_rows(lse, reinterpret_cast<double *>(to));
    else
        copy_rows(lse, reinterpret_cast<float *>(to));
}

// Contiguous views of scratch.
template<typename Data> View contiguous(Data *data, DType type, std::initializer_list<std::int64_t> extents) {
    View v(reinterpret_cast<float *>(data), extents);
    v.dtype = type;
    return v;
}

class MergeKernels {
public:
    MergeKernels(Context::State &context, const MergeCall &call, const VariantRecord &variant)
        : context_(context), c_(call), variant_(variant), sum_type_(call.parts[0].lse.dtype),
          rows_(elements_of(call.parts[0].lse)), width_(call.out.extent[3]) {}

    Status run() {
        const auto count = static_cast<std::int64_t>(c_.parts.size());
        const std::int64_t of_rows = rows_ * size_of(sum_type_), of_lses = count * of_rows,
                           of_lse = c_.lse.given() ? 0 : of_rows,
                           of_sum = c_.parts.size() > merged_at_once ? rows_ * width_ * size_of(sum_type_) : 0;
        ScratchBlock block(*context_.scratch, static_cast<std::size_t>(of_lses + of_lse + of_sum));
        if (!block.data()) return no_memory();
        lses_ = static_cast<char *>(block.data()), lse_ = lses_ + of_lses, sum_ = lse_ + of_lse;
        for (std::int64_t n = 0; n < count; n++) copy_rows(c_.parts[static_cast<std::size_t>(n)].lse, lses_ + n * of_rows);
        for (std::size_t first = 0; first < c_.parts.size(); first += merged_at_once)
            if (Status s = add_parts(first, std::min(merged_at_once, c_.parts.size() - first)); !s.ok()) return s;
        return {};
    }

private:
    // Adds parts to the sum of those before; the last of them make it the result.
    Status add_parts(std::size_t first, std::size_t count) const {
        View out = c_.out, lse = c_.lse;
        std::array<ConstView, merged_at_once> parts;  // beyond `count`: of no effect
        for (std::size_t n = 0; n < merged_at_once; n++) parts[n] = c_.parts[first + std::min(n, count - 1)].out;
        if (!lse.given()) lse = contiguous(lse_, sum_type_, {out.extent[0], out.extent[1], out.extent[2]});
        join_rows(out, lse, parts[0], parts[1], parts[2], parts[3]);  // tasks are cut from one dimension
        const std::int64_t *n = out.extent;
        const auto all = static_cast<std::int64_t>(c_.parts.size());
        const View lses = contiguous(lses_, sum_type_, {all, n[0], n[1], n[2]});
        View sum = contiguous(sum_, sum_type_, {n[0], n[1], n[2], width_});
        const ConstView before = sum;
        const bool last = first + count == c_.parts.size();
        View &unwanted = last ? sum : out;
        unwanted.extent[2] = unwanted.extent[3] = 0;
        HalideBuffer out_0(parts[0]), out_1(parts[1]), out_2(parts[2]), out_3(parts[3]), of_lses(lses), sum_before(before),
            of_out(out), of_sum(sum), of_lse(lse);
        const MergeArguments arguments{.out_0 = out_0.get(),
                                       .out_1 = out_1.get(),
                                       .out_2 = out_2.get(),
                                       .out_3 = out_3.get(),
                                       .lses = of_lses.get(),
                                       .sum_before = sum_before.get(),
                                       .first = static_cast<std::int32_t>(first),
                                       .count = static_cast<std::int32_t>(count),
                                       .out = of_out.get(),
                                       .sum = of_sum.get(),
                                       .lse = of_lse.get()};
        const std::int64_t worth = rows_ * width_ / merged_per_thread;
        const int threads = static_cast<int>(std::clamp<std::int64_t>(worth, 1, context_.threads));
        return call_kernel(context_, variant_.kernel, arguments, threads);
    }

    Context::State &context_;
    const MergeCall &c_;
    const VariantRecord &variant_;
    const DType sum_type_;
    const std::int64_t rows_, width_;
    char *lses_ = nullptr, *lse_ = nullptr, *sum_ = nullptr;
};

Status merge_here(Context::State &context, MergeCall call, std::string_view why_here = {}) {
    const CallStart start = start_of_call();
    if (Status s = check_merge(call); !s.ok()) return s;
    static constexpr Candidate candidates[] = {{Schedule::rows, "", "always"}, {Schedule::root, "", "nothing else is built"}};
    Choice choice;
    const VariantNeeds needs{.op = ops::merge, .dtype = call.out.dtype};
    if (Status s = choose_variant(needs, candidates, forced_variant(context, {}, needs.op), choice); !s.ok()) return s;
    if (elements_of(call.parts[0].lse) == 0)
        choice = {nullptr, "no queries"};
    else if (Status s = MergeKernels(context, call, *choice.variant).run(); !s.ok())
        return s;
    if (!why_here.empty()) choice.reason = why_here;
    record_call(context, choice, needs.op.name, start, [&] { return merge_sizes_text(call); });
    return {};
}

Status merge(Context::State &context, MergeCall call) {
    if (call.parts[0].out.place != Place::device) return merge_here(context, std::move(call));
    std::string instead;
    if (Status s = find_device(context, call.parts[0].name_of_out, instead); !s.ok()) return s;
    if (instead.empty()) return merge_on_device(context, std::move(call));
    return merge_here(context, as_host(call), instead);
}

}  // namespace

Status merge_attention(Context &context, const ConstView &out_a, const ConstView &lse_a, const ConstView &out_b,
                       const ConstView &lse_b, const View &out, const View &lse) noexcept {
    const auto body = [](Context::State &state, const ConstView &oa, const ConstView &la, const ConstView &ob,
                         const ConstView &lb, const View &o, const View &l) {
        return merge(state, {{{"out_a", "lse_a", oa, la}, {"out_b", "lse_b", ob, lb}}, o, l});
    };
    return answer(context, body, out_a, lse_a, out_b, lse_b, out, lse);
}

Status merge_attention(Context &context, const PartialAttention *parts, std::size_t count, const View &out,
                       const View &lse) noexcept {
    const auto body = [&](Context::State &state, const std::vector<PartialAttention> &given, const View &o,
                          const View &l) -> Status {
        if (count == 0) return invalid("count", "must be at least 1, got 0");
        if (!parts) return invalid("parts", "is null");
        if (count > static_cast<std::size_t>(most_extent))
            return invalid("count", "must be at most 2^31 - 1, got " + std::to_string(count));
        MergeCall call{{}, o, l};
        for (std::size_t n = 0; n < given.size(); n++) {
            const std::string name = "parts[" + std::to_string(n) + "]";
            call.parts.push_back({name + ".out", name + ".lse", given[n].out, given[n].lse});
        }
        return merge(state, std::move(call));
    };
    return answer(context, body, detail::ArrayView<const PartialAttention>(parts, parts ? count : 0), out, lse);
}

}  // namespace attune
