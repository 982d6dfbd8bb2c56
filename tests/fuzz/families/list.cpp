// SPDX-License-Identifier: MIT
// Families and corpus of the functions of the library.
#include "tests/fuzz/corpus/cases.h"
#include "tests/fuzz/family.h"

namespace attune_fuzz {

std::span<const Family> families() {
    static constexpr Family all[] = {
        {"dense", 200, run_dense},
        {"gradients", 130, run_gradients},
        {"varlen", 60, run_varlen},
        {"varlen_gradients", 50, run_varlen_gradients},
        {"paged", 70, run_paged},
        {"quantised", 60, run_quantised},
        {"append", 60, run_append},
        {"cache", 40, run_cache},
        {"rows", 60, run_rows},
        {"linear", 60, run_linear},
        {"linear_gradients", 30, run_linear_gradients},
        {"softmax", 40, run_softmax},
        {"additive", 30, run_additive},
        {"additive_gradients", 20, run_additive_gradients},
        {"multi_head", 20, run_multi_head},
        {"multi_head_gradients", 20, run_multi_head_gradients},
        {"merge", 30, run_merge},
        {"dropout_mask", 20, run_dropout_mask},
    };
    return all;
}

std::span<const CorpusCase> corpus() { return cases; }

}  // namespace attune_fuzz
