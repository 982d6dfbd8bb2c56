# SPDX-License-Identifier: MIT
# Ops of the library: for each the program that makes its kernels, its sources and its parameters. Read by the library's own
# build, and by projects that make kernels with an installed one.

# Features of the target of every kernel for a CPU, behind those of the processor. large_buffers: Halide 21 otherwise computes
# places in a buffer with 32 bits, so that 2^31 elements are the end; with it, only extents and strides have 32 bits.
set(ATTUNE_KERNEL_FEATURES -user_context-no_bounds_query-no_runtime-large_buffers)

# Parts: sources that are compiled once, for all programs that link them.
set(attune_part_generator_math generators/math/bf16_parts.cpp generators/math/exp2.cpp generators/math/philox.cpp
  generators/math/precise.cpp generators/math/tanh.cpp generators/math/transpose.cpp schedules/transpose.cpp
  schedules/amx_tiles.cpp)
# Parts of every program.
set(attune_part_lowering lowering/lower.cpp lowering/lowered_loop.cpp lowering/halide_patches/interval_bounds.cpp
  lowering/halide_patches/uses_variable.cpp
  lowering/instructions/powers.cpp lowering/passes/async_copies.cpp lowering/passes/bf16_dots.cpp
  lowering/passes/int8_matrix_products.cpp lowering/passes/broadcast_lanes.cpp lowering/passes/fused_products.cpp
  lowering/passes/load_tiles_past_l1.cpp
  lowering/passes/join_amx_tiles.cpp lowering/passes/lift_row_shifts.cpp lowering/passes/loop_barriers.cpp
  lowering/passes/mask_tail_loads.cpp lowering/passes/rounded_products.cpp
  lowering/passes/pin_stack_slots.cpp lowering/passes/places.cpp
  lowering/passes/prefetch.cpp lowering/passes/prefetch_next.cpp lowering/passes/prefetch_stores.cpp
  lowering/passes/thread_local_registers.cpp
  lowering/passes/trim_gpu_loops.cpp lowering/passes/whole_vectors.cpp)
set(attune_part_generator_main lowering/generator_main.cpp lowering/halide_patches/private_runtime.cpp)
set(attune_instruction_modules x86_avx512 x86_amx aarch64)  # in lowering/instructions
set(attune_part_argument_check generators/arguments/check_arguments.cpp generators/arguments/kernel_arguments.cpp)
set(attune_part_attention_generator generators/attention/equations/dropout.cpp
  generators/attention/equations/masked.cpp generators/attention/equations/score.cpp
  generators/attention/equations/score_units.cpp generators/attention/equations/scores.cpp
  generators/attention/equations/score_derivative.cpp generators/attention/equations/user_attention.cpp
  generators/attention/forward/builder.cpp generators/attention/forward/builder_dropout.cpp
  generators/attention/forward/builder_merge.cpp)
set(attune_part_sdpa_generator generators/attention/forward/blocked_stages.cpp
  generators/attention/forward/bf16_dot_stages.cpp generators/attention/forward/amx_stages.cpp
  generators/attention/forward/int8_stages.cpp generators/attention/forward/weights_stages.cpp
  generators/programs/sdpa_forms.cpp generators/programs/sdpa_generator.cpp
  schedules/sdpa/root.cpp schedules/sdpa/scores.cpp schedules/sdpa/tiles.cpp schedules/sdpa/prefill.cpp
  schedules/sdpa/bf16_dot.cpp schedules/sdpa/amx.cpp schedules/sdpa/decode.cpp schedules/sdpa/decode_parts.cpp
  schedules/sdpa/decode_values.cpp schedules/sdpa/decode_int8.cpp schedules/sdpa/split.cpp schedules/sdpa/weights.cpp
  schedules/sdpa/autoscheduled.cpp)
set(attune_part_sdpa_backward_generator generators/programs/sdpa_backward_forms.cpp
  generators/programs/sdpa_backward_generator.cpp
  generators/attention/backward/blocked_stages.cpp generators/attention/backward/scores.cpp
  generators/attention/backward/bf16_dot.cpp generators/attention/backward/amx.cpp generators/attention/backward/terms.cpp
  generators/attention/backward/captures.cpp generators/attention/backward/captured.cpp schedules/sdpa/backward.cpp
  schedules/sdpa/backward_amx.cpp schedules/sdpa/backward_terms.cpp)
