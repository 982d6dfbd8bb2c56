// SPDX-License-Identifier: MIT
#include "matrices.h"
#include <cstring>

namespace ptx {

std::array<float, 2> elements_of_f16(std::uint32_t word) {
    auto one = [](std::uint32_t bits) { return static_cast<float>(std::bit_cast<_Float16>(static_cast<std::uint16_t>(bits))); };
    return {one(word), one(word >> 16)};
}
std::array<float, 2> elements_of_bf16(std::uint32_t word) {
    return {std::bit_cast<float>(word << 16), std::bit_cast<float>(word & 0xffff0000)};
}
std::array<float, 2> elements_of_tf32(std::uint32_t word) { return {std::bit_cast<float>(word & 0xffffe000), 0}; }

void multiply_matrices(Registers &r, const Instruction &in, ElementsOf elements) {
    constexpr int rows = 16, columns = 8, words = 8;
    std::array<float, 2> a[rows][words], b[words][columns];
    float sum[rows][columns];
    auto word = [&](std::size_t operand, int n, int lane) {
        return elements(static_cast<std::uint32_t>(r.at(in.operands[operand].places[static_cast<std::size_t>(n)], lane)));
    };
    auto of_sum = [&](std::size_t operand, int n, int lane) -> std::uint64_t & {
        return r.at(in.operands[operand].places[static_cast<std::size_t>(n)], lane);
    };
    for (int lane = 0; lane < lanes; lane++) {
        const int group = lane / 4, in_group = lane % 4;
        for (int n = 0; n < 4; n++) {
            sum[group + 8 * (n / 2)][in_group * 2 + n % 2] = as<float>(of_sum(3, n, lane));
            a[group + 8 * (n % 2)][in_group + 4 * (n / 2)] = word(1, n, lane);
        }
        for (int n = 0; n < 2; n++) b[in_group + 4 * n][group] = word(2, n, lane);
    }
    for (int lane = 0; lane < lanes; lane++)
        for (int n = 0; n < 4; n++) {
            const int row = lane / 4 + 8 * (n / 2), column = lane % 4 * 2 + n % 2;
            float total = sum[row][column];
            for (int k = 0; k < words; k++)
                for (std::size_t of = 0; of < 2; of++) total += a[row][k][of] * b[k][column][of];
            of_sum(0, n, lane) = bits_of(total);
        }
}

void load_matrices(Registers &r, const Instruction &in, const char *const (&rows)[lanes], bool transposed) {
    constexpr int size = 8;
    auto element = [&](int matrix, int row, int column) {
        if (transposed) std::swap(row, column);
        std::uint16_t bits;
        std::memcpy(&bits, rows[matrix * size + row] + column * 2, sizeof bits);
        return bits;
    };
    for (int n = 0; n < 4; n++)
        for (int lane = 0; lane < lanes; lane++) {
            const int row = lane / 4, column = lane % 4 * 2;
            r.at(in.operands[0].places[static_cast<std::size_t>(n)], lane) =
                element(n, row, column) | std::uint32_t(element(n, row, column + 1)) << 16;
        }
}

}  // namespace ptx
