// SPDX-License-Identifier: MIT
// The subject of a command: an op of the library or a user's attention, with the shapes of its calls.
#pragma once
#include "cell.h"
#include "generators.h"
#include <optional>
#include <string>
#include <vector>

namespace attune::tune {

enum class Lengths { single, grouped };  // every shape of the file, or one for all similar lengths (lengths.h)

struct Subject {
    std::string op, like;  // like: the op itself, or the library's op whose parameters a user's attention has
    std::string file;      // file of the shapes
    std::vector<WeightedShape> shapes;
    std::size_t given = 0;  // shapes of the file; more than `shapes` where lengths are grouped (lengths.h)
    UserAttention user;
    std::vector<std::string> made_up;   // captures, with their extents
    std::vector<std::string> left_out;  // shapes not tuned for, and why
};

// Finds a subject, with the shapes of the file or the op's own; for a user's attention rows of `like`, its module built and
// loaded, and missing captures made up. captures: "name=file.npy" or "name=number".
Subject find_subject(const std::string &name, const Generators &, const std::optional<std::string> &shapes,
                     const std::vector<std::string> &captures, Lengths);

}  // namespace attune::tune