# Parts of programs for devices (attune_device.cmake): lanes and warps need other forms than those of CPUs.
set(attune_part_sdpa_simt_generator generators/attention/gpu/simt_stages.cpp generators/attention/gpu/mma_fragments.cpp
  generators/attention/gpu/mma_stages.cpp generators/attention/gpu/online_softmax.cpp
  generators/attention/gpu/gradient_pairs.cpp generators/attention/gpu/simt_gradient_stages.cpp
  generators/attention/gpu/mma_gradient_stages.cpp generators/attention/gpu/lane_pairs.cpp
  generators/attention/gpu/capture_gradient_stages.cpp generators/attention/gpu/table_gradient_stages.cpp
  generators/attention/gpu/weights_simt_stages.cpp
  generators/programs/sdpa_simt_generator.cpp
  schedules/sdpa/simt_instructions.cpp schedules/sdpa/mma_instructions.cpp schedules/sdpa/cuda_simt.cpp
  schedules/sdpa/cuda_gradient.cpp schedules/sdpa/cuda_capture_gradient.cpp schedules/sdpa/cuda_table_gradient.cpp
  schedules/sdpa/cuda_weights.cpp schedules/sdpa/mma_block.cpp
  schedules/sdpa/cuda_mma.cpp schedules/sdpa/cuda_mma_gradient.cpp)
set(attune_part_masked_softmax_simt_generator generators/masked_softmax/masked_softmax_simt_stages.cpp
  generators/programs/masked_softmax_simt_generator.cpp schedules/masked_softmax/simt_instructions.cpp
  schedules/masked_softmax/cuda_simt.cpp)
set(attune_part_linear_simt_generator generators/linear/linear_simt_stages.cpp
  generators/programs/linear_simt_generator.cpp schedules/linear/cuda_simt.cpp)
set(attune_part_merge_simt_generator generators/merge/merge_simt_stages.cpp generators/programs/merge_simt_generator.cpp
  schedules/merge/cuda_simt.cpp)
set(attune_part_rows_simt_generator generators/programs/rows_simt_generator.cpp schedules/transform_rows/cuda_simt.cpp)
set(attune_part_backward_rows_simt schedules/backward_rows/cuda_simt.cpp)
foreach(program sink_gradient_simt capture_sum_simt)
  set(attune_part_${program}_generator generators/programs/${program}_generator.cpp)
endforeach()
set(attune_part_mask_blocks_generator generators/mask_blocks/mask_blocks_stages.cpp)
set(attune_part_mask_blocks_program generators/programs/mask_blocks_generator.cpp schedules/mask_blocks/mask_blocks.cpp)
set(attune_part_describe_attention generators/programs/describe_attention.cpp)
set(attune_part_linear_stages generators/linear/linear_parts.cpp generators/linear/panel_stages.cpp
  generators/linear/row_stages.cpp generators/linear/amx_stages.cpp schedules/linear/linear_tasks.cpp schedules/linear/root.cpp
  schedules/linear/panels.cpp schedules/linear/bf16_dot_panels.cpp schedules/linear/rows.cpp schedules/linear/bf16_dot_rows.cpp
  schedules/linear/rank_k_update.cpp schedules/linear/amx.cpp schedules/linear/prefetch.cpp)
set(attune_part_linear_generator generators/programs/linear_generator.cpp)
set(attune_part_pack_linear_weight_generator generators/programs/pack_linear_weight_generator.cpp
  generators/linear/pack_stages.cpp schedules/linear/pack.cpp)
set(attune_part_batch_dot_generator generators/programs/batch_dot_generator.cpp)
set(attune_part_transposed_dot_generator generators/programs/transposed_dot_generator.cpp
  generators/transposed_dot/transposed_dot_stages.cpp schedules/transposed_dot/panels.cpp)
set(attune_part_masked_softmax_generator generators/programs/masked_softmax_generator.cpp
  generators/masked_softmax/masked_softmax_stages.cpp schedules/masked_softmax/root.cpp schedules/masked_softmax/rows.cpp)
