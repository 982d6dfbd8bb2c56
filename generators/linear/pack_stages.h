// SPDX-License-Identifier: MIT
// A weight packed in the places of packed_panels.h, with zeros where it has no column or no k. No tile, no vector width, no
// target. Loop names: n column in a panel, k depth (bf16: pair), p panel. Layout innermost first.
#pragma once
#include "generators/linear/packed_panels.h"
#include "generators/math/transpose.h"
#include <optional>

namespace attune {

struct PackStages {
    std::optional<BlockTranspose> transpose;  // with blocks
    Halide::Func packed;                      // (n, k, p): words of one element, or in bf16 of a pair

    Halide::Var n{"n"}, k{"k"}, p{"p"};
};

// The type of a word.
inline Halide::Type packed_word(const PackedPanels &panels) { return panels.pair() == 1 ? panels.type : Halide::Int(32); }

// `weight` is (k, n) and transposed in square blocks of side `block`; 0: element by element.
PackStages pack_stages(const Halide::Func &weight, const PackedPanels &, const Halide::Expr &columns, const Halide::Expr &depth,
                       int block);

}  // namespace attune
