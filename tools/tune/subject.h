// SPDX-License-Identifier: MIT
// What a command is about: an op of the library or a user's attention, with the shapes of its calls.
#pragma once
#include "cell.h"
#include "generators.h"
#include <optional>
#include <string>
#include <vector>

namespace attune::tune {

enum class Lengths { single, grouped };  // every shape of the file, or one for all lengths that are much alike (lengths.h)

struct Subject {
    std::string op, like;  // like: its own op, or that of the library which a user's attention has the parameters of
    std::string file;      // of the shapes
    std::vector<WeightedShape> shapes;
    std::size_t given = 0;  // shapes of the file; more than `shapes` where lengths are grouped (lengths.h)
    UserAttention user;
    std::vector<std::string> made_up;   // captures, with their extents
    std::vector<std::string> left_out;  // what is not tuned for, and why
};

// The shapes of the file, or those that the op has by itself; of a user's attention rows of `like`. Its module is made and
// loaded, and what is not given of its captures is made up. captures: "name=file.npy" or "name=number".
Subject find_subject(const std::string &name, const Generators &, const std::optional<std::string> &shapes,
                     const std::vector<std::string> &captures, Lengths);

}  // namespace attune::tune