set(attune_part_masked_softmax_backward_generator generators/programs/masked_softmax_backward_generator.cpp
  generators/masked_softmax_backward/masked_softmax_backward_stages.cpp schedules/masked_softmax_backward/rows.cpp)
set(attune_part_dropout_mask_generator generators/programs/dropout_mask_generator.cpp
  generators/dropout_mask/dropout_mask_stages.cpp schedules/dropout_mask/root.cpp schedules/dropout_mask/rows.cpp)
set(attune_part_merge_generator generators/programs/merge_generator.cpp generators/merge/merge_stages.cpp
  schedules/merge/root.cpp schedules/merge/rows.cpp)
set(attune_part_rows_stages generators/rows/row_stages.cpp generators/rows/transform_rows_stages.cpp
  generators/rows/transform_rows_backward_stages.cpp schedules/transform_rows/rows.cpp)
set(attune_part_rows_generator generators/programs/rows_generator.cpp)
set(attune_part_dequantise_rows_generator generators/programs/dequantise_rows_generator.cpp
  generators/rows/dequantise_rows_stages.cpp schedules/dequantise_rows/rows.cpp)
set(attune_part_convert_rows_generator generators/programs/convert_rows_generator.cpp
  generators/rows/convert_rows_stages.cpp schedules/convert_rows/rows.cpp)
set(attune_part_transform_rows_backward_generator generators/programs/transform_rows_backward_generator.cpp)
set(attune_part_max_magnitude_generator generators/programs/max_magnitude_generator.cpp
  generators/max_magnitude/max_magnitude_stages.cpp schedules/max_magnitude/root.cpp schedules/max_magnitude/rows.cpp)
set(attune_part_head_mean_generator generators/programs/head_mean_generator.cpp generators/head_mean/head_mean_stages.cpp
  schedules/head_mean/root.cpp schedules/head_mean/rows.cpp)
set(attune_part_weight_sums_generator generators/programs/weight_sums_generator.cpp
  generators/weight_sums/weight_sums_stages.cpp schedules/weight_sums/root.cpp schedules/weight_sums/rows.cpp)
set(attune_part_backward_rows_stages generators/attention/backward/row_stages.cpp schedules/backward_rows/backward_rows.cpp)
foreach(program backward_rows sink_gradient capture_sum)
  set(attune_part_${program}_generator generators/programs/${program}_generator.cpp)
endforeach()

# Programs: <name>.generator holds a generator of that name and these parts.
set(attune_program_sdpa sdpa_generator attention_generator generator_math)
set(attune_program_sdpa_backward sdpa_backward_generator attention_generator generator_math)
foreach(program backward_rows sink_gradient capture_sum)
  set(attune_program_${program} ${program}_generator backward_rows_stages generator_math attention_generator)
endforeach()
foreach(program rows transform_rows_backward)
  set(attune_program_${program} ${program}_generator rows_stages generator_math)
endforeach()
foreach(program linear batch_dot transposed_dot)
  set(attune_program_${program} ${program}_generator linear_stages generator_math)
endforeach()
foreach(program pack_linear_weight masked_softmax masked_softmax_backward dropout_mask max_magnitude merge head_mean
    weight_sums dequantise_rows convert_rows)
  set(attune_program_${program} ${program}_generator generator_math)
endforeach()

# Describes an op. Its generator gets schedule=, dtype=, a record's parameters, PARAMETERS; with ATTENTION head_dim= and kind=.
macro(attune_describe_op op program)
  if("${op}" MATCHES "^(user|variants)_")  # prefixes of attune_add_attention() and attune_add_variants()
    message(FATAL_ERROR "attune_describe_op(${op}): no op of the library may begin with ${CMAKE_MATCH_0}")
  endif()
  cmake_parse_arguments(A "ATTENTION" "" "PARAMETERS" ${ARGN})
  list(APPEND ATTUNE_OPS ${op})
  set(ATTUNE_OP_PROGRAM_${op} ${program})
  set(ATTUNE_OP_ATTENTION_${op} ${A_ATTENTION})
  set(ATTUNE_OP_PARAMETERS_${op} ${A_PARAMETERS})
