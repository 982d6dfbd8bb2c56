// SPDX-License-Identifier: MIT
// Attentions as users write them, for the tests: each kind of capture and member in some of them.
#pragma once
#include <attune/generator/attention.h>

// ALiBi with learned slopes, causal.
struct Alibi {
    attune::Capture slopes{"slopes", 1};  // (Hq)
    Halide::Expr score(Halide::Expr x, attune::Index at) const {
        return x - slopes(at.h) * abs(Halide::cast<float>(at.position - at.j));
    }
    Halide::Expr mask(attune::Index at) const { return at.j <= at.position; }
};

// A mask of keys alone, without gradients of captures.
struct EveryOther {
    attune::Capture step{"step", Halide::Int(32), 0};
    Halide::Expr mask(attune::Index at) const { return at.j % step() == 0; }
};

// A score without mask and captures.
struct Bent {
    Halide::Expr score(Halide::Expr x, attune::Index) const { return tanh(x); }
};

// A nonlinear score, a table that is read at two elements, a boolean buffer, scalars, constants that a float cannot hold, and a
// factor of the weights.
struct Everything {
    attune::Capture table{"table", 2};                         // (Hq, 2 reach + 1)
    attune::Capture temperature{"temperature", 2};             // (B, Hq)
    attune::Capture allowed{"allowed", Halide::Bool(), 2};     // (Sq, Sk)
    attune::Capture document{"document", Halide::Int(32), 2};  // (B, Sk)
    attune::Capture decay{"decay", 1};                         // (1)
    attune::Capture cap{"cap", 0};
    attune::Capture reach{"reach", Halide::Int(32), 0};

    Halide::Expr score(Halide::Expr x, attune::Index at) const {
        Halide::Expr bent = cap() * tanh(x * temperature(at.b, at.h) / cap());
        Halide::Expr near = clamp(at.j - at.position + reach(), 0, 2 * reach()), middle = Halide::Expr(reach());
        return bent + table(at.h, near) - 0.3 * table(at.h, middle);
    }
    Halide::Expr mask(attune::Index at) const {
        return allowed(at.i, at.j) && document(at.b, at.j) == document(at.b, min(at.i, at.keys - 1));
    }
    Halide::Expr probability(attune::Index at) const { return exp(-0.07 * decay(0) * abs(at.i - at.j)); }
};

// A mask alone, with a known interval: prefix-LM.
struct Prefix {
    attune::Capture prefix{"prefix", Halide::Int(32), 1};  // (B)
    Halide::Expr mask(attune::Index at) const { return at.j < prefix(at.b) || at.j <= at.position; }
};
