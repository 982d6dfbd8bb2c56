#include "matrices.h"
#include <cstring>

namespace ptx {

float float_of_f16(std::uint16_t bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
float float_of_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t(bits) << 16); }

void multiply_matrices(Registers &r, const Instruction &in, float (*element)(std::uint16_t)) {
    constexpr int rows = 16, columns = 8, depth = 16;
    float a[rows][depth], b[depth][columns], sum[rows][columns];
    auto half = [&](std::size_t operand, int n, int lane, int high) {
        const std::uint64_t word = r.at(in.operands[operand].places[static_cast<std::size_t>(n)], lane);
        return element(static_cast<std::uint16_t>(word >> (16 * high)));
    };
    auto of_sum = [&](std::size_t operand, int n, int lane) -> std::uint64_t & {
        return r.at(in.operands[operand].places[static_cast<std::size_t>(n)], lane);
    };
    for (int lane = 0; lane < lanes; lane++) {
        const int group = lane / 4, in_group = lane % 4;
        for (int n = 0; n < 4; n++) {
            sum[group + 8 * (n / 2)][in_group * 2 + n % 2] = as<float>(of_sum(3, n, lane));
            for (int high = 0; high < 2; high++)
                a[group + 8 * (n % 2)][in_group * 2 + high + 8 * (n / 2)] = half(1, n, lane, high);
        }
        for (int n = 0; n < 2; n++)
            for (int high = 0; high < 2; high++) b[in_group * 2 + high + 8 * n][group] = half(2, n, lane, high);
    }
    for (int lane = 0; lane < lanes; lane++)
        for (int n = 0; n < 4; n++) {
            const int row = lane / 4 + 8 * (n / 2), column = lane % 4 * 2 + n % 2;
            float total = sum[row][column];
            for (int k = 0; k < depth; k++) total += a[row][k] * b[k][column];
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
