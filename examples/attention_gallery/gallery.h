// SPDX-License-Identifier: MIT
// Entry of the gallery: its formula in double precision, captures for given sizes, and the calls of its library.
#pragma once
#include <attune/attune.h>
#include <attune/block_mask.h>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace gallery {

constexpr std::int64_t channels = 64;  // of query, key and value, the only head size of the libraries

struct Sizes {
    std::int64_t batch, heads, key_heads, queries, keys;
};

// A dense array, floats or integers, in C order; without extents a number.
struct Array {
    std::vector<std::int64_t> shape;
    std::vector<float> floats = {};
    std::vector<std::int32_t> integers = {};

    bool learned() const { return !shape.empty() && !floats.empty(); }  // learned captures have a gradient
    operator attune::View();
    operator attune::ConstView() const;
};
Array number(float), number(std::int32_t);
Array floats(std::vector<std::int64_t> shape);  // zeros
Array normal(std::vector<std::int64_t> shape, std::mt19937 &);

// One (query, key) pair, as in attune::Index.
struct Pair {
    std::int64_t b, h, i, j, position, key_head, heads, keys;
};

// A capture in the formula: its element at these indices, outermost first.
struct Numbers {
    std::vector<std::int64_t> shape;
    std::vector<double> data;

    template<typename... Indices> double operator()(Indices... indices) const {
        std::int64_t at = 0;
        std::size_t n = 0;
        ((at = at * shape[n++] + indices), ...);
        return data[static_cast<std::size_t>(at)];
    }
};
using Captures = std::vector<Numbers>;

// A call of a library.
struct Call {
    attune::Context &context;
    Array query, key, value, out, lse, grad_out;
    std::vector<Array> captures;
    Array grad_query, grad_key, grad_value;
    std::vector<Array> grad_captures;         // no extents where a capture is not learned
    attune::BlockMask *block_mask = nullptr;  // for entries with a mask

    Call(attune::Context &, const Sizes &, std::vector<Array> captures, std::mt19937 &);
    attune::SdpaForward forward();
    attune::SdpaGradients gradients();
};

struct Workload {
    std::string what;
    Sizes sizes;
    std::function<std::vector<Array>(const Sizes &)> captures = {};
};

struct Entry {
    std::string name;
    std::function<std::vector<Array>(const Sizes &)> captures = {};
    std::function<attune::Status(Call &, const attune::SdpaOptions &)> forward = {};
    std::function<attune::Status(Call &)> backward = {};

    // The formula, where it differs from plain attention.
    std::function<double(double x, const Pair &, const Captures &)> score = [](double x, auto &&...) { return x; };
    std::function<bool(const Pair &, const Captures &)> mask = [](auto &&...) { return true; };
    std::function<double(const Pair &, const Captures &)> probability = [](auto &&...) { return 1.0; };

    bool has_mask = false;
    Sizes checked = {2, 4, 2, 70, 90};
    std::int64_t pictured_heads = 1;
    bool pictures_scores = false;             // its picture depends on queries and keys; false: all are alike in it
    std::vector<Workload> more_timings = {};  // besides the workload of all entries
};

Entry alibi(), softcap(), relative_position(), sink_window(), prefix_lm(), documents(), block_diagonal(), neighbourhood(),
    column_intervals(), rbf_tanh(), temperature(), distance_dropout();

// Forward and gradients of sum(out * grad_out) by plain loops, and for each element the sum of the magnitudes of its terms.
struct Judged {
    std::vector<double> exact, size;
};
struct Plain {
    Judged out, lse, query, key, value;
    std::vector<Judged> captures;  // empty for captures that are not learned
    double largest_score = 0;      // sum of the magnitudes of the terms of a score
};
Plain evaluate(const Entry &, const Sizes &, const Call &);

// Weights (heads, queries, keys) as a small SVG; each row is scaled to its largest weight.
std::string picture(const std::string &title, const Sizes &, const std::vector<float> &weights);

}  // namespace gallery
