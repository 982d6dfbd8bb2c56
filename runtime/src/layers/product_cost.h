// SPDX-License-Identifier: MIT
// The terms of a matrix product's predicted time (dispatch/cost.h).
#pragma once
#include "attune/linear.h"
#include "dispatch/cost.h"

namespace attune {

// Terms of products, sums over entries:
//   0 the call   1 tasks   2 multiply-adds, with those of padded tiles   4 tiles, once for each depth block
//   5 bytes of weights beyond a core's own cache, as often as they are read   6 the same beyond a shared cache
// and 3: weights that are packed; where none are, weights whose rows share sets of the first cache; of rank-k updates, weights
// that come from beyond the first cache. Of kernels for a device:
//   0 the call   1 turns over the depth of a tile   2 multiply-adds, padding included   3 tiles   4 turns of all tiles
//   5 bytes of weights, as often as a tile reads them   6 the same of x
// Two threads have more tasks than one, each of which packs its weights.
CostTerms product_terms(const ProductProblem &, const Runnable &, int threads = 1);

// Multiply-adds of a product, plus as many as it could make while it reads weights.
inline double work_of(const ProductProblem &p) {
    const double weights = static_cast<double>(p.columns) * static_cast<double>(p.depth) * static_cast<double>(p.entries);
    return weights * std::max(static_cast<double>(p.rows), multiply_adds_of_a_read);
}

// Threads that are worth waking for a product, of two.
inline int threads_worth(const ProductProblem &p) { return work_of(p) < work_of_two_threads ? 1 : 2; }

// How two threads share a product.
Sharing product_sharing(const ProductProblem &, const Runnable &);

// The predicted time of a product. Sizes of 0 count as 1.
inline double predicted_ns(const ProductProblem &problem, const Runnable &v) {
    ProductProblem p = problem;
    for (std::int64_t *size : {&p.entries, &p.rows, &p.columns, &p.depth}) *size = std::max(*size, std::int64_t(1));
    return product_sharing(p, v).time_ns(predicted_ns(v, product_terms(p, v, threads_worth(p))));
}

// The sizes of a variant's tiles and tasks, and the rows that a task has at least: packing weights for a task takes as long as
// multiplying eight rows by them, or some fifty by AMX tiles.
struct ProductTiles {
    std::int64_t rows, columns, task_rows, rows_at_least;
};
ProductTiles product_tiles(const VariantRecord &, std::int64_t rows, std::int64_t columns, std::int64_t task_rows);
// Tiles of rows that a task has at most, for a number of threads: each thread has some tasks, all nearly as long.
std::int64_t tiles_of_task(std::int64_t entries, std::int64_t rows, std::int64_t columns, const ProductTiles &, int threads);

}  // namespace attune
