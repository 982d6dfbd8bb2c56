// SPDX-License-Identifier: MIT
// Variants that run on this machine, and sizes that are awkward for each, from its own parameters.
#pragma once
#include "attune/variants.h"
#include "runtime/src/dispatch/cpu_features.h"
#include "tests/support/catch.h"
#include "tests/support/fenced_scratch.h"
#include "tests/support/sdpa_case.h"
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attune_test {

// Kinds of attention's variants that compute the output; kind "weights" joins them where weights are wanted.
inline const std::vector<std::string_view> any_kind = {"plain", "scored", "training"};
inline const std::vector<std::string_view> knows_scores = {"scored", "training"};
inline const std::vector<std::string_view> knows_dropout = {"training"};
inline const std::vector<std::string_view> writes_weights = {"weights"};
inline const std::vector<std::string_view> no_kind = {""};  // for ops other than attention

// Whether this is a run of scripts/test --all.
inline bool tests_all() {
    static const bool all = std::getenv("ATTUNE_TEST_ALL") != nullptr;
    return all;
}

// Whether the environment has ATTUNE_TEST_OWN_TARGET, which a cross-build sets: an emulator is slow, and can be any CPU of its
// architecture, so that each target is tested on a CPU of its own (scripts/test).
inline bool tests_own_target() {
    static const bool only_own = std::getenv("ATTUNE_TEST_OWN_TARGET") != nullptr;
    return only_own;
}

// Whether a variant is tested there: those of the target that dispatch takes first on this CPU, and root.
inline bool is_of_own_target(const attune::VariantInfo &v) {
    if (!tests_own_target() || v.schedule == "root") return true;
    static const std::string own = [] {
        const auto all = attune::variants();
        const auto has = [&](std::string_view target) {
            return std::ranges::any_of(all, [&](const attune::VariantInfo &of) { return of.target == target && of.runs_here; });
        };
        const auto targets = attune::cpu_targets();
        const auto first = std::ranges::find_if(targets, has);
        return first == targets.end() ? std::string() : std::string(*first);
    }();
    return v.target == own;
}

// Whether another variant, the same but for its head size of 64 or else the smallest, represents this one in the tests of
// masks, options, layouts, bits and memory. Tests around tiles and KV blocks run for all; with scripts/test --all every test
// does.
inline bool another_stands_for(const attune::VariantInfo &v) {
    if (tests_all() || v.head_dim == 0 || v.head_dim == 64) return false;
    return std::ranges::any_of(attune::variants(), [&](const attune::VariantInfo &other) {
        const bool same = other.op == v.op && other.target == v.target && other.dtype == v.dtype &&
                          other.schedule == v.schedule && other.shape_class == v.shape_class && other.kind == v.kind &&
                          other.dispatched;
        return same && other.head_dim != 0 && (other.head_dim == 64 || other.head_dim < v.head_dim);
    });
}
enum class HeadSizes { one, all };

// Calls f(variant, T{}) for the variants of an op and of some kinds that run here; T is the element type, one of Types, the
// types that the op has. The autoschedulers' baselines are left out: they refuse many sizes, dispatch never chooses them, and
// the benchmarks check them before timing.
template<typename... Types, typename F>
void for_each_variant_of(std::string_view op, const std::vector<std::string_view> &kinds, HeadSizes sizes, const F &f) {
    int ran = 0;
    for (const attune::VariantInfo &v : attune::variants()) {
        if (!v.runs_here || !v.dispatched || v.op != op || !is_of_own_target(v)) continue;
        if (sizes == HeadSizes::one && another_stands_for(v)) continue;
        if (std::find(kinds.begin(), kinds.end(), v.kind) == kinds.end()) continue;
        INFO(v.name << "  " << v.parameters);
        CHECK(((attune::dtype_of<Types>() == v.dtype) || ...));
        (void)((attune::dtype_of<Types>() == v.dtype && (f(v, Types{}), true)) || ...);
        ran++;
    }
    INFO("op " << op << ", kind " << kinds.front());
    CHECK(ran > 0);
}
template<typename F> void for_each_variant(std::string_view op, const std::vector<std::string_view> &kinds, const F &f) {
    for_each_variant_of<float, double, BFloat16, Float16>(op, kinds, HeadSizes::one, f);
}
template<typename F> void for_each_variant(const F &f) { for_each_variant("sdpa", any_kind, f); }
template<typename F>
void for_each_variant_and_head_size(std::string_view op, const std::vector<std::string_view> &kinds, const F &f) {
    for_each_variant_of<float, double, BFloat16, Float16>(op, kinds, HeadSizes::all, f);
}
template<typename F> void for_each_variant_and_head_size(const F &f) { for_each_variant_and_head_size("sdpa", any_kind, f); }
// Calls f for variants of ops that compute in f32 and f64 only.
template<typename F> void for_each_wide_variant(std::string_view op, const std::vector<std::string_view> &kinds, const F &f) {
    for_each_variant_of<float, double>(op, kinds, HeadSizes::one, f);
}

// The parameter `name` of "kv_block=128 tile_q=64 ...".
inline int parameter_of(const attune::VariantInfo &v, std::string_view name, int otherwise) {
    const std::string key = " " + std::string(name) + "=", all = " " + std::string(v.parameters);
    const auto at = all.find(key);
    if (at == all.npos) return otherwise;
    int found = otherwise;
    std::from_chars(all.data() + at + key.size(), all.data() + all.size(), found);
    return found;
}
// Variants of linear and batch_dot: the ones that pack no weights for other rows (in linear they take whole blocks), the
// ones of full tiles, and the number of columns, 256 or 512 bytes of sums, of which the latter take multiples.
inline bool is_for_few_rows(const attune::VariantInfo &v) {
    return parameter_of(v, "tile_rows", 0) == 1 || parameter_of(v, "few_rows", 0) == 1;
}
inline bool takes_full_tiles(const attune::VariantInfo &v) { return v.shape_class.find("full_tile") != std::string_view::npos; }
// Full AMX tiles: depths are multiples of 32, and unpacked weights have at least 32 columns.
inline bool takes_full_amx_tiles(const attune::VariantInfo &v) {
    return takes_full_tiles(v) && (v.schedule == "amx" || v.schedule == "amx_gemv");
}
inline int columns_of_full_tiles(const attune::VariantInfo &v) {
    return (v.dtype == attune::DType::f64 ? 32 : 64) * (v.shape_class == "rows1_full_tile_pairs" ? 2 : 1);
}
// Parameters, or for root the algorithm's defaults.
inline int kv_block_of(const attune::VariantInfo &v) { return parameter_of(v, "kv_block", 128); }
inline int tile_of(const attune::VariantInfo &v) { return parameter_of(v, "tile_q", 1); }

// Forward variants of attention whose tile is some queries of one head. Where such a variant is plain, the runtime folds groups
// of query heads into the queries of one head (folded_groups.h), and the kernel runs on copies of queries and results.
inline bool is_of_tiles(const attune::VariantInfo &v) {
    const bool tiles = v.schedule == "prefill" || v.schedule == "bf16_dot" || v.schedule == "amx";
    return tiles && !v.op.ends_with("_backward");  // gradients have schedules of these names, too
}
// The size of the groups of query heads with which checks run a kernel on the arrays of the caller: 1 where groups are folded.
inline int group_in_place(const attune::VariantInfo &v) { return is_of_tiles(v) && v.kind == "plain" ? 1 : 2; }

inline std::vector<std::int64_t> sorted_sizes(std::vector<std::int64_t> sizes) {
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    sizes.erase(sizes.begin(), std::lower_bound(sizes.begin(), sizes.end(), 1));
    return sizes;
}
inline std::vector<std::int64_t> awkward_queries(const attune::VariantInfo &v) {
    const int tile = tile_of(v);
    return sorted_sizes({1, 2, 13, 37, tile - 1, tile, tile + 1, 2 * tile - 1});
}
inline std::vector<std::int64_t> awkward_keys(const attune::VariantInfo &v) {
    const int kv_block = kv_block_of(v), tile = parameter_of(v, "key_tile", 4);
    return sorted_sizes(
        {1, tile - 1, tile + 1, 31, 61, kv_block - 1, kv_block, kv_block + 1, 2 * kv_block - 1, 3 * kv_block + 5});
}

// Pairs of every number of queries and every number of keys, shifted in each round. One round on an emulated CPU.
inline std::vector<std::pair<std::int64_t, std::int64_t>> awkward_sizes(const attune::VariantInfo &v) {
    const auto queries = awkward_queries(v), keys = awkward_keys(v);
    std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
    for (std::size_t round = 0; round < (tests_own_target() ? 1 : 3); round++)
        for (std::size_t n = 0; n < std::max(queries.size(), keys.size()); n++)
            pairs.emplace_back(queries[(n + 3 * round) % queries.size()], keys[n % keys.size()]);
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    return pairs;
}

// Head sizes of query and key, and of value.
inline std::vector<std::pair<std::int64_t, std::int64_t>> head_sizes(const attune::VariantInfo &v) {
    if (v.head_dim != 0) return {{v.head_dim, v.head_dim}};
    return {{1, 1}, {2, 3}, {3, 2}, {16, 16}, {17, 40}, {40, 17}, {64, 64}, {75, 1}, {1, 75}, {80, 80}, {96, 96}, {96, 80}};
}
// One pair of head sizes, for the tests of masks and layouts.
inline std::pair<std::int64_t, std::int64_t> head_size(const attune::VariantInfo &v) {
    return v.head_dim != 0 ? std::pair<std::int64_t, std::int64_t>(v.head_dim, v.head_dim)
                           : std::pair<std::int64_t, std::int64_t>(17, 21);
}

// Calls f(case) for rows and keys around tiles and KV blocks and for `last`, four query heads on two key heads.
template<typename F>
void for_each_small_case(const attune::VariantInfo &v, unsigned seed, std::pair<std::int64_t, std::int64_t> last, const F &f) {
    const auto [head_dim, value_dim] = head_size(v);
    const std::int64_t tile = tile_of(v), kv_block = kv_block_of(v);
    for (const auto &[queries, keys] : {std::pair(std::int64_t(1), kv_block + 5), {6, 9}, {tile + 1, kv_block + 3}, last})
        f(SdpaCase{.query_heads = 4,
                   .key_heads = 2,
                   .queries = queries,
                   .keys = keys,
                   .head_dim = head_dim,
                   .value_dim = value_dim,
                   .seed = seed++});
}

}  // namespace attune_test
