// SPDX-License-Identifier: MIT
// Cases of a user's attention on a shape, or of its gradients: the timed call, and the reference by root kernels of the same
// struct.
#pragma once
#include "attune/variants.h"
#include "bench/cases/case.h"
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace attune::tune {

// Captures by name: a number, or a .npy file.
using Captures = std::map<std::string, std::string>;

// A user's attention: the module that a worker loads, and the captures of its calls. Empty for the library's own ops.
struct UserAttention {
    std::string module;  // Generators::module()
    Captures captures;
    explicit operator bool() const { return !module.empty(); }
};

// Loads the module of attune_add_attention() for the tuner (Generators::module()). Throws MachineError if it cannot be loaded.
void load_attention(const std::string &module);

// Makes a case. `op` is an attention that is linked in or loaded, or its gradients ("recency_backward", by query, key and
// value); the shape has the columns of sdpa. The reference is root in f64, the bound twice the error of root in f32; so f64
// itself has no case. Throws InputError for f64, and for captures that are missing, unknown or do not match the struct.
std::unique_ptr<bench::Case> make_user_case(const std::string &op, const bench::Shape &, const Captures &);

// Makes a case of a user's attention, which has been loaded, or of the library's own ops.
std::unique_ptr<bench::Case> make_case(const std::string &op, const bench::Shape &, const UserAttention &);

// Awkward shapes: sizes around a variant's tiles and KV blocks, masks and lengths, all within the tuning shape, so that its
// captures serve them. With the options that the kind knows.
std::vector<bench::Shape> awkward_user_shapes(const VariantInfo &, const bench::Shape &);

}  // namespace attune::tune
