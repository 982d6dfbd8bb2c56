// SPDX-License-Identifier: MIT
// Neighbourhood attention in two dimensions (NATTEN: Hassani et al., 2023): tokens are the cells of a grid, row by row, and a
// query sees the square of (2 reach + 1)^2 cells around its own, moved inwards at the edges.
#pragma once
#include <attune/generator/attention.h>

struct Neighbourhood {
    attune::Capture width{"width", Halide::Int(32), 0}, reach{"reach", Halide::Int(32), 0};
    Halide::Expr near(Halide::Expr of, Halide::Expr cell, Halide::Expr extent) const {
        const Halide::Expr first = clamp(of - reach(), 0, extent - 2 * reach() - 1);
        return cell >= first && cell <= first + 2 * reach();
    }
    Halide::Expr mask(attune::Index at) const {
        return near(at.i / width(), at.j / width(), at.keys / width()) && near(at.i % width(), at.j % width(), width());
    }
};
