// SPDX-License-Identifier: MIT
#include "dispatch/cost_rule.h"
#include "tensors/checks.h"
#include <algorithm>

namespace attune {
namespace {

// Coefficients in nanoseconds, as the fits of Zen 5 (two 512-bit FMAs a cycle, schedules/*/costs/zen5.json) have them on
// average; those of arithmetic are scaled by the lanes of the target's vectors.
constexpr double multiply_add = 0.008, of_lanes = 16, call = 2000;

double lanes_of(const VariantRecord &v) {
    const bool of_16_bytes = v.target == "generic" || v.target.starts_with("arm64");
    const double bytes = of_16_bytes ? 16 : v.target == "avx2" ? 32 : 64;
    return bytes / (v.dtype == DType::f64 ? 8 : 4);
}

// Multiply-adds of f32 that take as long as one of a form.
double multiply_add_of(const Runnable &v) {
    const bool amx = multiplies_amx_tiles(*v.record);
    if (v.record->schedule_id == Schedule::bf16_dot) return 0.5;
    // Every second product of additive attention is by a tanh or, in its separable form, by a quotient.
    if (v.record->op == "additive") return v.record->dtype == DType::f64 ? 23 : 6.5;
    if (v.record->op == "additive_separable") return 3.2;
    if (!amx) return 1;
    // Two bf16 stand for an f16 and three for an f32, of which three and six products count.
    const double products = v.record->dtype == DType::bf16 ? 1 : v.record->dtype == DType::f16 ? 3 : 6;
    return 0.15 * products;
}

detail::CostCoefficients of_attention(const Runnable &v, double step) {
    const double tile = static_cast<double>(v.tile_rows);
    const auto in = [](double x) { return static_cast<float>(x); };
    const bool half = is_widened(v.record->dtype);
    switch (v.record->schedule_id) {
    case Schedule::prefill:
    case Schedule::bf16_dot:
    case Schedule::amx: {
        const double reads = half && v.record->schedule_id == Schedule::prefill ? 5 : 0.04 * tile;
        const double tasks = v.record->schedule_id == Schedule::amx ? 0.03 * (half ? 1 : 3) : 300;
        return {in(call),
                in(tasks),
                in(0.08 * tile * step),
                in(0.08 * step),
                in(multiply_add * multiply_add_of(v) * step * (1 + 1.5 / tile)),
                in(reads * step),
                0};
    }
    case Schedule::decode:
        return {in(call),
                in(400 + 220 * tile),
                in(1),
                in(0.25 * step),
                in(multiply_add * multiply_add_of(v) * step * (tile > 1 ? 1.3 : 2.8)),
                0.003F,
                0.01F};
    default: return {in(call), in(1100 + 45 * tile), in(0.8), 0, in(multiply_add * step * (1 + 5 / tile)), 0.01F, 0.01F};
    }
}

// How many times as long a multiply-add takes in tiles of few rows: operands are loaded for fewer of them, and unpacked weights
// of linear(), which lie along the depth, are transposed in registers for every tile.
double of_few_rows(const Runnable &v) {
    const double rows = static_cast<double>(v.tile_rows);
    if (v.rank_k_update) return 1 + 2.3 / (rows * rows);
    if (v.few_rows && v.record->op == "linear") return 1 + (v.record->schedule_id == Schedule::bf16_dot ? 3 : 4) / rows;
    return 1 + 1.5 / (rows * rows);
}

detail::CostCoefficients of_product(const Runnable &v, double step) {
    const auto in = [](double x) { return static_cast<float>(x); };
    const double arithmetic = multiply_add * multiply_add_of(v) * step * of_few_rows(v);
    const bool packs = !v.few_rows && !v.full_tiles && v.record->schedule_id != Schedule::amx_gemv &&
                       v.record->op != "linear_packed" && !v.rank_k_update;
    const double weights = packs ? (v.record->schedule_id == Schedule::panels ? 0.06 : 0.037) : v.few_rows ? 0.02 : 0.002;
    const double tile = v.few_rows && v.record->schedule_id == Schedule::bf16_dot ? 250 : v.rank_k_update ? 0 : 15;
    return {in(call / 2), 50, in(arithmetic), in(weights * step), in(tile), 0.004F, 0.01F};
}

// `mma` and `mma_split` as the times of an H200 have them (bench/results/h200.json, 2026-11-26); `simt` and `split`, which
// nobody has timed, by their instructions. What a KV block takes grows with its keys, the rows of its tile, and the channels.
detail::CostCoefficients of_device_attention(const Runnable &v) {
    constexpr double launch = 4000, merge = 3000, byte = 1.76e-4, bytes_of_a_part = 8, score = 1.6e-4, start = 0.02;
    const bool matrices = v.record->schedule_id == Schedule::mma || v.record->schedule_id == Schedule::mma_split;
    const bool splits = v.split_keys > 0, single = v.record->dtype == DType::f32, any_size = v.record->head_dim == 0;
    // Nanoseconds of a multiply-add, all multiprocessors together; of a block's wait for its own results, a key and channel.
    double product = 0, wait = 0;
    if (matrices) {
        product = splits ? (single ? 6e-5 : 1.2e-5) : single ? 3.6e-5 : 5.1e-6;
        wait = !splits ? 0.15 : single ? 0.2 : 0.1;
    } else {
        const double rows = parameter_of(*v.record, "lane_rows", 1);
        product = 4.3e-5 * (1 + 2 / rows) * (any_size ? 1.3 : 1);
        wait = (any_size ? 100.0 : 75.0) / static_cast<double>(v.channels);
    }
    if (v.record->kind_id != Kind::plain) product *= 1.05;
    const double keys = static_cast<double>(v.block), scores = keys * static_cast<double>(v.tile_rows);
    const auto in = [](double x) { return static_cast<float>(x); };
    return {
        in(launch + (splits ? merge : 0)),      in(wait * keys), in(start), in(score * scores), in(product * scores), in(byte),
        in(splits ? bytes_of_a_part * byte : 0)};
}

// A lane of a small tile has fewer products for each operand that it reads.
detail::CostCoefficients of_device_product(const Runnable &v) {
    constexpr double launch = 4000, multiply_add_ns = 4e-5, clock_ghz = 1.7, lanes_at_once = 128;
    const double sums = parameter_of(*v.record, "lane_rows", 1) * parameter_of(*v.record, "lane_columns", 1);
    const double share_of_products = sums >= 64 ? 0.86 : sums >= 16 ? 0.69 : 0.42;
    const double tile = static_cast<double>(v.tile_rows * v.tile_columns), lanes = std::min(tile / sums, lanes_at_once);
    const double turn_ns = tile * static_cast<double>(v.block) / lanes / clock_ghz / share_of_products;
    const auto in = [](double x) { return static_cast<float>(x); };
    return {in(launch), in(turn_ns), in(multiply_add_ns / share_of_products), 0, 0, 0, 0};
}

}  // namespace

detail::CostCoefficients cost_by_rule(const Runnable &v) {
    if (v.on_device) {
        if (v.channels > 0) return of_device_attention(v);
        return v.record->op == "linear" ? of_device_product(v) : detail::CostCoefficients{};
    }
    if (v.record->schedule_id == Schedule::root || v.record->schedule_id == Schedule::other) return {};
    const double step = of_lanes / lanes_of(*v.record);
    const bool product =
        v.record->schedule_id == Schedule::panels || v.record->schedule_id == Schedule::amx_gemv || v.record->kind.empty();
    return product ? of_product(v, step) : of_attention(v, step);
}

}  // namespace attune
