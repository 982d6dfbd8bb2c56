// SPDX-License-Identifier: MIT
// Sets of options for cases of attention: masks, and steps on scores. The sizes of a case are set before its options; it has
// two batch entries, and for score options four query heads on two key heads.
#pragma once
#include "tests/support/sdpa_case.h"
#include <functional>
#include <limits>

namespace attune_test {

using SetOption = std::function<void(SdpaCase &)>;

namespace option_sets {
using attune::Causal;
inline constexpr double minus_infinity = -std::numeric_limits<double>::infinity();
inline constexpr std::int64_t huge = std::int64_t(1) << 61;
inline constexpr std::int32_t most = 2147483647;

inline std::vector<SetOption> causal_masks() {
    return {
        [](SdpaCase &) {},
        [](SdpaCase &c) { c.causal = Causal::top_left; },
        [](SdpaCase &c) { c.causal = Causal::bottom_right; },
        [](SdpaCase &c) { c.causal = Causal::offset, c.offset = 0; },
        [](SdpaCase &c) { c.causal = Causal::offset, c.offset = c.keys / 2; },
        [](SdpaCase &c) { c.causal = Causal::offset, c.offset = -2; },
        [](SdpaCase &c) { c.causal = Causal::offset, c.offset = -c.queries; },  // no query has a key
        [](SdpaCase &c) { c.causal = Causal::offset, c.offset = huge; },
        [](SdpaCase &c) { c.causal = Causal::offset, c.offset = -huge; },
        [](SdpaCase &c) { c.causal = Causal::offset, c.offset = most; },
        [](SdpaCase &c) { c.causal = Causal::offset, c.offset = -std::int64_t(most) - 1; },
        [](SdpaCase &c) {
            c.causal = Causal::offset, c.offsets = {-1, std::int32_t(c.keys / 3)};
        },
        [](SdpaCase &c) {
            c.causal = Causal::offset, c.offsets = {most, -most - 1};
        },
        [](SdpaCase &c) { c.causal = Causal::bottom_right, c.offset = 1; },
    };
}
inline std::vector<SetOption> window_masks() {
    return {
        [](SdpaCase &c) {
            c.window = {0, 0};
        },
        [](SdpaCase &c) {
            c.window = {3, 0};
        },
        [](SdpaCase &c) {
            c.window = {0, 5};
        },
        [](SdpaCase &c) {
            c.window = {-1, 2};
        },
        [](SdpaCase &c) {
            c.window = {2, -1};
        },
        [](SdpaCase &c) {
            c.window = {huge, huge};
        },
        [](SdpaCase &c) {
            c.window = {c.keys / 3, c.keys / 4};
        },
        [](SdpaCase &c) {
            c.window = {1, 1}, c.offset = c.keys - 2;
        },
        [](SdpaCase &c) {
            c.window = {most, 0}, c.offset = most;
        },
        [](SdpaCase &c) {
            c.window = {2, 2}, c.offsets = {-3, std::int32_t(c.keys)};
        },
        [](SdpaCase &c) {
            c.window = {4, 4}, c.offset = huge;
        },
        [](SdpaCase &c) {
            c.window = {4, -1}, c.causal = Causal::bottom_right;
        },
        [](SdpaCase &c) {
            c.window = {4, -1}, c.causal = Causal::top_left;
        },
        [](SdpaCase &c) {
            c.window = {1, 3}, c.causal = Causal::bottom_right;
        },
    };
}
inline std::vector<std::int32_t> lens_per_query(const SdpaCase &c) {
    std::vector<std::int32_t> lens;
    for (std::int64_t n = 0; n < c.batch * c.queries; n++) lens.push_back(std::int32_t(n * 7919 % (c.keys + 1)));
    lens.front() = std::int32_t(c.keys), lens.back() = 0;
    return lens;
}
inline std::vector<SetOption> length_masks() {
    return {
        [](SdpaCase &c) {
            c.valid_lens = {std::int32_t(c.keys), 1};
        },
        [](SdpaCase &c) {
            c.valid_lens = {0, std::int32_t((c.keys + 1) / 2)};
        },
        [](SdpaCase &c) {
            c.valid_lens = {0, 0};
        },
        [](SdpaCase &c) { c.valid_lens = lens_per_query(c); },
        [](SdpaCase &c) {
            c.valid_lens = {std::int32_t(c.keys - 1), std::int32_t(c.keys / 2)}, c.causal = Causal::bottom_right;
        },
        [](SdpaCase &c) { c.valid_lens = lens_per_query(c), c.causal = Causal::top_left; },
        [](SdpaCase &c) {
            c.valid_lens = {3, std::int32_t(c.keys)}, c.window = {5, 5};
        },
        [](SdpaCase &c) {
            c.valid_lens = lens_per_query(c), c.window = {c.keys / 3, 2}, c.causal = Causal::bottom_right;
        },
        [](SdpaCase &c) {
            c.valid_lens = lens_per_query(c), c.window = {c.keys / 2, -1}, c.causal = Causal::offset;
            c.offsets = {std::int32_t(c.keys / 2), -1};
        },
    };
}

inline std::vector<SetOption> boolean_masks() {
    std::vector<SetOption> all;
    for (const char *shape : {"bhij", "hij", "ij", "j", "i1", "b11j", "1hi1", "b1ij", "b111", "1111", "b1i1"})
        all.push_back([shape](SdpaCase &c) { c.mask = shape; });
    all.push_back([](SdpaCase &c) { c.mask = "b1ij", c.strided_masks = true; });
    all.push_back([](SdpaCase &c) { c.mask = "ij", c.causal = Causal::bottom_right; });
    all.push_back([](SdpaCase &c) { c.mask = "hij", c.window = {5, 4}, c.valid_lens = {0, std::int32_t(c.keys)}; });
    return all;
}
inline std::vector<SetOption> biases() {
    std::vector<SetOption> all;
    for (const char *shape : {"bhij", "hij", "ij", "j", "i1", "b11j", "1h1j", "b1ij", "1h11", "b1i1"})
        all.push_back([shape](SdpaCase &c) { c.bias = shape; });
    for (double hole : {minus_infinity, -3.4e38, -1e9})
        for (const char *shape : {"bhij", "ij", "1hi1", "b11j"})
            all.push_back([=](SdpaCase &c) { c.bias = shape, c.hole = hole; });
    all.push_back([](SdpaCase &c) { c.bias = "bhij", c.strided_masks = true, c.hole = minus_infinity; });
    all.push_back([](SdpaCase &c) { c.bias = "ij", c.causal = Causal::bottom_right, c.hole = -3.4e38; });
    all.push_back([](SdpaCase &c) {
        c.bias = "b1ij", c.mask = "hij", c.window = {-1, 6}, c.valid_lens = {std::int32_t(c.keys), 1};
    });
    return all;
}
inline std::vector<SetOption> alibis() {
    std::vector<SetOption> all;
    for (Alibi alibi : {Alibi::standard, Alibi::per_head, Alibi::per_batch}) {
        all.push_back([=](SdpaCase &c) { c.alibi = alibi; });
        all.push_back([=](SdpaCase &c) { c.alibi = alibi, c.causal = Causal::top_left, c.strided_masks = true; });
        all.push_back([=](SdpaCase &c) { c.alibi = alibi, c.causal = Causal::bottom_right; });
    }
    for (std::int64_t heads : {1, 3, 6, 12})  // the standard slopes of heads that are no power of two
        all.push_back([=](SdpaCase &c) { c.query_heads = heads, c.key_heads = 1, c.alibi = Alibi::standard; });
    all.push_back([](SdpaCase &c) { c.alibi = Alibi::standard, c.offset = 3; });
    all.push_back([](SdpaCase &c) {
        c.alibi = Alibi::standard, c.offsets = {-2, std::int32_t(c.keys)}, c.causal = Causal::offset;
    });
    all.push_back([](SdpaCase &c) {
        c.alibi = Alibi::per_head, c.valid_lens = {std::int32_t(c.keys / 2), 0}, c.window = {9, 9};
    });
    return all;
}
inline std::vector<SetOption> caps_and_sinks() {
    std::vector<SetOption> all;
    for (double cap : {30.0, 5.0, 0.5, 1e-3, 1e6}) all.push_back([=](SdpaCase &c) { c.softcap = cap; });
    all.push_back([](SdpaCase &c) { c.softcap = 2, c.scale = 40.0, c.causal = Causal::bottom_right; });  // tanh is at its ends
    all.push_back([](SdpaCase &c) { c.sinks = true; });
    all.push_back([](SdpaCase &c) { c.sinks = c.strided_masks = true, c.causal = Causal::offset, c.offset = -2; });
    all.push_back([](SdpaCase &c) { c.sinks = true, c.valid_lens = {0, std::int32_t(c.keys / 2)}; });
    all.push_back([](SdpaCase &c) { c.sinks = true, c.mask = "ij", c.scale = -1.0; });
    return all;
}
inline std::vector<SetOption> everything() {
    const SetOption all = [](SdpaCase &c) {
        c.softcap = 6, c.bias = "hij", c.hole = minus_infinity, c.alibi = Alibi::standard, c.mask = "b1ij", c.sinks = true;
    };
    return {all,
            [=](SdpaCase &c) {
                all(c), c.causal = Causal::bottom_right, c.window = {c.keys / 2, -1};
            },
            [=](SdpaCase &c) {
                all(c), c.causal = Causal::top_left, c.valid_lens = {std::int32_t(c.keys), std::int32_t(c.keys / 3)};
                c.strided_masks = c.strided_lse = true;
            },
            [=](SdpaCase &c) {
                all(c), c.causal = Causal::offset, c.offsets = {std::int32_t(c.keys / 2), -1}, c.alibi = Alibi::per_batch;
                c.query_layout = c.out_layout = Layout::bshd, c.key_layout = Layout::padded, c.value_layout = Layout::fused;
            },
            [=](SdpaCase &c) { all(c), c.query_heads = 6, c.key_heads = 2, c.scale = -0.7; },
            [=](SdpaCase &c) { all(c), c.query_heads = 8, c.key_heads = 1, c.bias = "b11j", c.mask = "1hi1"; }};
}
inline std::vector<SetOption> dropouts() {
    return {[](SdpaCase &c) {
                c.dropout = {0.1, 1, 0};
            },
            [](SdpaCase &c) {
                c.dropout = {0.9, 0xfedcba9876543210ull, 0xffffffffu}, c.causal = Causal::bottom_right;
            },
            // Counters of a part of a larger call.
            [](SdpaCase &c) { c.dropout = {0.3, 5, 1, 7, 6, 3, 1000}, c.query_heads = 6, c.key_heads = 2; },
            [](SdpaCase &c) {
                c.dropout = {0.5, 6, 1, 0xfffffffeu, 0xfffffffdu, 1, 500}, c.softcap = 5, c.bias = "ij", c.mask = "b1ij";
                c.alibi = Alibi::standard, c.sinks = true, c.valid_lens = {std::int32_t(c.keys), std::int32_t(c.keys / 2)};
            },
            [](SdpaCase &c) {
                c.dropout = {1e-12, 3, 0};
            }};
}
inline std::vector<SetOption> options_of_scores(const std::vector<attune::Score> &scores) {
    std::vector<SetOption> all;
    for (attune::Score score : scores) {
        const SetOption plain = [score](SdpaCase &c) {
            c.score = score;
            if (score == attune::Score::general) c.key_dim = 4;
        };
        all.push_back(plain);
        all.push_back([=](SdpaCase &c) { plain(c), c.scale = 0.6, c.causal = Causal::bottom_right; });
        all.push_back([=](SdpaCase &c) {
            plain(c), c.softcap = 2, c.bias = "hij", c.alibi = Alibi::per_batch, c.sinks = true, c.dropout = {0.3, 3, 0};
            c.valid_lens = {0, 5};
        });
    }
    return all;
}

}  // namespace option_sets

}  // namespace attune_test
