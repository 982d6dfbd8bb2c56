// SPDX-License-Identifier: MIT
#include "serving/row_steps.h"
#include "tensors/checks.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace attune {
namespace {

// Elements on which a core takes all steps in about the time in which another core wakes.
constexpr std::int64_t elements_per_thread = 1 << 15;

constexpr double nothing = 0;

bool has_own_tables(const StepsOfRows &s) { return s.rope.base != 0; }
std::int64_t pairs_of(const StepsOfRows &s) { return s.halves + s.neighbours; }

}  // namespace

ConstView not_read(DType type, std::initializer_list<std::int64_t> extents) {
    ConstView v(&nothing, Dims(extents), Dims({0, 0, 0, 0}));
    v.dtype = type, v.rank = static_cast<int>(extents.size());
    for (int n = 0; n < v.rank; n++) v.extent[n] = extents.begin()[n], v.stride[n] = n == v.rank - 1 ? 1 : 0;
    return v;
}

int threads_of_rows(const Context::State &context, const ConstView &x) {
    return static_cast<int>(std::clamp<std::int64_t>(elements_of(x) / elements_per_thread, 1, context.threads));
}

void fill_rope_tables(double base, double scaling, const ConstView &positions, const View &cos, const View &sin) {
    const std::int64_t pairs = cos.extent[1];
    std::vector<double> frequency(static_cast<std::size_t>(pairs));
    for (std::int64_t k = 0; k < pairs; k++)
        frequency[static_cast<std::size_t>(k)] = std::pow(base, -static_cast<double>(k) / static_cast<double>(pairs));
    for (std::int64_t n = 0; n < cos.extent[0]; n++) {
        std::int64_t position = n;
        if (positions.given()) {
            const std::int64_t b = n / positions.extent[1], t = n % positions.extent[1];
            position = static_cast<const std::int32_t *>(positions.data)[b * positions.stride[0] + t * positions.stride[1]];
        }
        float *const cosines = static_cast<float *>(cos.data) + n * cos.stride[0];
        float *const sines = static_cast<float *>(sin.data) + n * sin.stride[0];
        for (std::int64_t k = 0; k < pairs; k++) {
            const double angle = static_cast<double>(position) / scaling * frequency[static_cast<std::size_t>(k)];
            cosines[k] = static_cast<float>(std::cos(angle)), sines[k] = static_cast<float>(std::sin(angle));
        }
    }
}

static std::size_t bytes_of_own_tables(const StepsOfRows &s, const ConstView &x) {
    const std::int64_t rows = x.extent[0] * x.extent[2], pairs = pairs_of(s);
    if (!has_own_tables(s) || rows * pairs > most_extent) return 0;
    return static_cast<std::size_t>(rows * (2 * pairs + 1)) * sizeof(float);
}

StepTables::StepTables(Context::State &context, const StepsOfRows &s, const ConstView &x)
    : own_(*context.scratch, bytes_of_own_tables(s, x)) {
    const std::int64_t batch = x.extent[0], rows = x.extent[2], pairs = pairs_of(s);
    cos = sin = not_read(DType::f32, {1, 1});
    positions = not_read(DType::i32, {batch, rows});
    if (pairs == 0) return;
    if (!has_own_tables(s)) {
        cos = s.rope.cos, sin = s.rope.sin, positions = s.positions;
        return;
    }
    if (batch * rows * pairs > most_extent) {
        status = unsupported("rope.base", "would make tables of " + text(batch * rows) +
                                              " positions, more than 2^31 - 1 "
                                              "elements; tables of rope_tables() may be given instead");
        return;
    }
    if (!own_.data()) {
        status = no_memory();
        return;
    }
    auto *const cosines = static_cast<float *>(own_.data()), *const sines = cosines + batch * rows * pairs;
    auto *const numbers = reinterpret_cast<std::int32_t *>(sines + batch * rows * pairs);
    std::iota(numbers, numbers + batch * rows, 0);
    fill_rope_tables(s.rope.base, s.rope.scaling, s.positions, {cosines, {batch * rows, pairs}},
                     {sines, {batch * rows, pairs}});
    cos = {cosines, {batch * rows, pairs}}, sin = {sines, {batch * rows, pairs}}, positions = {numbers, {batch, rows}};
}

double hadamard_factor(const StepsOfRows &s) { return 1 / std::sqrt(static_cast<double>(std::int64_t(1) << s.butterflies)); }
std::int32_t half_block(const StepsOfRows &s) { return s.butterflies == 0 ? 1 : 1 << (s.butterflies - 1); }

static ConstView weight_of_type(const StepsOfRows &s, DType type, const ConstView &x) {
    return s.norm_weight.given() && s.norm_weight.dtype == type ? s.norm_weight : not_read(type, {x.extent[1], x.extent[3]});
}

StepInputs::StepInputs(const StepsOfRows &s, const StepTables &tables, const ConstView &x)
    : positions(tables.positions), cos(tables.cos), sin(tables.sin), norm_weight(weight_of_type(s, x.dtype, x)),
      norm_weight_f32(weight_of_type(s, DType::f32, x)), has_norm(s.norm_weight.given()),
      weight_is_f32(s.norm_weight.dtype == DType::f32), norm_eps(s.norm_eps), hadamard_factor(attune::hadamard_factor(s)),
      halves(static_cast<std::int32_t>(s.halves)), neighbours(static_cast<std::int32_t>(s.neighbours)),
      first_rotated(static_cast<std::int32_t>(s.rope.offset)), butterflies(s.butterflies), half_block(attune::half_block(s)) {}

}  // namespace attune