endmacro()
set(ATTUNE_OPS "")
attune_describe_op(sdpa sdpa ATTENTION)
foreach(pair cosine gaussian additive additive_separable)
  attune_describe_op(${pair} sdpa ATTENTION PARAMETERS pair=${pair})
endforeach()
foreach(cache int8 int4)
  attune_describe_op(sdpa_${cache} sdpa ATTENTION PARAMETERS cache=${cache})
endforeach()
attune_describe_op(sdpa_backward sdpa_backward ATTENTION)
attune_describe_op(capture_gradient sdpa_backward ATTENTION PARAMETERS captures=true)
foreach(pair cosine gaussian additive)
  attune_describe_op(${pair}_backward sdpa_backward ATTENTION PARAMETERS pair=${pair})
  attune_describe_op(${pair}_capture_gradient sdpa_backward ATTENTION PARAMETERS pair=${pair} captures=true)
endforeach()
attune_describe_op(capture_sum_of_f64 capture_sum PARAMETERS of_f64=true)
foreach(op backward_rows sink_gradient capture_sum)
  attune_describe_op(${op} ${op})
endforeach()
attune_describe_op(linear_packed linear PARAMETERS packed=true)
attune_describe_op(transform_rows rows)
attune_describe_op(quantise_rows rows PARAMETERS quantised=true)
attune_describe_op(transform_rows_backward transform_rows_backward)
attune_describe_op(queries_to_kernel convert_rows)
attune_describe_op(out_of_kernel convert_rows PARAMETERS to_kernel=false)
foreach(op linear pack_linear_weight batch_dot transposed_dot masked_softmax masked_softmax_backward dropout_mask max_magnitude
    merge head_mean weight_sums dequantise_rows)
  attune_describe_op(${op} ${op})
endforeach()

# Ops whose kernels a call of the op runs, too.
set(attune_needs_backward backward_rows sink_gradient capture_sum capture_sum_of_f64)
set(attune_needs_additive additive_separable max_magnitude linear)
set(attune_needs_additive_separable additive)
foreach(op sdpa cosine gaussian)
  set(attune_needs_${op} batch_dot max_magnitude)
endforeach()
set(attune_needs_sdpa_backward sdpa capture_gradient ${attune_needs_backward})
foreach(pair cosine gaussian additive)
  set(attune_needs_${pair}_backward ${pair} ${pair}_capture_gradient ${attune_needs_backward})
endforeach()
set(attune_needs_linear_packed linear pack_linear_weight)
set(attune_needs_pack_linear_weight linear_packed)
set(attune_needs_transposed_dot batch_dot)
set(attune_needs_transform_rows quantise_rows)  # kv_append and paged_append run both
set(attune_needs_quantise_rows transform_rows max_magnitude)

# attune_choose_ops(result_ops result_dtypes): ATTUNE_ONLY_OPS and the ops that they need, and ATTUNE_ONLY_DTYPES; all where
# these are empty.
function(attune_choose_ops result_ops result_dtypes)
  set(ops ${ATTUNE_ONLY_OPS})
  if(NOT ops)
    set(ops ${ATTUNE_OPS})
  endif()
  set(chosen "")
  while(ops)
    list(POP_FRONT ops op)
    if(NOT op IN_LIST ATTUNE_OPS)
      message(FATAL_ERROR "ATTUNE_ONLY_OPS: no op ${op} in cmake/attune_ops.cmake (${ATTUNE_OPS})")
    elseif(NOT op IN_LIST chosen)
      list(APPEND chosen ${op})
      list(APPEND ops ${attune_needs_${op}})
    endif()
  endwhile()
  foreach(dtype IN LISTS ATTUNE_ONLY_DTYPES)
    if(NOT dtype MATCHES "^(f32|f64|bf16|f16)$")
      message(FATAL_ERROR "ATTUNE_ONLY_DTYPES: ${dtype}: must be of f32, f64, bf16, f16")
    endif()
  endforeach()
  set(dtypes f32 f64 bf16 f16)
  if(ATTUNE_ONLY_DTYPES)
    set(dtypes ${ATTUNE_ONLY_DTYPES})
  endif()
  set(${result_ops} ${chosen} PARENT_SCOPE)
  set(${result_dtypes} ${dtypes} bool PARENT_SCOPE)
endfunction()
