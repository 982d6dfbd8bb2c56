#include "attune/sdpa.h"
#include "halide_call.h"
#include "sdpa_call.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>

namespace attune {
namespace {

// Every query without keys: out = 0 and lse = -inf, written as bytes.
void fill_rows_without_keys(const SdpaCall &call) {
    const View &o = call.out, &l = call.lse;
    const std::size_t size = static_cast<std::size_t>(size_of(o.dtype));
    const float minus_infinity32 = -__builtin_inff();
    const double minus_infinity64 = -__builtin_inf();
    const void *minus_infinity = o.dtype == DType::f64 ? static_cast<const void *>(&minus_infinity64) : &minus_infinity32;
    auto at = [&](const View &v, std::int64_t index) {
        return static_cast<char *>(v.data) + index * static_cast<std::int64_t>(size);
    };
    for (std::int64_t b = 0; b < o.extent[0]; b++)
        for (std::int64_t h = 0; h < o.extent[1]; h++)
            for (std::int64_t i = 0; i < o.extent[2]; i++) {
                std::memset(at(o, b * o.stride[0] + h * o.stride[1] + i * o.stride[2]), 0,
                            static_cast<std::size_t>(o.extent[3]) * size);
                if (l.given()) std::memcpy(at(l, b * l.stride[0] + h * l.stride[1] + i * l.stride[2]), minus_infinity, size);
            }
}

// The extremes of lengths over the queries of a tile, as the kernels want them: (B, tiles).
struct LengthBounds {
    ConstView shortest, longest;
};

LengthBounds bound_lengths(const SdpaCall &call, const VariantRecord &variant, std::int32_t *storage) {
    const ConstView &lens = call.lengths;
    const std::int64_t queries = call.sizes.queries, batch = call.sizes.batch;
    LengthBounds bounds{lens, lens};
    // In the split form a tile holds rows of any query, so one pair of bounds serves the whole batch entry.
    const std::int64_t tile = variant.schedule == "prefill" ? variant.tile_q : queries;
    const std::int64_t tiles = (queries + tile - 1) / tile;
    const bool per_query = lens.stride[1] != 0 && queries > 1;
    if (per_query) {
        const auto *data = static_cast<const std::int32_t *>(lens.data);
        std::int32_t *shortest = storage, *longest = storage + batch * tiles;
        for (std::int64_t b = 0; b < batch; b++)
            for (std::int64_t i = 0; i < queries; i++) {
                const std::int32_t n = data[b * lens.stride[0] + i * lens.stride[1]];
                std::int32_t &low = shortest[b * tiles + i / tile], &high = longest[b * tiles + i / tile];
                low = i % tile ? std::min(low, n) : n;
                high = i % tile ? std::max(high, n) : n;
            }
        bounds = {ConstView(shortest, {batch, tiles}), ConstView(longest, {batch, tiles})};
    }
    if (!per_query || tiles == 1)
        for (ConstView *v : {&bounds.shortest, &bounds.longest}) {
            v->extent[1] = call.sizes.query_heads * queries;  // at least the number of tiles of any schedule
            v->stride[1] = 0;
        }
    return bounds;
}

// Fills in what the call leaves out: lengths, and a place for lse.
Status run(Context::State &context, SdpaCall &c, const VariantRecord &variant) {
    const SdpaProblem &p = c.sizes;
    const std::int32_t every_key = static_cast<std::int32_t>(p.keys);
    if (!c.lengths.given()) c.lengths = ConstView(&every_key, {p.batch, p.queries}, {0, 0});

    // One block: the bounds of the lengths, two for each query at most, and then lse, which the kernel always writes.
    const std::int64_t bounds_bytes = 2 * static_cast<std::int64_t>(sizeof(std::int32_t)) * p.batch * p.queries;
    const std::int64_t lse_bytes = c.lse.given() ? 0 : p.batch * p.query_heads * p.queries * size_of(p.dtype);
    ScratchBlock block(*context.scratch, static_cast<std::size_t>(bounds_bytes + lse_bytes));
    if (!block.data()) return {StatusCode::out_of_memory, "the allocator has no memory for this call"};
    if (!c.lse.given()) {
        c.lse = View(reinterpret_cast<float *>(static_cast<char *>(block.data()) + bounds_bytes),
                     {p.batch, p.query_heads, p.queries});
        c.lse.dtype = p.dtype;
    }
    const LengthBounds bounds = bound_lengths(c, variant, static_cast<std::int32_t *>(block.data()));
    auto per_batch = [&](const std::vector<std::int32_t> &x) {
        return ConstView(x.data(), {p.batch}, {x.size() == 1 ? 0 : 1});
    };

    HalideBuffer query(c.query), key(c.key), value(c.value), band_begin(per_batch(c.band_begin)),
        band_end(per_batch(c.band_end)), offset(per_batch(c.offset)), lengths(c.lengths), shortest(bounds.shortest),
        longest(bounds.longest), out(c.out), lse(c.lse, p.value_dim);
    void *args[] = {nullptr,       query.get(),    key.get(),     value.get(), band_begin.get(), band_end.get(), offset.get(),
                    lengths.get(), shortest.get(), longest.get(), &c.scale,    out.get(),        lse.get()};
    return call_kernel(context, variant.kernel, args, worthwhile_threads(p, context.threads));
}

// The name that ATTUNE_FORCE_VARIANT holds, if it is of this op.
constexpr std::string_view environment_variable = "ATTUNE_FORCE_VARIANT";
std::string_view forced_by_environment(const Context::State &context) {
    const VariantRecord *v = context.forced_variant;
    return v && v->op == "sdpa" ? v->name : std::string_view();
}

Status attend(Context::State &context, const ConstView &query, const ConstView &key, const ConstView &value, const View &out,
              const SdpaOptions &options) {
    if (!context.status.ok()) return context.status;
    const auto start = std::chrono::steady_clock::now();
    SdpaCall call;
    if (Status s = check_sdpa(query, key, value, out, options, call); !s.ok()) return s;

    std::string_view forced = options.variant, forced_by = "variant";
    if (forced.empty()) forced = forced_by_environment(context), forced_by = environment_variable;
    SdpaChoice choice;
    if (Status s = choose_sdpa(call.sizes, forced, forced_by, choice); !s.ok()) return s;

    const SdpaProblem &p = call.sizes;
    const bool nothing = p.batch == 0 || p.query_heads == 0 || p.queries == 0;
    if (nothing || p.keys == 0) {
        if (!nothing) fill_rows_without_keys(call);
        choice = {nullptr, nothing ? "no queries" : "no keys"};
    } else if (Status s = run(context, call, *choice.variant); !s.ok()) {
        return s;
    }
    context.last_variant = choice.variant ? choice.variant->name : std::string_view();
    if (context.verbose) {
        const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
        std::fprintf(stderr, "attune: sdpa %s (%.*s) b %lld h %lld/%lld q %lld k %lld d %lld/%lld: %.1f us\n",
                     choice.variant ? context.last_variant.c_str() : "no kernel", static_cast<int>(choice.reason.size()),
                     choice.reason.data(), static_cast<long long>(p.batch), static_cast<long long>(p.query_heads),
                     static_cast<long long>(p.key_heads), static_cast<long long>(p.queries), static_cast<long long>(p.keys),
                     static_cast<long long>(p.head_dim), static_cast<long long>(p.value_dim), us);
    }
    return {};
}

}  // namespace

Status scaled_dot_product_attention(Context &context, const ConstView &query, const ConstView &key, const ConstView &value,
                                    const View &out, const SdpaOptions &options) noexcept {
    try {
        return attend(context.state(), query, key, value, out, options);
    } catch (const std::bad_alloc &) {
        return {StatusCode::out_of_memory, "out of memory"};  // short: must not allocate
    }
}

Status plan_sdpa(const Context &context, const SdpaProblem &problem, Plan &plan) noexcept {
    try {
        const Context::State &s = context.state();
        if (!s.status.ok()) return s.status;
        if (Status sizes = check_problem(problem); !sizes.ok()) return sizes;
        SdpaChoice choice;
        if (Status chosen = choose_sdpa(problem, forced_by_environment(s), environment_variable, choice); !chosen.ok())
            return chosen;
        plan = {std::string(choice.variant->name), std::string(choice.reason),
                sdpa_workspace_bytes(*choice.variant, problem, worthwhile_threads(problem, s.threads))};
        return {};
    } catch (const std::bad_alloc &) {
        return {StatusCode::out_of_memory, "out of memory"};  // short: must not allocate
    }
}

}  // namespace attune
