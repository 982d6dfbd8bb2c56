// What an instruction computes for each lane of a warp on its own: values of one type from places of 64 bits.
#pragma once
#include "program.h"
#include <bit>
#include <functional>

namespace ptx {

constexpr int lanes = 32;

// The registers of a warp: places of `lanes` values each.
struct Registers {
    std::vector<std::uint64_t> values;
    std::uint64_t &at(Place p, int lane) {
        return values[static_cast<std::size_t>(p) * lanes + static_cast<std::size_t>(lane)];
    }
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

// Acts on the lanes of the mask. Empty: there is no such instruction here.
using Lanewise = std::function<void(Registers &, const Instruction &, std::uint32_t mask)>;
Lanewise lanewise(const Instruction &);

template<typename F> void each_lane(std::uint32_t mask, const F &f) {
    for (int lane = 0; lane < lanes; lane++)
        if (mask >> lane & 1) f(lane);
}

// result = f(operands), of which operand n is of type Operand n.
template<typename Result, typename... Of, typename F> Lanewise computes(F f) {
    return [f](Registers &r, const Instruction &in, std::uint32_t mask) {
        each_lane(mask, [&](int lane) {
            std::size_t n = 1;
            auto next = [&]<typename T>() { return as<T>(r.at(in.operands[n++].places[0], lane)); };
            const std::tuple<Of...> values{next.template operator()<Of>()...};
            r.at(in.operands[0].places[0], lane) = bits_of<Result>(std::apply(f, values));
        });
    };
}

}  // namespace ptx
