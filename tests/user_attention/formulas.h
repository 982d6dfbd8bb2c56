// SPDX-License-Identifier: MIT
// The attentions of examples/attention_gallery and of tests/user_attention, each as a formula pair by pair, with captures for
// given sizes: for tests of their kernels for devices, and for random cases.
#pragma once
#include "tests/reference/user_attention_reference.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <random>

namespace attune_test {

// A capture as the call gets it; without extents a number.
struct GivenCapture {
    std::vector<Index> shape;
    std::vector<double> values;
};
using GivenCaptures = std::vector<GivenCapture>;

inline GivenCapture whole_number(Index x) { return {{}, {double(x)}}; }
inline GivenCapture real_number(double x) { return {{}, {x}}; }
// An array whose elements are f(number of the element).
template<typename F> GivenCapture array_of(std::vector<Index> shape, const F &f) {
    GivenCapture c{std::move(shape), {}};
    Index count = 1;
    for (const Index extent : c.shape) count *= extent;
    for (Index n = 0; n < count; n++) c.values.push_back(double(f(n)));
    return c;
}

// A formula without score, mask and factor of its own.
struct PlainFormula {
    static constexpr bool square = false;  // as many queries as keys
    template<typename R> static R score(R x, const Pair &, const Captured<R> &) { return x; }
    template<typename R> static bool mask(const Pair &, const Captured<R> &) { return true; }
    template<typename R> static R factor(const Pair &, const Captured<R> &) { return 1; }
};

struct AlibiFormula : PlainFormula {
    static constexpr const char *name = "alibi";
    static GivenCaptures captures(const UserSizes &s) {
        return {array_of({s.heads}, [](Index h) { return 0.25 / double(h + 1); })};
    }
    template<typename R> static R score(R x, const Pair &at, const Captured<R> &c) {
        return x - c[0][std::size_t(at.h)] * R(std::abs(at.position - at.j));
    }
    template<typename R> static bool mask(const Pair &at, const Captured<R> &) { return at.j <= at.position; }
};

struct SoftcapFormula : PlainFormula {
    static constexpr const char *name = "softcap";
    static GivenCaptures captures(const UserSizes &) { return {real_number(1.5)}; }
    template<typename R> static R score(R x, const Pair &, const Captured<R> &c) { return c[0][0] * std::tanh(x / c[0][0]); }
};

struct RelativePositionFormula : PlainFormula {
    static constexpr const char *name = "relative_position";
    static GivenCaptures captures(const UserSizes &s) {
        std::mt19937 random(5);
        std::normal_distribution<float> normal;
        return {array_of({32, s.heads}, [&](Index) { return normal(random); })};
    }
    static Index bucket_of(Index ahead) {
        const Index first = ahead > 0 ? 16 : 0, distance = std::abs(ahead);
        if (distance < 8) return first + distance;
        const double share = std::log2(double(distance) / 8) / std::log2(128.0 / 8);
        return first + std::min<Index>(8 + Index(std::floor(share * 8)), 15);
    }
    template<typename R> static R score(R x, const Pair &at, const Captured<R> &c) {
        return x + c[0][std::size_t(bucket_of(at.j - at.position) * at.heads + at.h)];
    }
};

struct SinkWindowFormula : PlainFormula {
    static constexpr const char *name = "sink_window";
    static GivenCaptures captures(const UserSizes &s) { return {whole_number(4), whole_number(s.keys / 4 + 1)}; }
    template<typename R> static bool mask(const Pair &at, const Captured<R> &c) {
        return at.j <= at.position && (R(at.j) < c[0][0] || R(at.position - at.j) < c[1][0]);
    }
};

struct PrefixLmFormula : PlainFormula {
    static constexpr const char *name = "prefix_lm";
    static GivenCaptures captures(const UserSizes &s) {
        return {array_of({s.batch}, [&](Index b) { return (b + 1) * s.keys / 4; })};
    }
    template<typename R> static bool mask(const Pair &at, const Captured<R> &c) {
        return R(at.j) < c[0][std::size_t(at.b)] || at.j <= at.position;
    }
};

struct DocumentsFormula : PlainFormula {
    static constexpr const char *name = "documents";
    static constexpr bool square = true;
    static GivenCaptures captures(const UserSizes &s) {
        return {array_of({s.batch, s.keys}, [&](Index n) { return (n % s.keys + n / s.keys * 5) / 23; })};
    }
    template<typename R> static bool mask(const Pair &at, const Captured<R> &c) {
        const R *of = c[0].data() + at.b * at.keys;
        return of[at.i] == of[at.j] && at.j <= at.i;
    }
};

struct BlockDiagonalFormula : PlainFormula {
    static constexpr const char *name = "block_diagonal";
    static GivenCaptures captures(const UserSizes &s) { return {whole_number(std::max(s.keys, s.queries) / 3 + 1)}; }
    template<typename R> static bool mask(const Pair &at, const Captured<R> &c) {
        return at.i / Index(c[0][0]) == at.j / Index(c[0][0]);
    }
};

struct NeighbourhoodFormula : PlainFormula {
    static constexpr const char *name = "neighbourhood";
    static constexpr bool square = true;
    static GivenCaptures captures(const UserSizes &s) {
        Index width = Index(std::sqrt(double(s.keys)));
        while (s.keys % width) width--;
        return {whole_number(width), whole_number(std::min<Index>(3, width / 4))};
    }
    static bool near(Index of, Index cell, Index extent, Index reach) {
        const Index first = std::max<Index>(std::min(of - reach, extent - 2 * reach - 1), 0);
        return cell >= first && cell <= first + 2 * reach;
    }
    template<typename R> static bool mask(const Pair &at, const Captured<R> &c) {
        const Index width = Index(c[0][0]), reach = Index(c[1][0]);
        return near(at.i / width, at.j / width, at.keys / width, reach) && near(at.i % width, at.j % width, width, reach);
    }
};

struct ColumnIntervalsFormula : PlainFormula {
    static constexpr const char *name = "column_intervals";
    static constexpr bool square = true;
    static GivenCaptures captures(const UserSizes &s) {
        const Index answer = s.keys / 8 + 1;
        return {array_of({s.batch, s.key_heads, s.keys, 2}, [&](Index n) {
            const Index j = n / 2 % s.keys, head = n / 2 / s.keys % s.key_heads;
            const Index end = j < answer ? s.keys : j + answer - (j - answer) % answer;
            return n % 2 == 0 || head % 2 == 0 ? (n % 2 ? s.keys : end) : std::min(end + answer, s.keys);
        })};
    }
    template<typename R> static bool mask(const Pair &at, const Captured<R> &c) {
        constexpr Index key_heads = 2;  // of all cases
        const R *of = c[0].data() + ((at.b * key_heads + at.key_head) * at.keys + at.j) * 2;
        return at.j <= at.i && (R(at.i) < of[0] || R(at.i) >= of[1]);
    }
};

struct RbfTanhFormula : PlainFormula {
    static constexpr const char *name = "rbf_tanh";
    static GivenCaptures captures(const UserSizes &s) {
        return {array_of({s.heads}, [](Index h) { return 2 + 0.25 * double(h); }),
                array_of({s.heads}, [](Index h) { return 1 / double(h + 1); })};
    }
    template<typename R> static R score(R x, const Pair &at, const Captured<R> &c) {
        return c[0][std::size_t(at.h)] * std::tanh(std::exp(c[1][std::size_t(at.h)] * (x - 1)));
    }
};

struct TemperatureFormula : PlainFormula {
    static constexpr const char *name = "temperature";
    static GivenCaptures captures(const UserSizes &s) {
        return {array_of({s.heads}, [](Index h) { return 1 - 2 * double(h % 2); })};
    }
    template<typename R> static R score(R x, const Pair &at, const Captured<R> &c) {
        return x * std::exp(c[0][std::size_t(at.h)]);
    }
};

struct DistanceDropoutFormula : PlainFormula {
    static constexpr const char *name = "distance_dropout";
    static GivenCaptures captures(const UserSizes &s) {
        return {real_number(std::max(double(s.keys) / 8, 1.0)), whole_number(17), whole_number(3)};
    }
    static std::uint32_t random_bits(const Pair &at, std::uint32_t low, std::uint32_t high) {
        std::array<std::uint32_t, 4> c = {std::uint32_t(at.j / 4), std::uint32_t(at.i), std::uint32_t(at.b * at.heads + at.h),
                                          0};
        for (int round = 0; round < 10; round++, low += 0x9E3779B9, high += 0xBB67AE85) {
            const std::uint64_t x = std::uint64_t{0xD2511F53} * c[0], y = std::uint64_t{0xCD9E8D57} * c[2];
            c = {std::uint32_t(y >> 32) ^ c[1] ^ low, std::uint32_t(y), std::uint32_t(x >> 32) ^ c[3] ^ high, std::uint32_t(x)};
        }
        return c[std::size_t(at.j % 4)];
    }
    template<typename R> static R factor(const Pair &at, const Captured<R> &c) {
        // In float as in the struct, because this number decides which weights are kept.
        const float reach = float(c[0][0]), keep = reach / (reach + float(std::abs(at.i - at.j)));
        const std::uint32_t bits = random_bits(at, std::uint32_t(c[1][0]), std::uint32_t(c[2][0]));
        return float(bits >> 8) < keep * float(1 << 24) ? 1 / R(keep) : 0;
    }
};

// Everything of tests/user_attention/attentions.h. Captures: table, temperature, allowed, document, decay, cap, reach.
struct EverythingFormula : PlainFormula {
    static constexpr const char *name = "everything";
    static GivenCaptures captures(const UserSizes &s) {
        constexpr Index reach = 5;
        std::mt19937 random(7);
        std::normal_distribution<float> normal;
        return {array_of({s.heads, 2 * reach + 1}, [&](Index) { return normal(random); }),
                array_of({s.batch, s.heads}, [](Index n) { return 0.5 + 0.25 * double(n); }),
                array_of({s.queries, s.keys}, [&](Index n) { return n / s.keys != 3 && random() % 5 != 0; }),  // query 3: none
                array_of({s.batch, s.keys}, [&](Index n) { return (n % s.keys + 11 * (n / s.keys)) / 70; }),
                array_of({1}, [](Index) { return 0.75; }),
                real_number(1.5),
                whole_number(reach)};
    }
    template<typename R> static R score(R x, const Pair &at, const Captured<R> &c) {
        const Index reach = Index(c[6][0]), width = 2 * reach + 1;
        const R cap = c[5][0], bent = cap * std::tanh(x * c[1][std::size_t(at.b * at.heads + at.h)] / cap);
        const Index near = std::clamp<Index>(at.j - at.position + reach, 0, 2 * reach);
        return bent + c[0][std::size_t(at.h * width + near)] - R(0.3) * c[0][std::size_t(at.h * width + reach)];
    }
    template<typename R> static bool mask(const Pair &at, const Captured<R> &c) {
        const auto document = [&](Index j) { return c[3][std::size_t(at.b * at.keys + j)]; };
        return c[2][std::size_t(at.i * at.keys + at.j)] != 0 && document(at.j) == document(std::min(at.i, at.keys - 1));
    }
    template<typename R> static R factor(const Pair &at, const Captured<R> &c) {
        return std::exp(R(-0.07) * c[4][0] * R(std::abs(at.i - at.j)));
    }
};

}  // namespace attune_test
