// SPDX-License-Identifier: MIT
// Instructions that compute each lane of a warp on its own: values of one type from places of 64 bits.
#pragma once
#include "program.h"
#include <bit>
#include <utility>

namespace ptx {

constexpr int lanes = 32;

// The registers of a warp: places of `lanes` values each.
struct Registers {
    std::vector<std::uint64_t> values;
    std::uint64_t *of(Place p) { return values.data() + static_cast<std::size_t>(p) * lanes; }
    std::uint64_t &at(Place p, int lane) { return of(p)[lane]; }
};

template<typename T> T as(std::uint64_t bits) {
    if constexpr (std::is_same_v<T, float>)
        return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    else if constexpr (std::is_same_v<T, double>)
        return std::bit_cast<double>(bits);
    else
        return static_cast<T>(bits);
}
template<typename T> std::uint64_t bits_of(T value) {
    if constexpr (std::is_same_v<T, float>)
        return std::bit_cast<std::uint32_t>(value);
    else if constexpr (std::is_same_v<T, double>)
        return std::bit_cast<std::uint64_t>(value);
    else
        return static_cast<std::make_unsigned_t<T>>(value);
}

// The function of an instruction, for the lanes of the mask. Empty: no such instruction is known here.
Lanewise lanewise(const Instruction &);

constexpr std::uint32_t all_lanes = 0xffffffff;
template<typename F> void each_lane(std::uint32_t mask, const F &f) {
    for (int lane = 0; lane < lanes; lane++)
        if (mask >> lane & 1) f(lane);
}

// Calls f for the lanes of the mask, for functions of the own lane's registers alone; all lanes are computed as vectors.
template<typename F> void each_own_lane(std::uint32_t mask, const F &f) {
    if (mask != all_lanes) return each_lane(mask, f);
#pragma GCC ivdep
    for (int lane = 0; lane < lanes; lane++) f(lane);
}

// The instruction result = f(operands), where operand n has type Operand n.
template<typename Result, typename... Of, typename F> Lanewise computes(F f) {
    return [f](Registers &r, const Instruction &in, std::uint32_t mask) {
        const auto compute = [&]<std::size_t... n>(std::index_sequence<n...>) {
            std::uint64_t *result = r.of(in.operands[0].places[0]);
            const std::uint64_t *const of[] = {r.of(in.operands[n + 1].places[0])...};
            each_own_lane(mask, [&](int lane) { result[lane] = bits_of<Result>(f(as<Of>(of[n][lane])...)); });
        };
        compute(std::index_sequence_for<Of...>());
    };
}

}  // namespace ptx
