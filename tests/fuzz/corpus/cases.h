// SPDX-License-Identifier: MIT
// Cases of the families of families/list.cpp that once failed.
#pragma once
#include "tests/fuzz/family.h"

namespace attune_fuzz {

inline constexpr CorpusCase cases[] = {
    {"append", "eights=yes keys=int4 norm=yes rows=12 spread=small type=f16",
     "the check: a row of both zeros has a minimum of either sign"},
    {"dense", "batch=2 head_dim=71 score=gaussian sinks=yes", "the check: one draw of one element is no sample of errors"},
    {"dense", "group=3 head_dim=20 queries=5 score=gaussian sinks=yes spread=large",
     "the check: errors of draws of different size are compared in units of each"},
    {"dense", "seed=97 variant=sdpa_f32_d128_zen5_prefill_medium", "the check: one draw of one element is no sample of errors"},
    {"additive", "batch=2 hidden=51 key_dim=11 key_heads=3 keys=5 queries=5 seed=63 w_key=yes",
     "the check: one draw of few elements is no sample of errors"},
    {"multi_head_gradients",
     "head_dim=24 key_heads=2 key_width=6 keys=5 lengths=per_batch out_width=46 queries=252 query_width=11 seed=161 type=f64",
     "the check: one draw of few elements is no sample of errors"},
    {"dense",
     "batch=3 causal=bottom_right keys=65 lengths=per_batch scale=zero type=f64 variant=sdpa_f64_d128_zen5_decode_rows1 "
     "window=yes window_left=0",
     "a KV block without keys had a maximum of -inf, which times a scale of 0 was NaN"},
    {"append", "head_dim=2 heads=2 keys=int4 rows=18 spread=small type=f16",
     "the check: a row of both zeros has a range of either sign"},
    {"dense", "head_dim=117 queries=7 score=gaussian sinks=yes variant=gaussian_f32_dany_generic_root_training",
     "the check: results below 2^-122, which a kernel may take for 0"},
    {"dense", "head_dim=107 keys=2 score=gaussian sinks=yes variant=gaussian_f32_dany_generic_root_training",
     "the check: results below 2^-122, which a kernel may take for 0"},
    {"gradients", "group=2 head_dim=98 key_heads=2 keys=139 scale=negative sinks=yes spread=large",
     "the check: gradients below 2^-122, which a kernel may take for 0"},
    {"dense", "alibi=standard key_heads=2 keys=2 scale=zero type=bf16 variant=sdpa_bf16_d64_zen5_bf16_dot_long_scored",
     "the check: weights of bf16 are exact to 3e-6, and lse is the logarithm of their sum"},
    {"gradients",
     "alibi=per_batch bias=1hi1 group=4 head_dim=27 hole=low keys=65 other_value_dim=yes queries=4 seed=76 value_dim=13 "
     "window=yes window_right=0",
     "the check: gradients that the plain computation does not know either, beside a bias of -1e9"},
    {"gradients", "batch=3 bias=b111 group=3 head_dim=47 hole=low keys=9 seed=21",
     "the check: gradients that the plain computation does not know either, beside a bias of -1e9"},
    {"additive_gradients",
     "b_score=yes group=3 hidden=9 keys=191 lengths=per_batch offsets=one queries=2 seed=32 w_query=yes w_score=yes",
     "the check: six weights, each within its roundings, whose parts of a gradient cancel to an 80th"},
};

}  // namespace attune_fuzz
