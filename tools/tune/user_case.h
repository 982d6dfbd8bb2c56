// SPDX-License-Identifier: MIT
// A user's attention on a shape, or its gradients: the call that is timed, and what root kernels of the same struct say is
// right.
#pragma once
#include "attune/variants.h"
#include "bench/cases/case.h"
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace attune::tune {

// By the name of a capture: a number, or a .npy file.
using Captures = std::map<std::string, std::string>;

// Of a user's attention: what a worker loads, and what its calls capture. Of the library's own ops: nothing.
struct UserAttention {
    std::string module;  // Generators::module()
    Captures captures;
    explicit operator bool() const { return !module.empty(); }
};

// Loads what attune_add_attention() makes for the tuner (Generators::module()). Throws MachineError if it cannot be loaded.
void load_attention(const std::string &module);

// `op` is an attention that is linked in or loaded, or its gradients ("recency_backward", by query, key and value); the shape
// is as those of sdpa, whatever its op. Right is what root in f64 says, as near as twice the error of root in f32; so there is
// no case for f64 itself. Throws InputError for that, and for captures that are missing, unknown or not as the struct has them.
std::unique_ptr<bench::Case> make_user_case(const std::string &op, const bench::Shape &, const Captures &);

// A case of a user's attention, which has been loaded, or of the library's own ops.
std::unique_ptr<bench::Case> make_case(const std::string &op, const bench::Shape &, const UserAttention &);

// Sizes around a variant's tiles and KV blocks, masks and lengths, all within the shape that is tuned for: captures that serve
// that one serve these. With a kind that knows more options, those too.
std::vector<bench::Shape> awkward_user_shapes(const VariantInfo &, const bench::Shape &);

}  // namespace attune::tune
