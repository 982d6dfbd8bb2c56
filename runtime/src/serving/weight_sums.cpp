// SPDX-License-Identifier: MIT
// Sums of weights by key. Weights are those of the kernel that gives them as an output of attention, over keys that are copied
// to scratch as numbers of the type of sums.
#include "serving/weight_sums.h"
#include "attention/gathered_rows.h"
#include "execution/halide_call.h"
#include "kernel_arguments.h"
#include "serving/choose_rows.h"
#include "serving/quantised_rows.h"
#include <algorithm>

namespace attune {
namespace {

constexpr std::int64_t bytes_of_weights = 8 << 20;  // in scratch, with the queries that are converted: of one query at least
constexpr std::int64_t bytes_of_keys = 32 << 20;    // in scratch: of one key head at least

// The first sequence that holds more than `room` rows, those of its prefix among them, and how many; -1: none.
std::int64_t sequence_beyond(const PagedOptions &o, const PagedCall &p, std::int64_t room, std::int64_t &held) {
    for (std::int64_t b = 0; b < p.lens.extent[0]; b++) {
        const std::int32_t prefix = o.prefix.of.given() ? int_at(o.prefix.of, b) : -1;
        held = int_at(p.lens, b) + (prefix < 0 ? std::int64_t(0) : int_at(o.prefix.lens, prefix));
        if (held > room) return b;
    }
    return -1;
}

// The sums of one sequence: its key heads and queries in parts that bound the scratch. Parts follow from the sequence's own
// sizes, and no sum depends on them.
class SequenceSums {
public:
    SequenceSums(Context::State &context, const SdpaCall &call, const WeightSumKernels &kernels, const View &sums)
        : context_(context), kernels_(kernels), call_(call), sums_(sums), type_(sum_type(call.sizes.dtype)),
          widens_(is_widened(call.sizes.dtype)), group_(call.sizes.query_heads / call.sizes.key_heads),
          heads_of_a_sum_(call.sizes.query_heads / sums.extent[0]) {
        call_.out = {}, call_.lse = {};
    }

    Status run() {
        if (Status s = widen_bias(); !s.ok()) return s;
        const SdpaProblem &p = call_.sizes;
        // The weights of all queries of a key head, and its keys, which are copied before they are widened.
        const std::int64_t weights = group_ * p.queries * bytes_of_query(), keys = p.keys * bytes_of_key(),
                           together = std::clamp<std::int64_t>(std::min(bytes_of_weights / weights, bytes_of_keys / keys), 1,
                                                               p.key_heads);
        for (std::int64_t h = 0; h < p.key_heads; h += together) {
            const std::int64_t end = std::min(h + together, p.key_heads), first_sum = h * group_ / heads_of_a_sum_;
            const View sums = part_of(sums_, 0, first_sum, end * group_ / heads_of_a_sum_ - first_sum);
            if (Status s = add_heads(slice_key_heads(call_, h, end), sums); !s.ok()) return s;
        }
        return {};
    }

private:
    // Bytes in scratch: of a query of one head, and of a key.
    std::int64_t bytes_of_query() const { return (call_.sizes.keys + (widens_ ? call_.sizes.head_dim : 0)) * size_of(type_); }
    std::int64_t bytes_of_key() const {
        const bool copies = widens_ && !is_quantised(call_.key);
        return call_.sizes.head_dim * (size_of(type_) + (copies ? size_of(call_.sizes.dtype) : 0));
    }

    Status widen_bias();
    Status add_heads(SdpaCall part, const View &sums);
    Status add_queries(SdpaCall part, char *memory, const View &sums);

