# SPDX-License-Identifier: MIT
# Inner loops of AArch64's targets (lowering/passes/broadcast_lanes.h) and of integer products, with the parameters that are
# shipped. They are read from the assembly, which needs no cross compiler.

# attune_check_inner_loops(NAME name GENERATOR program TARGET target EXPECT expectation... PARAMETERS key=value...)
# The expectations are those of scripts/inner_loops.py.
function(attune_check_inner_loops)
  cmake_parse_arguments(PARSE_ARGV 0 A "" "NAME;GENERATOR;TARGET" "EXPECT;PARAMETERS")
  attune_codegen_parameters(generator_parameters ${A_TARGET} "")
  string(REGEX REPLACE "[^a-z0-9]" "_" kernel inner_loops_${A_NAME})
  add_test(NAME codegen.inner_loops.${A_NAME} COMMAND ${ATTUNE_PYTHON} ${PROJECT_SOURCE_DIR}/scripts/inner_loops.py --check
    $<TARGET_FILE:${A_GENERATOR}.generator> ${CMAKE_CURRENT_BINARY_DIR} ${kernel} ${A_EXPECT} -- ${generator_parameters}
    ${A_PARAMETERS})
endfunction()

# f32 prefill: 18 accumulators of QK^T (12 queries by 6 keys), 24 of PV (12 queries by 8 channels). Three loops: QK^T of full
# KV blocks and of partial ones, PV of full ones. PV of a partial block, of 144 multiply-adds, is not among them: its steps are
# conditional, and its sums go through the stack.
attune_list_variants(sdpa arm64)
foreach(head_dim 64 128)
  set(key f32/${head_dim}/prefill/short/plain)
  attune_check_inner_loops(NAME prefill_${head_dim} GENERATOR sdpa TARGET arm64
    EXPECT loops=3 minimum=200 share=0.85 spills=0
    PARAMETERS schedule=prefill dtype=float32 head_dim=${head_dim} kind=plain ${ATTUNE_PARAMETERS_${key}})
endforeach()
# Decode: a key row of 64 channels, 16 vectors, is loaded once for 4 rows of queries, which take 64 products, 4 of them fmul.
attune_check_inner_loops(NAME decode_64 GENERATOR sdpa TARGET arm64
  EXPECT loops=2 minimum=60 loads=16
  PARAMETERS schedule=decode dtype=float32 head_dim=64 kind=plain ${ATTUNE_PARAMETERS_f32/64/decode/rows4/plain})
# Linear: 16 accumulators (4 rows by 16 columns).
attune_list_variants(linear arm64)
attune_check_inner_loops(NAME linear GENERATOR linear TARGET arm64
  EXPECT loops=1 minimum=100 share=0.8 spills=0
  PARAMETERS schedule=panels dtype=float32 ${ATTUNE_PARAMETERS_f32/0/panels/many_rows/none})
# bf16 dot products (lowering/passes/bf16_dots.h): register tiles as of f32, each product of two terms. Decode loads a key row
# of 64 channels as 8 vectors, once for 4 rows of queries.
attune_list_variants(sdpa arm64_bf16)
foreach(head_dim 64 128)
  attune_check_inner_loops(NAME bf16_prefill_${head_dim} GENERATOR sdpa TARGET arm64_bf16
    EXPECT loops=3 minimum=200 share=0.83 spills=0 products=bfdot
    PARAMETERS schedule=bf16_dot dtype=bfloat16 head_dim=${head_dim} kind=plain
      ${ATTUNE_PARAMETERS_bf16/${head_dim}/bf16_dot/long/plain})
endforeach()
attune_check_inner_loops(NAME bf16_decode_64 GENERATOR sdpa TARGET arm64_bf16
  EXPECT loops=2 minimum=30 loads=8 products=bfdot
  PARAMETERS schedule=decode dtype=bfloat16 head_dim=64 kind=plain ${ATTUNE_PARAMETERS_bf16/64/decode/rows4/plain})
attune_list_variants(sdpa_backward arm64_bf16)
attune_check_inner_loops(NAME bf16_backward GENERATOR sdpa_backward TARGET arm64_bf16
  EXPECT loops=4 minimum=200 share=0.75 spills=0 products=bfdot
  PARAMETERS schedule=bf16_dot dtype=bfloat16 head_dim=0 kind=plain ${ATTUNE_PARAMETERS_bf16/0/bf16_dot//plain})
attune_list_variants(linear arm64_bf16)
attune_check_inner_loops(NAME bf16_linear GENERATOR linear TARGET arm64_bf16
  EXPECT loops=1 minimum=100 share=0.8 spills=0 products=bfdot
  PARAMETERS schedule=bf16_dot dtype=bfloat16 ${ATTUNE_PARAMETERS_bf16/0/bf16_dot/many_rows/none})
# f16 rows that decode reads are converted by fcvtl where the target has f16 arithmetic, and by integer operations elsewhere.
attune_list_variants(sdpa arm64_dot)
attune_check_inner_loops(NAME f16_decode_64 GENERATOR sdpa TARGET arm64_dot
  EXPECT loops=2 minimum=60 share=0.4
  PARAMETERS schedule=decode dtype=float16 head_dim=64 kind=plain ${ATTUNE_PARAMETERS_f16/64/decode/rows4/plain})
# Integer products of int8 rows (generators/attention/forward/int8_stages.h): a key row of 64 channels is four vectors of bytes,
# which sdot multiplies with two digits of four rows; on x86-64 two vectors of int16.
attune_list_variants(sdpa_int8 arm64_dot)
attune_check_inner_loops(NAME int8_decode_64 GENERATOR sdpa TARGET arm64_dot
  EXPECT loops=4 minimum=16 products=sdot
  PARAMETERS schedule=decode cache=int8 dtype=bfloat16 head_dim=64 kind=plain ${ATTUNE_PARAMETERS_bf16/64/decode/rows4/plain})
# smmla multiplies two digits of four rows with two keys or channels of eight terms; values are 8 keys by 8 channels.
attune_list_variants(sdpa_int8 arm64_bf16)
attune_check_inner_loops(NAME int8_decode_64_bf16 GENERATOR sdpa TARGET arm64_bf16
  EXPECT loops=4 minimum=16 share=0.16 products=smmla
  PARAMETERS schedule=decode cache=int8 dtype=bfloat16 head_dim=64 kind=plain ${ATTUNE_PARAMETERS_bf16/64/decode/rows4/plain})
attune_list_variants(sdpa_int8 zen4)
attune_check_inner_loops(NAME int8_decode_64_zen4 GENERATOR sdpa TARGET zen4
  EXPECT loops=4 minimum=8 products=vpdpwssd
  PARAMETERS schedule=decode cache=int8 dtype=bfloat16 head_dim=64 kind=plain ${ATTUNE_PARAMETERS_bf16/64/decode/rows4/plain})
