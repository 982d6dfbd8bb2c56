// SPDX-License-Identifier: MIT
// Attentions that peers have, too, as a user of this library writes them (cells_users.py).
#pragma once
#include <attune/generator/attention.h>

struct Alibi {
    attune::Capture slopes{"slopes", 1};  // (Hq)
    Halide::Expr score(Halide::Expr x, attune::Index at) const {
        return x - slopes(at.h) * abs(Halide::cast<float>(at.position - at.j));
    }
};

struct Softcap {
    attune::Capture cap{"cap", 0};
    Halide::Expr score(Halide::Expr x, attune::Index) const { return cap() * tanh(x / cap()); }
};

struct Causal {
    Halide::Expr mask(attune::Index at) const { return at.j <= at.position; }
};

struct CausalAlibi : Alibi, Causal {};

struct Window {
    attune::Capture width{"width", Halide::Int(32), 0};
    Halide::Expr mask(attune::Index at) const { return at.j <= at.position && at.position - at.j < width(); }
};

struct Documents {
    attune::Capture document{"document", Halide::Int(32), 1};  // (Sk)
    Halide::Expr mask(attune::Index at) const { return document(at.i) == document(at.j); }
};