    Context::State &context_;
    const WeightSumKernels &kernels_;
    SdpaCall call_;
    const View sums_;
    const DType type_;
    const bool widens_;
    const std::int64_t group_, heads_of_a_sum_;  // query heads of a key head, and of a sum
    std::optional<ScratchBlock> bias_;
};

// Writes the strips of a bias of the distance (paged.cpp) in the type of sums, which its kernel takes.
Status SequenceSums::widen_bias() {
    const ConstView &bias = call_.bias;
    if (!bias.given() || !widens_) return {};
    const std::int64_t heads = bias.extent[1], length = bias.stride[1], before = bias.extent[2] - 1;
    bias_.emplace(*context_.scratch, static_cast<std::size_t>(heads * length * size_of(type_)));
    if (!bias_->data()) return no_memory();
    const char *strips = static_cast<const char *>(bias.data) - before * size_of(bias.dtype);
    const ConstView given = typed_view(strips, bias.dtype, {1, 1, heads, length}, {0, 0, length, 1});
    auto *memory = static_cast<char *>(bias_->data());
    if (Status s = widen_rows(context_, given, dense_view(memory, type_, 1, 1, heads, length)); !s.ok()) return s;
    call_.bias.data = memory + before * size_of(type_), call_.bias.dtype = type_;
    return {};
}

// Copies the keys of the part, and adds its weights of some queries at a time.
Status SequenceSums::add_heads(SdpaCall part, const View &sums) {
    const SdpaProblem p = part.sizes;
    const std::int64_t query = p.query_heads * bytes_of_query(),
                       together = std::clamp<std::int64_t>(bytes_of_weights / query, 1, p.queries),
                       keys = ceil_div(p.key_heads * p.keys * bytes_of_key(), 64) * 64;
    const ScratchBlock block(*context_.scratch, static_cast<std::size_t>(keys + together * query));
    if (!block.data()) return no_memory();
    auto *memory = static_cast<char *>(block.data());
    const View wide = dense_view(memory, type_, 1, p.key_heads, p.keys, p.head_dim);
    if (is_quantised(part.key)) part.sizes.dtype = type_;
    const bool copies = part.sizes.dtype != type_;
    if (Status s = gather_keys(context_, copies ? memory + elements_of(wide) * size_of(type_) : memory, part); !s.ok())
        return s;
    if (copies)
        if (Status s = widen_rows(context_, part.key, wide); !s.ok()) return s;
    part.key = wide, part.sizes.dtype = type_;
    for (std::int64_t i = 0; i < p.queries; i += together)
        if (Status s = add_queries(slice_queries(part, i, std::min(i + together, p.queries)), memory + keys, sums); !s.ok())
            return s;
    return {};
}

Status SequenceSums::add_queries(SdpaCall part, char *memory, const View &sums) {
    const SdpaProblem &p = part.sizes;
    part.weights = dense_view(memory, type_, 1, p.query_heads, p.queries, p.keys);
    if (widens_) {
        const View query =
            dense_view(memory + elements_of(part.weights) * size_of(type_), type_, 1, p.query_heads, p.queries, p.head_dim);
        if (Status s = widen_rows(context_, part.query, query); !s.ok()) return s;
        part.query = query;
    }
    if (Status s = run_kernel(context_, part, *kernels_.weights.variant, &part.weights); !s.ok()) return s;
    const std::int64_t of_head = p.queries * p.keys;
    HalideBuffer x(typed_view(memory, type_, {sums.extent[0], heads_of_a_sum_, p.queries, p.keys},
                              {heads_of_a_sum_ * of_head, of_head, p.keys, 1}));
    HalideBuffer before(sums), out(sums);
    const double read = static_cast<double>(p.query_heads) * static_cast<double>(of_head);
    return call_kernel(context_, kernels_.sums.variant->kernel,
                       WeightSumsArguments{.x = x.get(), .before = before.get(), .out = out.get()},
                       worthwhile_threads(read * multiply_adds_of_a_read, context_.threads));
}

}  // namespace

Status check_weight_sums(const PagedOptions &o, std::span<const NamedView> others, const PagedCall &p) {
    const View &sums = o.weight_sums;
    if (sums.rank != 3) return invalid("weight_sums", "rank must be 3 (B, Hq or Hkv, Sk), got " + text(sums.rank));
    const SdpaProblem &sizes = p.rows.sizes;
    if (sums.dtype != sum_type(sizes.dtype))
        return invalid("weight_sums", std::string("type must be ") + name_of(sum_type(sizes.dtype)) + " where query is " +
                                          name_of(sizes.dtype) + ", got " + name_of(sums.dtype));
    if (Status s = check_memory("weight_sums", sums); !s.ok()) return s;
    if (Status s = check_dense("weight_sums", sums); !s.ok()) return s;
    if (Status s = check_extent("weight_sums", "batch (first extent)", sums.extent[0], "lens", p.lens.extent[0]); !s.ok())
        return s;
    if (sums.extent[1] != sizes.query_heads && sums.extent[1] != sizes.key_heads)
        return invalid("weight_sums", "number of heads is " + text(sums.extent[1]) + ", must be the " +
                                          text(sizes.query_heads) + " of query or the " + text(sizes.key_heads) +
                                          " of key_pages");
    std::int64_t held = 0;
    if (const std::int64_t b = sequence_beyond(o, p, sums.extent[2], held); b >= 0)
        return invalid("weight_sums", "has room for " + text(sums.extent[2]) + " keys, sequence " + text(b) + " holds " +
                                          text(held) + " rows");
    const NamedView output[] = {{"weight_sums", sums}};
    return check_overlaps(others, output);
}

Status choose_weight_sums(const Context::State &context, const PagedOptions &o, const PagedCall &p, WeightSumKernels &k) {
    const SdpaProblem &sizes = p.rows.sizes;
    const DType type = sum_type(sizes.dtype);
    if (Status s = choose_weights(context, ops::sdpa, type, sizes.head_dim, o.variant, k.weights); !s.ok()) return s;
    static constexpr Candidate candidates[] = {{Schedule::rows, "", ""}, {Schedule::root, "", ""}};
    const VariantNeeds needs{.op = ops::weight_sums, .dtype = type};
    if (Status s = choose_variant(needs, candidates, forced_variant(context, {}, needs.op), k.sums); !s.ok()) return s;
    Choice of_rows;
    if (is_quantised(p.rows.key))
        if (Status s = choose_rows(context, ops::dequantise_rows, type, of_rows); !s.ok()) return s;
    return is_widened(sizes.dtype) ? choose_rows(context, ops::queries_to_kernel, sizes.dtype, of_rows) : Status();
}

Status add_weight_sums(Context::State &context, const SdpaCall &call, const WeightSumKernels &kernels, const View &sums) {
    return SequenceSums(context, call, kernels, sums).run();
}

}  // namespace attune
